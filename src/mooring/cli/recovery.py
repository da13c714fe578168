"""`mooring orphans --plan` and `--apply`: replaces claims whose storage was lost with their node."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import click
import msgspec

from mooring.api.errors import ApiError
from mooring.cli import terminal
from mooring.cli.runtime import api_errors_as, configure_logging, run_event_loop
from mooring.cli.sources import SourceFlags, cluster_objects, read, source_access
from mooring.cli.terminal import ClusterUnavailable, ExitCode, InvalidInput
from mooring.client.access import Access
from mooring.client.contract import Unreachable
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.explain.cluster_objects import EXPLAINED_KINDS
from mooring.explain.recovery import RecoveryPlan, recovery_plan
from mooring.pvcontroller.lost_storage_recovery import RecoveryProgress, StorageRecovery
from mooring.volumes.lost_storage import Confirmation
from mooring.volumes.lost_storage_record import MalformedRecovery, RecoveryConfigMap

#: In the server's logs.
COMPONENT: Final = "mooring-orphans"
#: Progress of a claim whose recovery failed with an error.
FAILED: Final = "Failed"


class RecoveryFlags(NamedTuple):
    plan: bool
    apply_it: bool
    #: Nodes whose storage the administrator confirms to be lost.
    lost_nodes: tuple[str, ...]
    yes: bool


class AppliedRecovery(msgspec.Struct, frozen=True):
    """What became of one claim, by its key, or by its volume's or record's name."""

    claim: str
    progress: str
    detail: str
    code: str = ""


class RecoveryReport(msgspec.Struct, frozen=True):
    plan: RecoveryPlan
    applied: tuple[AppliedRecovery, ...]


def recover(source: SourceFlags, output: str, flags: RecoveryFlags) -> None:
    """Print the plan, or execute it. Ends the process with an exit code."""
    if flags.apply_it and source["files"]:
        raise InvalidInput("--apply changes a cluster, and files were named: give --kubeconfig and --context.")
    if flags.apply_it and output != "text" and not flags.yes:
        raise InvalidInput(f"--apply -o {output} requires --yes, because the output cannot contain a question.")
    seen = read(source, EXPLAINED_KINDS, component=COMPONENT)
    for unseen in (each for each in seen.unseen if not each.is_optional):
        raise ClusterUnavailable(f"A recovery cannot be planned without all {unseen.kind.plural}: {unseen.reason}.")
    objects = cluster_objects(seen)
    plan = recovery_plan(objects, flags.lost_nodes)
    if not flags.apply_it:
        if not terminal.echo_document(plan, output):
            _echo_plan(plan)
        click.get_current_context().exit(ExitCode.PROBLEM if plan.refused else ExitCode.OK)
    if output == "text":
        _echo_plan(plan)
    # Standard output contains only the plan and the result.
    configure_logging("error")
    with api_errors_as(ClusterUnavailable):
        applied = run_event_loop(_apply(source_access(source), plan, flags))
    if not terminal.echo_document(RecoveryReport(plan, applied), output):
        click.echo("")
        for each in applied:
            click.echo(f"{each.claim}: {each.progress}: {each.detail}")
    done = all(each.progress == RecoveryProgress.DONE for each in applied)
    click.get_current_context().exit(ExitCode.OK if done and not plan.refused else ExitCode.PROBLEM)


def _echo_plan(plan: RecoveryPlan) -> None:
    terminal.styled(plan.verdict, fg="yellow" if plan.items else "green", bold=True)
    for line in _lines(plan):
        click.echo(line)


def _lines(plan: RecoveryPlan) -> Iterator[str]:
    for item in plan.items:
        yield ""
        yield f"claim {item.claim} on {item.node}"
        yield f"  loses: {item.loses}"
        yield f"  confirmed by: {item.confirmed_by}"
        yield from (f"  {number}. {step}" for number, step in enumerate(item.steps, 1))
        yield from (f"  then: {trial.verdict}" for trial in item.pods)
    if plan.refused:
        yield ""
        yield "left alone:"
    for refused in plan.refused:
        what = f"volume {refused.volume}" + (f" of claim {refused.claim}" if refused.claim else "")
        yield f"  {what}: {refused.code}: {refused.reason}"


async def _apply(access: Access, plan: RecoveryPlan, flags: RecoveryFlags) -> tuple[AppliedRecovery, ...]:
    """First continue what an earlier process began, then execute the plan. One failure does not stop the others."""
    client = HttpClient(access, component=COMPONENT, clock=SystemClock())
    try:
        recovery = StorageRecovery(client, SystemClock())
        unfinished = await recovery.records()
        if not plan.items and not unfinished:
            return ()
        if not flags.yes:
            _ask(plan, unfinished)
        known = Confirmation(nodes=flags.lost_nodes)
        done = [await _resumed(recovery, record, known) for record in unfinished]
        finished = {each.claim for each in done}
        planned = [item for item in plan.items if item.claim not in finished]
        return (*done, *[await _recovered(recovery, item.claim, item.volume, known) for item in planned])
    finally:
        await client.close()


def _ask(plan: RecoveryPlan, unfinished: Sequence[RecoveryConfigMap]) -> None:
    """Raises click.Abort."""
    continued = f" and continue {len(unfinished)} begun earlier" if unfinished else ""
    click.confirm(f"Delete and create {len(plan.items)} claims, and lose their data{continued}?", abort=True, err=True)


async def _resumed(recovery: StorageRecovery, record: RecoveryConfigMap, known: Confirmation) -> AppliedRecovery:
    try:
        outcome = await recovery.resume(record, known)
    except MalformedRecovery as error:
        return AppliedRecovery(record.key, FAILED, str(error))
    except (ApiError, Unreachable) as error:
        return AppliedRecovery(record.key, FAILED, str(error))
    code = outcome.refusal.code.value if outcome.refusal is not None else ""
    return AppliedRecovery(outcome.claim, outcome.progress.value, outcome.detail, code)


async def _recovered(recovery: StorageRecovery, claim: str, volume: str, known: Confirmation) -> AppliedRecovery:
    try:
        outcome = await recovery.recover(volume, known)
    except (ApiError, Unreachable) as error:
        return AppliedRecovery(claim, FAILED, f"{error}; run --apply again to continue")
    code = outcome.refusal.code.value if outcome.refusal is not None else ""
    return AppliedRecovery(claim, outcome.progress.value, outcome.detail, code)
