"""`mooring simulate`: effects of added objects and added or removed nodes, from a cluster or files."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Unpack

import click

from mooring.api.kinds import LEASE, NODE
from mooring.cli import terminal
from mooring.cli.options import RenamedOption, gates_option, kubeconfig_options, namespace_option, output_option
from mooring.cli.runtime import ProgressLine, configure_logging
from mooring.cli.sources import ClusterDocuments, SourceFlags, files_option, note_unseen, read
from mooring.cli.terminal import NONE, ExitCode, InvalidInput, segment_text, table
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import Progress
from mooring.control.feature_gates import BadGates, named
from mooring.explain.cluster_objects import MalformedObject, each_object
from mooring.explain.text import listed_names
from mooring.whatif.additions import Addition
from mooring.whatif.inventory import KINDS, BadQuestion, Inventory
from mooring.whatif.question import WhatIfQuestion, scaling
from mooring.whatif.results import ClaimOutcome, PendingExplanation, PendingPod, Segment, SimulationResult
from mooring.whatif.run import answer

#: In the server's logs.
NAME: Final = "mooring-simulate"
#: New objects between two collections, and collections between two of older ones.
_RARELY: Final = (100_000, 50, 50)


@click.command()
@files_option(
    "Objects: output of kubectl get -o yaml or -o json is existing, manifests are new; a folder of such files; - for "
    "standard input. Repeatable. With --kubeconfig, --context or --from-cluster, added to that cluster's objects."
)
@kubeconfig_options
@click.option(
    "--from-cluster",
    cls=RenamedOption,
    former="--live",
    is_flag=True,
    help="Start from kubectl's current cluster even if files are given.",
)
@namespace_option("Namespace of the workloads in --scale.  [default: the context's]")
@click.option("--drain", multiple=True, metavar="NODE", help="Drain a node, as kubectl drain --ignore-daemonsets.")
@click.option(
    "--remove-zone", multiple=True, metavar="ZONE", help="Remove all nodes of a zone with their pods and local storage."
)
@click.option(
    "--add-node",
    multiple=True,
    metavar="TEMPLATE=COUNT",
    help="Add copies of an existing node, or of the Node in a file, with empty storage.",
)
@click.option(
    "--scale",
    multiple=True,
    metavar="KIND/NAME=COUNT",
    help="Set the replicas of a StatefulSet, Deployment or ReplicaSet.",
)
@gates_option(
    "Feature gates of the simulated components: ProvisioningRollback runs a coordinator, ClaimRollback unbinds unused "
    "claims.  [default: from the cluster's Leases and holds]"
)
@click.option("--seed", default=0, show_default=True, help="Seed of the choice between nodes of equal score.")
@output_option("text", "wide", "json", "yaml", note="; wide shows every line")
def simulate(
    from_cluster: bool,
    namespace: str,
    drain: tuple[str, ...],
    remove_zone: tuple[str, ...],
    add_node: tuple[str, ...],
    scale: tuple[str, ...],
    feature_gates: str,
    seed: int,
    output: str,
    **source: Unpack[SourceFlags],
) -> None:
    """Simulate changes: which pods get which node and volume, which stay pending and why, how much capacity remains.

    The real scheduler, PV controller, provisioner and workload controllers run in memory and on virtual time; no
    cluster is changed. Running pods stay on their node unless a change evicts them. Drivers are simulated: they
    provision as much as their CSIStorageCapacity objects report.

    Exit codes: 0 when all pods are scheduled; 1 when pods stay pending, are not created, are not evicted or are lost; 2
    when flags or objects are wrong; 3 when the cluster cannot be read.
    """
    configure_logging("error")
    try:
        gates = named(feature_gates)
    except BadGates as error:
        raise click.BadParameter(str(error), param_hint="--feature-gates") from error
    with _rare_collections(), ProgressLine(SystemClock()) as progress:
        given = _given(source, from_cluster=from_cluster)
        place = namespace or given[0].namespace
        try:
            inventory = _inventory(given, progress)
            question = WhatIfQuestion(
                inventory,
                drain=drain,
                remove_zones=remove_zone,
                additions=[_addition(text, inventory) for text in add_node],
                scalings=[scaling(text, namespace=place) for text in scale],
                seed=seed,
                gates=gates,
            )
            del given
            result = answer(question, progress)
        except BadQuestion as error:
            text = str(error).rstrip(".")
            raise InvalidInput(f"{text[:1].upper()}{text[1:]}.") from error
    if inventory.skipped:
        counted = ", ".join(f"{count} {kind}" for kind, count in sorted(inventory.skipped.items()))
        click.echo(f"note: left out what takes no part: {counted}", err=True)
    if not terminal.echo_document(result, output):
        terminal.styled(result.verdict, fg="green" if result.ok else "red", bold=True)
        for line in lines(result, wide=output == "wide"):
            click.echo(line)
    click.get_current_context().exit(ExitCode.OK if result.ok else ExitCode.PROBLEM)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Objects of large clusters live until the result is printed: collecting garbage takes a quarter of the time."""
    before = gc.get_threshold()
    gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _given(flags: SourceFlags, *, from_cluster: bool) -> list[ClusterDocuments]:
    """The documents of the cluster, if one is read, then those of the files."""
    kinds = (*KINDS, LEASE)
    files = flags["files"]
    of_cluster: SourceFlags = {**flags, "files": ()}
    found = []
    if from_cluster or flags["kubeconfig"] or flags["context"] or not files:
        found.append(read(of_cluster, kinds, component=NAME))
    if files:
        found.append(read({"files": files, "kubeconfig": "", "context": ""}, kinds, component=NAME))
    return found


def _inventory(given: list[ClusterDocuments], progress: Progress) -> Inventory:
    inventory = Inventory()
    for documents in given:
        note_unseen(documents)
        for origin, document in documents.documents:
            try:
                for _, _, body in each_object(document):
                    inventory.add(body)
                    progress("reading", len(inventory), 0)
            except (BadQuestion, MalformedObject) as error:
                raise BadQuestion(f"{origin}: {error}") from error
    return inventory


def _addition(text: str, inventory: Inventory) -> Addition:
    """From `TEMPLATE=COUNT`."""
    template, equals, count = text.rpartition("=")
    if not equals or not template or not count.isdecimal():
        raise BadQuestion(f"{text!r} does not say which nodes to add: write TEMPLATE=COUNT")
    if inventory.is_there(NODE, template):
        return Addition(template, int(count), inventory)
    if not Path(template).is_file():
        raise BadQuestion(f"there is neither a node nor a file {template} to add nodes like")
    found = read({"files": (template,), "kubeconfig": "", "context": ""}, (), component=NAME)
    written = _inventory([found], lambda *_: None)
    nodes = written.of(NODE)
    if len(nodes) != 1:
        raise BadQuestion(f"{template}: to add nodes like it, a file has to hold one Node, and it holds {len(nodes)}")
    return Addition(nodes[0].name, int(count), written)


#: Rows of a table, names of a line and lines of an explanation that are shown unless all are asked for.
ROWS: Final = 20
NAMES: Final = 5
LINES: Final = 8

Row = Sequence[str]


def lines(result: SimulationResult, *, wide: bool) -> Iterator[str]:
    """Without sections that would be empty."""
    most = None if wide else ROWS
    placed = [(each.pod, each.node, each.before or NONE, _volumes(each.claims)) for each in result.placements]
    sections = {
        "placed": [*_table(("POD", "NODE", "BEFORE", "VOLUMES"), placed, most)],
        "pending": [*_pending(result.pending, result.explanations, most)],
        "not made": [
            f"{one.workload} wants {one.desired} pods and has {one.pods}: {one.reason}" for one in result.shortfalls
        ],
        "not leaving": [f"{one.pod} stays on {one.node}: {one.reason}" for one in result.blocked],
        "lost": [f"{one.pod} was on {one.node}: {one.reason}" for one in result.lost],
        "room left": [*_capacity(result.capacity, wide=wide)],
        "different from now": [*_differences(result, wide=wide)],
    }
    for heading, rows in sections.items():
        if rows:
            yield from ("", f"{heading}:", *(f"  {row}" for row in rows))
    for note in result.notes:
        yield from ("", f"note: {note}")


def _volumes(claims: Sequence[ClaimOutcome]) -> str:
    made = {each.claim: f"new, {each.size} of {each.storage_class}" for each in claims if each.made}
    given = (f"{each.claim.rpartition('/')[2]}: {made.get(each.claim) or each.volume or 'none yet'}" for each in claims)
    return ", ".join(given) or NONE


def _pending(pending: Sequence[PendingPod], explained: Sequence[PendingExplanation], most: int | None) -> Iterator[str]:
    by_pod = {each.pod: each for each in explained}
    said: dict[str, list[PendingPod]] = {}
    for each in pending:
        said.setdefault(each.reason, []).append(each)
    for alike in [*said.values()][:most]:
        first = next((each for each in alike if each.pod in by_pod), alike[0])
        already = " (as before)" if all(each.already for each in alike) else ""
        yield f"{_names([each.pod for each in alike], None if most is None else NAMES)}{already}: {first.reason}"
        if first.pod in by_pod:
            yield from (f"    {line}" for line in _explanation(by_pod[first.pod], wide=most is None))
    if most is not None and len(said) > most:
        yield f"and {sum(map(len, [*said.values()][most:]))} more for other reasons; -o wide shows all"


def _explanation(explained: PendingExplanation, *, wide: bool) -> Iterator[str]:
    said = [line for paragraph in explained.paragraphs for line in paragraph.splitlines()]
    shown = said if wide else said[:LINES]
    yield from shown
    if len(shown) < len(said):
        yield "…"
    if explained.remedy_texts:
        yield "what would help:"
    yield from (f"  - {each}" for each in explained.remedy_texts)


def _capacity(capacity: Sequence[Segment], *, wide: bool) -> Iterator[str]:
    shown = [each for each in capacity if wide or each.before != each.after]
    rows = [
        (each.storage_class, segment_text(each.segment), str(each.nodes), each.before or NONE, each.after or NONE)
        for each in shown
    ]
    yield from _table(("CLASS", "SEGMENT", "NODES", "BEFORE", "AFTER"), rows, None if wide else ROWS)
    if unchanged := len(capacity) - len(shown):
        yield f"as before in {unchanged}{' more' if shown else ''} segment{'' if unchanged == 1 else 's'}"


def _differences(result: SimulationResult, *, wide: bool) -> Iterator[str]:
    most = None if wide else NAMES
    changed = result.difference
    for what, names in (
        ("nodes added", changed.nodes_added),
        ("nodes removed", changed.nodes_removed),
        ("nodes drained", changed.nodes_drained),
        ("pods new", changed.pods_added),
        ("pods moved", changed.pods_moved),
        ("pods gone", changed.pods_removed),
        ("claims bound", [each.partition(":")[0] for each in changed.claims_bound]),
        ("volumes gone", changed.volumes_removed),
    ):
        if names:
            yield f"{what}: {len(names)} ({_names(names, most)})"
    if changed.volumes_made:
        # Their names are generated: the number says all.
        yield f"volumes made: {len(changed.volumes_made)}"


def _names(names: Sequence[str], most: int | None) -> str:
    return listed_names(names, len(names) if most is None else most)


def _table(headings: Row, rows: Sequence[Row], most: int | None) -> Iterator[str]:
    if rows:
        yield from table([headings, *rows[:most]])
    if most is not None and len(rows) > most:
        yield f"and {len(rows) - most} more; -o wide shows all"
