"""`mooring orphans`: volumes that no node can reach, the pods that wait for them, and remedies.

Read-only without `--apply`, which `cli.recovery` executes.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Unpack

import click

from mooring.api.kinds import CLAIM, NODE, POD, VOLUME
from mooring.cli import recovery, terminal
from mooring.cli.options import output_option
from mooring.cli.recovery import RecoveryFlags
from mooring.cli.sources import SourceFlags, cluster_objects, read, source_options
from mooring.cli.terminal import NONE, ClusterUnavailable, ExitCode, InvalidInput, age, table
from mooring.clock import SystemClock
from mooring.explain.orphans import Orphan, OrphanedClaim, Orphans
from mooring.explain.orphans import orphans as find_orphans

#: In the server's logs.
NAME: Final = recovery.COMPONENT


@click.command()
@click.option(
    "--plan", is_flag=True, help="Show which claims could be replaced by empty ones, every write, and what is lost."
)
@click.option(
    "--apply",
    "apply_it",
    is_flag=True,
    help="Replace these claims after a confirmation: the claims and their volumes are deleted, and the claims created.",
)
@click.option(
    "--confirm-lost",
    "lost_nodes",
    multiple=True,
    metavar="NODE",
    help="Confirm that the storage of this node is lost, with --plan or --apply; repeatable.",
)
@click.option("--yes", is_flag=True, help="Execute --apply without asking.")
@output_option("text", "wide", "json", "yaml")
@source_options
def orphans(
    output: str,
    plan: bool,
    apply_it: bool,
    lost_nodes: tuple[str, ...],
    yes: bool,
    **source: Unpack[SourceFlags],
) -> None:
    """Show PersistentVolumes that no node can reach, the claims and pods that wait for them, and remedies.

    Also claims whose volume is deleted, and claims whose selected node is deleted. Without --apply nothing is changed:
    every command that deletes data is shown with its consequences. --plan and --apply replace claims whose storage
    was lost with its node, for StorageClasses with the annotation mooring.dev/lost-storage.

    Exit codes: 0 when there are none; 1 when there are some; 2 when flags, files or kubeconfig are wrong; 3 when the
    cluster cannot be read, or nodes and volumes may not be listed. With --plan, 0 when all claims of unreachable
    volumes could be replaced; with --apply, 0 when all of them were.
    """
    if plan or apply_it:
        recovery.recover(source, output, RecoveryFlags(plan, apply_it, lost_nodes, yes))
        return
    if lost_nodes or yes:
        raise click.UsageError("--confirm-lost and --yes require --plan or --apply.")
    seen = read(source, (NODE, VOLUME, CLAIM, POD), component=NAME)
    for unseen in seen.unseen:
        if unseen.kind in (NODE, VOLUME):
            raise ClusterUnavailable(f"Orphans cannot be determined without all {unseen.kind.plural}: {unseen.reason}.")
        click.echo(f"note: not all is seen: {unseen}", err=True)
    objects = cluster_objects(seen)
    if not objects.of(NODE):
        raise InvalidInput("The objects contain no Node, so every volume would be reported as unreachable.")
    found = find_orphans(objects)
    if not terminal.echo_document(found, output):
        terminal.styled(found.verdict, fg="green" if found.ok else "red", bold=True)
        moment = SystemClock().now() if objects.moment is None else objects.moment
        for line in _lines(found, now=moment, wide=output == "wide"):
            click.echo(line)
    click.get_current_context().exit(ExitCode.OK if found.ok else ExitCode.PROBLEM)


def _lines(found: Orphans, *, now: float, wide: bool) -> Iterator[str]:
    if found.volumes:
        headings = ("VOLUME", "PHASE", "SIZE", "WHERE", "CLAIM", "PODS", "WAITING", "AGE")
        more = ("CLASS", "RECLAIM", "SINCE") if wide else ()
        yield ""
        yield from table([(*headings, *more), *(_row(orphan, now, wide=wide) for orphan in found.volumes)])
    if found.claims:
        yield ""
        rows = [(each.claim, each.phase, each.reason, _pods(each), _waiting(each, now)) for each in found.claims]
        yield from table([("CLAIM", "PHASE", "WHY", "PODS", "WAITING"), *rows])
    helped = [
        *((f"volume {orphan.volume}", orphan.remedy_texts) for orphan in found.volumes),
        *((f"claim {claim.claim}", claim.remedy_texts) for claim in found.claims),
    ]
    if helped:
        yield from ("", "what can be done (nothing was):")
    for what, remedy_texts in helped:
        yield f"  {what}"
        yield from (f"    - {each}" for each in remedy_texts)


def _row(orphan: Orphan, now: float, *, wide: bool) -> Sequence[str]:
    claim = orphan.claim
    gone = f" (no such node: {', '.join(orphan.missing_nodes)})" if orphan.missing_nodes else ""
    lost = f" (not ready: {', '.join(orphan.lost_nodes)})" if orphan.lost_nodes else ""
    cells = (
        orphan.volume,
        orphan.phase,
        orphan.size,
        f"{orphan.where}{gone}{lost}",
        claim.claim if claim is not None else NONE,
        _pods(claim) if claim is not None else NONE,
        _waiting(claim, now) if claim is not None else NONE,
        age(orphan.created, now),
    )
    return (*cells, orphan.storage_class or NONE, orphan.reclaim_policy, age(orphan.since, now)) if wide else cells


def _pods(claim: OrphanedClaim) -> str:
    return ",".join(each.pod.partition("/")[2] for each in claim.pods) or NONE


def _waiting(claim: OrphanedClaim, now: float) -> str:
    """Of the pod that waits longest."""
    since = [each.since for each in claim.pods if each.since is not None]
    return age(min(since, default=None), now)
