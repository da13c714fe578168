"""`mooring simulate`: what would happen to a cluster, live or from files, with more objects, fewer nodes or others."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from mooring.cli import terminal
from mooring.cli.cluster_source import SourceFlags, UnusableSource, read
from mooring.cli.exit_codes import ExitCode
from mooring.clock import SystemClock

if TYPE_CHECKING:
    from mooring.cli.cluster_source import ClusterDocuments
    from mooring.cluster.bootstrap import Progress
    from mooring.sim.whatif.additions import Addition
    from mooring.sim.whatif.inventory import Inventory
    from mooring.sim.whatif.outcome import Outcome

#: In the server's logs.
NAME: Final = "mooring-simulate"
#: Something stays pending, is not made, does not leave its node, or is lost.
#: New objects between two collections, and collections between two of older ones.
_RARELY: Final = (100_000, 50, 50)


@click.command(short_help="Say what would happen to a cluster if.")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="Objects: what kubectl get -o yaml or -o json prints is there, what people write is new; a folder of such "
    "files; - for standard input. May be given several times.",
)
@click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help="Begin with the objects of this cluster; files add to them.",
)
@click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig to use, as --kubeconfig.")
@click.option("--live", is_flag=True, help="Begin with the cluster kubectl would use, although there are files.")
@click.option("-n", "--namespace", default="", help="Namespace of what --scale names.  [default: the context's]")
@click.option("--drain", multiple=True, metavar="NODE", help="Drain a node, as kubectl drain --ignore-daemonsets.")
@click.option("--remove-zone", multiple=True, metavar="ZONE", help="Lose all nodes of a zone, with what is on them.")
@click.option(
    "--add-node",
    multiple=True,
    metavar="TEMPLATE=COUNT",
    help="Add nodes like one that is there, or like the one in a file; with its storage, empty.",
)
@click.option(
    "--scale", multiple=True, metavar="KIND/NAME=COUNT", help="Give a StatefulSet, Deployment or ReplicaSet replicas."
)
@click.option(
    "--feature-gates",
    default="",
    metavar="NAME=true|false,...",
    help="Features to turn on or off, as components take them: ProvisioningRollback has a coordinator at work, "
    "ClaimRollback unused claims unbound.  [default: as the cluster's Leases and holds tell]",
)
@click.option("--seed", default=0, show_default=True, help="Decides between nodes that are equally good.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "wide", "json", "yaml"]),
    default="text",
    show_default=True,
    help="How to show it; wide shows every line.",
)
def simulate(
    files: tuple[str, ...],
    kubeconfig: str,
    context: str,
    live: bool,
    namespace: str,
    drain: tuple[str, ...],
    remove_zone: tuple[str, ...],
    add_node: tuple[str, ...],
    scale: tuple[str, ...],
    feature_gates: str,
    seed: int,
    output: str,
) -> None:
    """Say what would happen: which pods find which node and volume, which stay pending and why, what room is left.

    The real scheduler, PV controller, provisioner and workload controllers run in memory and on virtual time; no
    cluster is changed. Running pods stay where they are unless something moves them. Drivers are played: what they can
    make is what their CSIStorageCapacity objects say.

    Exit codes: 0 when everything finds its place; 1 when something stays pending, is not made, does not leave its node
    or is lost; 2 when flags or objects are wrong; 3 when the cluster cannot be asked.
    """
    from mooring.cli import logs
    from mooring.cli.progress_line import ProgressLine
    from mooring.control.feature_gates import BadGates, named
    from mooring.sim.whatif.answer import answer
    from mooring.sim.whatif.inventory import BadQuestion
    from mooring.sim.whatif.question import Question
    from mooring.sim.whatif.scaling import scaling

    logs.configure("error")
    try:
        gates = named(feature_gates)
    except BadGates as error:
        raise click.BadParameter(str(error), param_hint="--feature-gates") from error
    with _rare_collections(), ProgressLine(SystemClock()) as progress:
        given = _given(SourceFlags(files=files, kubeconfig=kubeconfig, context=context), live=live)
        place = namespace or given[0].namespace
        try:
            inventory = _inventory(given, progress)
            question = Question(
                inventory,
                drain=drain,
                remove_zones=remove_zone,
                additions=[_addition(text, inventory) for text in add_node],
                scalings=[scaling(text, namespace=place) for text in scale],
                seed=seed,
                gates=gates,
            )
            del given
            outcome = answer(question, progress)
        except BadQuestion as error:
            raise UnusableSource(f"{_sentence(str(error))}.") from error
    _note(inventory)
    _show(outcome, output)
    click.get_current_context().exit(ExitCode.OK if outcome.ok else ExitCode.PROBLEM)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Objects of large clusters all stay until the answer is given: looking them over again and again for some that
    could go takes a quarter of the time."""
    import gc

    before = gc.get_threshold()
    gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _given(flags: SourceFlags, *, live: bool) -> list["ClusterDocuments"]:
    """The cluster first, where one is asked, then the files."""
    from mooring.api.kinds import LEASE
    from mooring.sim.whatif.inventory import KINDS

    kinds = (*KINDS, LEASE)
    files = flags["files"]
    of_cluster: SourceFlags = {**flags, "files": ()}
    found = []
    if live or flags["kubeconfig"] or flags["context"] or not files:
        found.append(read(of_cluster, kinds, component=NAME))
    if files:
        found.append(read({"files": files, "kubeconfig": "", "context": ""}, kinds, component=NAME))
    return found


def _inventory(given: list["ClusterDocuments"], progress: "Progress") -> "Inventory":
    from mooring.explain.cluster_objects import MalformedObject, single
    from mooring.sim.whatif.inventory import BadQuestion, Inventory

    inventory = Inventory()
    for documents in given:
        for unseen in documents.unseen:
            click.echo(f"note: not all is seen: {unseen}", err=True)
        for origin, document in documents.documents:
            try:
                for _, _, body in single(document):
                    inventory.add(body)
                    progress("reading", len(inventory), 0)
            except (BadQuestion, MalformedObject) as error:
                raise BadQuestion(f"{origin}: {error}") from error
    return inventory


def _addition(text: str, inventory: "Inventory") -> "Addition":
    """What `TEMPLATE=COUNT` says."""
    from mooring.api.kinds import NODE
    from mooring.sim.whatif.additions import Addition
    from mooring.sim.whatif.inventory import BadQuestion

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


def _note(inventory: "Inventory") -> None:
    if inventory.skipped:
        counted = ", ".join(f"{count} {kind}" for kind, count in sorted(inventory.skipped.items()))
        click.echo(f"note: left out what takes no part: {counted}", err=True)


def _show(outcome: "Outcome", output: str) -> None:
    from mooring.cli.simulate_report import lines

    if output == "json":
        terminal.echo_json(outcome)
    elif output == "yaml":
        terminal.echo_yaml(outcome)
    else:
        terminal.styled(outcome.verdict, fg="green" if outcome.ok else "red", bold=True)
        for line in lines(outcome, wide=output == "wide"):
            click.echo(line)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".")
