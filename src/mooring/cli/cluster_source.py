"""Where the objects of a cluster come from that a command looks at: files, or a live cluster, read with whatever
rights the reader has.

`source_options` puts the flags on a command, `read` follows them and hands out plain documents, as kubectl prints them.
What they mean is the caller's business; nothing is ever written.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict, TypeVar

import click

from mooring.cli.event_loop import run
from mooring.cli.exit_codes import ExitCode
from mooring.clock import SystemClock

if TYPE_CHECKING:
    from mooring.api.kinds import Kind
    from mooring.api.views.meta import ApiObject
    from mooring.client.access import Access
    from mooring.client.documents import Listed, Unseen

Command = TypeVar("Command", bound=Callable[..., Any])

#: Where kubectl looks for what names no namespace.
DEFAULT_NAMESPACE: Final = "default"


class UnusableSource(click.ClickException):
    """Files or kubeconfig make no sense: one sentence."""

    exit_code = ExitCode.USAGE


class ClusterUnavailable(click.ClickException):
    """The cluster cannot be asked, or does not answer this reader at all: one sentence."""

    exit_code = ExitCode.UNREACHABLE


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
    unseen: tuple["Unseen", ...] = ()
    #: When the cluster was looked at, in seconds since the epoch; None for files, which may be of any day.
    looked_at: float | None = None


def source_options(command: Command) -> Command:
    """`-f`, `--kubeconfig` and `--context`; without files the cluster is asked."""
    options = (
        click.option(
            "-f",
            "--filename",
            "files",
            multiple=True,
            metavar="FILE",
            help="Look at these objects instead of at a cluster: what kubectl get -o yaml or -o json prints; a folder "
            "of such files; - for standard input. May be given several times.",
        ),
        click.option(
            "--kubeconfig",
            default="",
            metavar="FILE",
            help="How to reach the cluster.  [default: KUBECONFIG, ~/.kube/config, the pod's own account]",
        ),
        click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig to use."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def read(
    flags: SourceFlags, kinds: Sequence["Kind[ApiObject]"], *, component: str, namespace: str = ""
) -> ClusterDocuments:
    """All documents of the files, or these kinds of the cluster.

    Where a kind may not be listed everywhere, it is in the namespace, by default the context's own. `component` says
    in the server's logs who asks. Raises UnusableSource and ClusterUnavailable.
    """
    if flags["files"]:
        if flags["kubeconfig"] or flags["context"]:
            raise UnusableSource("Files and a cluster were named: give either -f, or --kubeconfig and --context.")
        return ClusterDocuments(_read_files(flags["files"]), namespace or DEFAULT_NAMESPACE)
    return _read_cluster(access_of(flags), kinds, component, namespace)


def _read_files(files: tuple[str, ...]) -> tuple[tuple[str, object], ...]:
    from mooring.cli.dumps import UnreadableDump, documents

    try:
        return tuple(documents(files))
    except UnreadableDump as error:
        raise UnusableSource(f"{error}.") from error


def access_of(flags: SourceFlags) -> "Access":
    """The way to the cluster that the flags name. Raises UnusableSource."""
    from mooring.client.kubeconfig import Choice, KubeconfigError, load

    try:
        return load(flags["kubeconfig"], choice=Choice(context=flags["context"]))
    except KubeconfigError as error:
        raise UnusableSource(f"{error}; or give files with -f.") from error


def _read_cluster(
    access: "Access", kinds: Sequence["Kind[ApiObject]"], component: str, namespace: str
) -> ClusterDocuments:
    from mooring.api.errors import ApiError
    from mooring.client.contract import Unreachable
    from mooring.client.documents import list_documents

    clock = SystemClock()
    namespace = namespace or access.namespace

    async def listing() -> "Listed":
        return await list_documents(access, kinds, component=component, clock=clock, namespace=namespace)

    looked_at = clock.now()
    try:
        listed = run(listing())
    except Unreachable as error:
        raise ClusterUnavailable(f"Cannot use the API server: {error}.") from error
    except ApiError as error:
        raise ClusterUnavailable(f"The API server refuses us: {error.message}.") from error
    documents = tuple((access.server, document) for document in listed.documents)
    return ClusterDocuments(documents, namespace, listed.unseen, looked_at)
