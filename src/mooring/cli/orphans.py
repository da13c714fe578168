"""`mooring orphans`: volumes that no node can reach, who waits for them, and what can be done. Changes nothing."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Unpack

import click

from mooring.cli import terminal
from mooring.cli.cluster_source import ClusterUnavailable, SourceFlags, UnusableSource, read, source_options
from mooring.cli.exit_codes import ExitCode
from mooring.clock import SystemClock

if TYPE_CHECKING:
    from mooring.cli.cluster_source import ClusterDocuments
    from mooring.explain.cluster_objects import ClusterObjects
    from mooring.explain.orphans import Orphan, OrphanedClaim, Orphans

#: In the server's logs.
NAME: Final = "mooring-orphans"
NONE: Final = "-"


@click.command(short_help="Show volumes that no node can reach.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "wide", "json", "yaml"]),
    default="text",
    show_default=True,
    help="How to show it.",
)
@source_options
def orphans(output: str, **source: Unpack[SourceFlags]) -> None:
    """Show PersistentVolumes that no node can reach, the claims and pods that wait for them, and what can be done.

    Also claims whose volume is gone, and claims for which a node was chosen that is gone. Nothing is changed: what may
    be deleted only people know, and every command to do so is shown with what it costs.

    Exit codes: 0 when there are none; 1 when there are some; 2 when flags, files or kubeconfig are wrong; 3 when the
    cluster cannot be asked, or does not let its nodes and volumes be listed.
    """
    from mooring.api.kinds import CLAIM, NODE, POD, VOLUME
    from mooring.explain.orphans import orphans as found_in

    seen = read(source, (NODE, VOLUME, CLAIM, POD), component=NAME)
    for unseen in seen.unseen:
        if unseen.kind in (NODE, VOLUME):
            raise ClusterUnavailable(f"Without all {unseen.kind.plural} nothing can be said of orphans: {unseen.why}.")
        click.echo(f"note: not all is seen: {unseen}", err=True)
    objects = _objects(seen)
    if not objects.of(NODE):
        raise UnusableSource("There is no node among the objects, so that every volume would be an orphan.")
    found = found_in(objects)
    _show(found, output, now=objects.moment)
    click.get_current_context().exit(ExitCode.OK if found.ok else ExitCode.PROBLEM)


def _objects(seen: "ClusterDocuments") -> "ClusterObjects":
    from mooring.explain.cluster_objects import ClusterObjects, MalformedObject

    objects = ClusterObjects(now=seen.looked_at)
    for origin, document in seen.documents:
        try:
            objects.add(document)
        except MalformedObject as error:
            raise UnusableSource(f"{origin}: {error}.") from error
    return objects


def _show(found: "Orphans", output: str, *, now: float | None) -> None:
    if output == "json":
        terminal.echo_json(found)
    elif output == "yaml":
        terminal.echo_yaml(found)
    else:
        terminal.styled(found.verdict, fg="green" if found.ok else "red", bold=True)
        moment = SystemClock().now() if now is None else now
        for line in _lines(found, now=moment, wide=output == "wide"):
            click.echo(line)


def _lines(found: "Orphans", *, now: float, wide: bool) -> Iterator[str]:
    if found.volumes:
        headings = ("VOLUME", "PHASE", "SIZE", "WHERE", "CLAIM", "PODS", "WAITING", "AGE")
        more = ("CLASS", "RECLAIM", "SINCE") if wide else ()
        yield ""
        yield from _table([(*headings, *more), *(_row(orphan, now, wide=wide) for orphan in found.volumes)])
    if found.claims:
        yield ""
        rows = [(each.claim, each.phase, each.reason, _pods(each), _waiting(each, now)) for each in found.claims]
        yield from _table([("CLAIM", "PHASE", "WHY", "PODS", "WAITING"), *rows])
    helped = [
        *((f"volume {orphan.volume}", orphan.helps) for orphan in found.volumes),
        *((f"claim {claim.claim}", claim.helps) for claim in found.claims),
    ]
    if helped:
        yield from ("", "what can be done (nothing was):")
    for what, helps in helped:
        yield f"  {what}"
        yield from (f"    - {each}" for each in helps)


def _row(orphan: "Orphan", now: float, *, wide: bool) -> Sequence[str]:
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
        _age(orphan.created, now),
    )
    return (*cells, orphan.storage_class or NONE, orphan.reclaim_policy, _age(orphan.since, now)) if wide else cells


def _pods(claim: "OrphanedClaim") -> str:
    return ",".join(each.pod.partition("/")[2] for each in claim.pods) or NONE


def _waiting(claim: "OrphanedClaim", now: float) -> str:
    """How long the pod that has waited longest has."""
    since = [each.since for each in claim.pods if each.since is not None]
    return _age(min(since, default=None), now)


def _age(moment: str | None, now: float) -> str:
    from mooring.api.durations import UNKNOWN, human_duration
    from mooring.api.timestamps import from_time

    if moment is None:
        return NONE
    try:
        return human_duration(now - from_time(moment))
    except ValueError:
        return UNKNOWN


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
