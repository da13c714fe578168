"""Objects of a cluster, from files or a live cluster, as plain documents. Never writes."""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypedDict

import click

from mooring.api import documents as api_documents
from mooring.api.documents import MalformedJson, MalformedYaml
from mooring.api.well_known import DEFAULT_NAMESPACE
from mooring.cli.options import Decorator, access_of, combined, kubeconfig_options
from mooring.cli.runtime import api_errors_as, run_event_loop
from mooring.cli.terminal import ClusterUnavailable, InvalidInput
from mooring.clock import SystemClock

if TYPE_CHECKING:
    from mooring.api.kinds import Kind
    from mooring.api.views.meta import ApiObject
    from mooring.client.access import Access
    from mooring.client.documents import UnlistedKind
    from mooring.explain.cluster_objects import ClusterObjects


class SourceFlags(TypedDict):
    """What click hands over for `source_options`."""

    files: tuple[str, ...]
    kubeconfig: str
    context: str


class ClusterDocuments(NamedTuple):
    """What there is to be seen: every document with its origin, and the kinds that could not all be seen."""

    documents: tuple[tuple[str, object], ...]
    #: The namespace meant where none is named.
    namespace: str
    unseen: tuple["UnlistedKind", ...] = ()
    #: When the cluster was looked at, in seconds since the epoch; None for files, which may be of any day.
    looked_at: float | None = None


def files_option(help_text: str) -> Decorator:
    return click.option("-f", "--filename", "files", multiple=True, metavar="FILE", help=help_text)


#: Without files the cluster is read.
source_options: Final = combined(
    files_option(
        "Files to read instead of a cluster: output of kubectl get -o yaml or -o json; a folder of such files; - for "
        "standard input. Repeatable."
    ),
    kubeconfig_options,
)


def read(
    flags: SourceFlags, kinds: Sequence["Kind[ApiObject]"], *, component: str, namespace: str = ""
) -> ClusterDocuments:
    """All documents of the files, or these kinds of the cluster.

    A kind that may not be listed in all namespaces is listed in `namespace`, by default the context's own. `component`
    is the user agent in the server's logs. Raises InvalidInput and ClusterUnavailable.
    """
    if flags["files"]:
        if flags["kubeconfig"] or flags["context"]:
            raise InvalidInput("Files and a cluster were named: give either -f, or --kubeconfig and --context.")
        return ClusterDocuments(tuple(documents(flags["files"])), namespace or DEFAULT_NAMESPACE)
    return _read_cluster(source_access(flags), kinds, component, namespace)


def source_access(flags: SourceFlags) -> "Access":
    """The cluster that the flags name. Raises InvalidInput."""
    return access_of(flags["kubeconfig"], flags["context"], hint="; or give files with -f.")


def note_unseen(seen: ClusterDocuments) -> None:
    for unseen in (each for each in seen.unseen if not each.is_optional):
        click.echo(f"note: not all is seen: {unseen}", err=True)


def cluster_objects(
    seen: ClusterDocuments, *also: Callable[[object], None], kinds: Sequence["Kind[ApiObject]"] = ()
) -> "ClusterObjects":
    """The documents as objects, of `kinds` besides those of every explanation; every valid document is passed to
    `also`, too. Raises InvalidInput."""
    from mooring.explain.cluster_objects import ClusterObjects, MalformedObject

    unlisted = {each.kind: each.reason for each in seen.unseen}
    objects = ClusterObjects(now=seen.looked_at, unlisted=unlisted, also=kinds)
    for origin, document in seen.documents:
        try:
            for add in (objects.add, *also):
                add(document)
        except MalformedObject as error:
            raise InvalidInput(f"{origin}: {error}.") from error
    return objects


def _read_cluster(
    access: "Access", kinds: Sequence["Kind[ApiObject]"], component: str, namespace: str
) -> ClusterDocuments:
    from mooring.client.documents import list_documents

    clock = SystemClock()
    namespace = namespace or access.namespace

    looked_at = clock.now()
    with api_errors_as(ClusterUnavailable):
        listed = run_event_loop(list_documents(access, kinds, component=component, clock=clock, namespace=namespace))
    documents = tuple((access.server, document) for document in listed.documents)
    return ClusterDocuments(documents, namespace, listed.unseen, looked_at)


#: Standard input, in the place of a file.
STDIN: Final = "-"
#: What a folder is searched for.
SUFFIXES: Final = (".yaml", ".yml", ".json")


def documents(sources: Sequence[str]) -> Iterator[tuple[str, object]]:
    """Every document of the sources, with the name of its file. Raises InvalidInput."""
    for name, raw in contents(sources):
        yield from parsed(name, raw)


def contents(sources: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Every file of the sources as it is, with its name. Raises InvalidInput."""
    for source in sources:
        if source == STDIN:
            yield "standard input", sys.stdin.buffer.read()
            continue
        for path in _files(Path(source)):
            try:
                yield str(path), path.read_bytes()
            except OSError as error:
                raise InvalidInput(f"{path}: {error.strerror}.") from error


def _files(path: Path) -> Sequence[Path]:
    if not path.is_dir():
        return [path]
    try:
        found = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}.") from error
    if not found:
        raise InvalidInput(f"{path}: the folder holds no {', '.join(SUFFIXES)} files.")
    return found


def parsed(name: str, raw: bytes) -> Iterator[tuple[str, object]]:
    """The documents of one file. Raises InvalidInput."""
    if raw.lstrip()[:1] == b"{":
        # JSON reads a hundred times faster as such than as the YAML it is too.
        try:
            yield name, api_documents.decode_json(raw)
            return
        except MalformedJson as error:
            if name.endswith(".json"):
                raise InvalidInput(f"{name}: not JSON: {error}.") from error
    try:
        found = list(api_documents.yaml_documents(raw))
    except MalformedYaml as error:
        raise InvalidInput(f"{name}: not YAML: {error}.") from error
    for document in found:
        # An empty document is what a separator too many leaves behind.
        if document is not None:
            yield name, document
