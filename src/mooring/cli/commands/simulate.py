"""`mooring simulate`: effects of added objects and added or removed nodes, from a cluster or files."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Unpack

import click

from mooring.api.kinds import LEASE, NODE
from mooring.api.well_known import DEFAULT_NAMESPACE
from mooring.cli import terminal
from mooring.cli.options import (
    EXISTING_FILE,
    RenamedOption,
    duration,
    gates_option,
    kubeconfig_options,
    namespace_option,
    output_option,
    read_scheduler_configuration,
)
from mooring.cli.recording import record, replay_of
from mooring.cli.runtime import ProgressLine, configure_logging
from mooring.cli.simulation_text import Outcome, outcome_lines
from mooring.cli.sources import ClusterDocuments, SourceFlags, files_option, note_unseen, read
from mooring.cli.terminal import ExitCode, InvalidInput
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import Progress
from mooring.control.feature_gates import BadGates, named
from mooring.explain.cluster_objects import MalformedObject, each_object
from mooring.scheduler.registry import DEFAULT
from mooring.whatif.additions import Addition
from mooring.whatif.configurations import NamedProfiles, compare
from mooring.whatif.fill import FillResult, FillTarget, fill_result, fill_target
from mooring.whatif.fill import fill as fill_with
from mooring.whatif.inventory import KINDS, BadQuestion, Inventory
from mooring.whatif.node_groups import labelled_groups, which_group, with_published_storage
from mooring.whatif.node_search import CopiedNode, Simulate, fewest_nodes
from mooring.whatif.question import WhatIfQuestion, scaling
from mooring.whatif.rebalance import DEFAULT_MOVES, MAX_MOVES, plan_moves
from mooring.whatif.replay import MAX_LOAD_FACTOR
from mooring.whatif.results import SimulationResult
from mooring.whatif.run import answer, replayed, state_with

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
@namespace_option(
    "Namespace of the workloads in --scale and --fill and of the pod in --rebalance-for.  [default: the context's]"
)
@click.option(
    "--drain",
    multiple=True,
    metavar="NODE",
    help="Drain a node, as kubectl drain --ignore-daemonsets; PodDisruptionBudgets may block evictions. Repeatable.",
)
@click.option(
    "--drain-zone",
    multiple=True,
    metavar="ZONE",
    help="Drain all nodes of a zone, as --drain does; nodes and storage stay. Repeatable.",
)
@click.option(
    "--remove-zone",
    multiple=True,
    metavar="ZONE",
    help="Remove all nodes of a zone, their pods, and the storage capacity that no other node reaches. Repeatable.",
)
@click.option(
    "--add-node",
    multiple=True,
    metavar="TEMPLATE=COUNT",
    help="Add copies of an existing node, or of the Node in a file, with empty storage, named NODE-new-1 and so on. "
    "Repeatable.",
)
@click.option(
    "--add-until-placed",
    multiple=True,
    metavar="TEMPLATE",
    help="Find the fewest copies of an existing node, or of the Node in a file, with which no pod stays pending, "
    "including those that were pending before; at most 256. Repeatable: "
    "several templates are compared and, if none suffices alone, combined.",
)
@click.option(
    "--node-group",
    "node_groups",
    multiple=True,
    metavar="NAME=TEMPLATE",
    help="Find how many nodes of a node group help the pending pods; TEMPLATE is an existing node of the group, or a "
    "file with its Node. Repeatable: each node group is tried alone.",
)
@click.option(
    "--node-group-label",
    default="",
    metavar="KEY",
    help="As --node-group, for the node groups that the values of a node label name, such as "
    "eks.amazonaws.com/nodegroup; a ready node of each is copied.",
)
@click.option(
    "--fill",
    default="",
    metavar="KIND/NAME",
    help="Find how many more pods of a StatefulSet, Deployment or ReplicaSet, or copies of a Pod and its claims, "
    "fit, and what runs out; at most 1000.",
)
@click.option(
    "--rebalance-for",
    "rebalanced",
    default="",
    metavar="POD",
    help="Find the fewest pods to move from one node to others so that this pending pod runs; NAME or NAMESPACE/NAME.",
)
@click.option(
    "--max-moves",
    type=click.IntRange(1, MAX_MOVES),
    default=DEFAULT_MOVES,
    show_default=True,
    help="Most pods that --rebalance-for moves.",
)
@click.option(
    "--record",
    "record_file",
    type=click.Path(path_type=Path),
    help="Write a live cluster's objects and their changes into a new file, for --replay; ends with Ctrl-C.",
)
@click.option("--for", "record_seconds", type=duration, default="24h", show_default=True, help="Length of --record.")
@click.option(
    "--record-size",
    type=click.IntRange(1, 1 << 16),
    default=512,
    show_default=True,
    metavar="MIB",
    help="Largest size of the file of --record, in MiB; recording ends there.",
)
@click.option(
    "--replay",
    "replay_file",
    type=EXISTING_FILE,
    help="Simulate what a file of --record contains, instead of a cluster or files, and compare with what happened.",
)
@click.option(
    "--load-factor",
    type=click.IntRange(1, MAX_LOAD_FACTOR),
    default=1,
    show_default=True,
    help="How often each pod that came during the recording comes in --replay, with claims of its own.",
)
@click.option(
    "--scale",
    multiple=True,
    metavar="KIND/NAME=COUNT",
    help="Set the replicas of a StatefulSet (sts/NAME), Deployment (deploy/NAME) or ReplicaSet (rs/NAME). Repeatable.",
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    type=EXISTING_FILE,
    help="KubeSchedulerConfiguration of the simulated scheduler. Repeatable: several are compared.",
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
    drain_zone: tuple[str, ...],
    remove_zone: tuple[str, ...],
    add_node: tuple[str, ...],
    add_until_placed: tuple[str, ...],
    node_groups: tuple[str, ...],
    node_group_label: str,
    fill: str,
    rebalanced: str,
    max_moves: int,
    record_file: Path | None,
    record_seconds: float,
    record_size: int,
    replay_file: Path | None,
    load_factor: int,
    scale: tuple[str, ...],
    configs: tuple[Path, ...],
    feature_gates: str,
    seed: int,
    output: str,
    **source: Unpack[SourceFlags],
) -> None:
    """Simulate changes: which pods get which node and volume, which stay pending and why, how much capacity remains.

    The real scheduler, PV controller, provisioner and workload controllers run in memory and on virtual time; no
    cluster is changed. Running pods stay on their node unless a change evicts them. Drivers are simulated: they
    provision as much as their CSIStorageCapacity objects report.

    Pods of a PodGroup are scheduled together: for a group that stays pending, what limits it is shown, and what would
    let it fit.

    --add-until-placed and --fill ask for a number instead: of nodes that let all pods run, and of pods that fit.
    --node-group and --node-group-label ask which node group of an autoscaler would help, and with how many nodes.
    --rebalance-for asks which few pods to move for a pending one. With several --config, the result of each is shown
    side by side.

    --record writes what happens in a cluster into a file; --replay simulates that with the same pods, or more of them,
    and another configuration. Neither Secrets nor environment variables are recorded.

    Exit codes: 0 when all pods are scheduled, except those that were pending before; 1 when pods become pending, are
    not created, are not evicted or are lost; 2 when flags or objects are wrong; 3 when the cluster cannot be read.
    """
    configure_logging("error")
    by_group = bool(node_groups or node_group_label)
    replays = (record_file is not None, replay_file is not None)
    if sum((bool(fill), bool(rebalanced), bool(add_until_placed), by_group, len(configs) > 1, *replays)) > 1:
        raise InvalidInput(
            "--fill, --rebalance-for, --add-until-placed, --node-group, --record, --replay and several --config are "
            "different questions: ask one of them."
        )
    if any(replays) and source["files"]:
        raise InvalidInput("--record reads a cluster and --replay its own file: leave out -f.")
    if record_file is not None:
        record(source, record_file, component=NAME, seconds=record_seconds, mebibytes=record_size)
        return
    recorded = None if replay_file is None else replay_of(replay_file, load_factor)
    configured = [NamedProfiles(file.name, read_scheduler_configuration(file, DEFAULT).profiles) for file in configs]
    try:
        gates = named(feature_gates)
    except BadGates as error:
        raise click.BadParameter(str(error), param_hint="--feature-gates") from error
    with _rare_collections(), ProgressLine(SystemClock()) as progress:
        given = _given(source, from_cluster=from_cluster) if recorded is None else []
        place = namespace or (given[0].namespace if given else DEFAULT_NAMESPACE)
        try:
            inventory = _inventory(given, progress) if recorded is None else recorded.inventory()
            question = WhatIfQuestion(
                inventory,
                drain=drain,
                drain_zones=drain_zone,
                remove_zones=remove_zone,
                additions=[_addition(text, inventory) for text in add_node],
                scalings=[scaling(text, namespace=place) for text in scale],
                seed=seed,
                gates=gates,
                profiles=configured[0].profiles if configured else {},
            )
            del given
            found: Outcome
            if recorded is not None:
                recorded.schedulers = frozenset(question.profiles)
                found = recorded.result(replayed(question, recorded, progress))
            elif add_until_placed:
                found = fewest_nodes(
                    [_template(text, inventory) for text in add_until_placed], _simulating(question, progress)
                )
            elif by_group:
                groups = labelled_groups(inventory, node_group_label) if node_group_label else {}
                groups |= dict(_node_group(text, inventory) for text in node_groups)
                found = which_group(groups, _simulating(question, progress))
            elif rebalanced:
                key = rebalanced if "/" in rebalanced else f"{place}/{rebalanced}"
                found = plan_moves(key, lambda moved: state_with(question, moved, progress), most=max_moves)
            elif fill:
                found = _filled(question, fill_target(fill, namespace=place), progress)
            elif len(configured) > 1:
                found = compare(configured, inventory, lambda each: _configured(question, each, progress))
            else:
                found = answer(question, progress)
        except BadQuestion as error:
            text = str(error).rstrip(".")
            raise InvalidInput(f"{text[:1].upper()}{text[1:]}.") from error
    if inventory.skipped:
        counted = ", ".join(f"{count} {kind}" for kind, count in sorted(inventory.skipped.items()))
        click.echo(f"note: left out what takes no part: {counted}", err=True)
    if not terminal.echo_document(found, output):
        terminal.styled(found.verdict, fg="green" if found.ok else "red", bold=True)
        for line in outcome_lines(found, wide=output == "wide"):
            click.echo(line)
    click.get_current_context().exit(ExitCode.OK if found.ok else ExitCode.PROBLEM)


def _simulating(question: WhatIfQuestion, progress: Progress) -> Simulate:
    """The question with more nodes, from a copy of its objects each time."""

    def simulate(additions: Sequence[Addition]) -> SimulationResult:
        copied = replace(question, inventory=question.inventory.copied())
        return answer(replace(copied, additions=[*question.additions, *additions]), progress)

    return simulate


def _configured(question: WhatIfQuestion, given: NamedProfiles, progress: Progress) -> SimulationResult:
    copied = replace(question, inventory=question.inventory.copied(), profiles=given.profiles)
    return answer(copied, progress)


def _filled(question: WhatIfQuestion, target: FillTarget, progress: Progress) -> FillResult:
    tried = fill_with(question.inventory, target)
    return fill_result(target, tried, answer(question, progress))


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
    found = _template(template, inventory)
    return Addition(found.name, int(count), found.source)


def _template(template: str, inventory: Inventory) -> CopiedNode:
    """A node of the cluster, or the one in a file."""
    if inventory.is_there(NODE, template):
        return CopiedNode(template, inventory)
    if not Path(template).is_file():
        raise BadQuestion(f"there is neither a node nor a file {template} to add nodes like")
    found = read({"files": (template,), "kubeconfig": "", "context": ""}, (), component=NAME)
    written = _inventory([found], lambda *_: None)
    nodes = written.of(NODE)
    if len(nodes) != 1:
        raise BadQuestion(f"{template}: to add nodes like it, a file has to hold one Node, and it holds {len(nodes)}")
    return CopiedNode(nodes[0].name, with_published_storage(written, inventory))


def _node_group(text: str, inventory: Inventory) -> tuple[str, CopiedNode]:
    """From `NAME=TEMPLATE`."""
    name, equals, template = text.partition("=")
    if not equals or not name or not template:
        raise BadQuestion(f"{text!r} does not say which node represents the node group: write NAME=TEMPLATE")
    return name, _template(template, inventory)
