"""CreateVolume calls that are cut by a crash of the provisioner while their claims are deleted: no volume is leaked.

The claims are deleted while the provisioner is down, so that only its records know of the calls.
"""

from functools import partial
from itertools import count

import pytest

from mooring.api.kinds import CLAIM, POD
from mooring.cluster.bootstrap import Layout
from mooring.provisioner.provision.create import InFlightRecords
from support.builders import claim_body, pod_body
from support.scenarios import simulated
from support.simulation.cluster import SimulatedCluster
from support.simulation.csi_scenarios import PROVISIONER
from support.simulation.fault_scenario import FaultScenario, ScenarioResult, run
from support.simulation.faults import BadRpc, Crash, DriverFault, Fault, FaultPlan
from support.simulation.history import Noted
from support.simulation.storage import HostpathStorage, storage_differences

LAYOUT = Layout(nodes=2, local_volumes=0)
GI = 2**30
#: Claims of one pod: with rollback, those of several are held.
PODS = [pytest.param(1, False, id="one claim"), pytest.param(2, True, id="held claims")]


def has_crashed(cluster: SimulatedCluster) -> bool:
    return any(isinstance(entry, Noted) and "crashed after" in entry.what for entry in cluster.history.entries)


async def delete_while_down(storage: HostpathStorage, claims: int, cluster: SimulatedCluster) -> None:
    """Create a pod with claims; when the provisioner has crashed, delete them all."""
    names = [f"claim-{number}" for number in range(claims)]
    bodies = [*storage.objects(), *(claim_body(name=name, storage_class="fast", size="1Gi") for name in names)]
    for body in (*bodies, pod_body(name="pod", claims=names)):
        await simulated.create(cluster, body)

    async def crashed() -> bool:
        return has_crashed(cluster)

    if await cluster.until(crashed, within=20.0):
        await cluster.client.delete(POD, "pod", namespace="default", grace_seconds=0)
        for name in names:
            await cluster.client.delete(CLAIM, name, namespace="default")


def with_faults(claims: int, *faults: Fault, rollback: bool) -> ScenarioResult:
    storage = HostpathStorage(LAYOUT, rollback=rollback, fast=10 * GI)
    scenario = FaultScenario(
        LAYOUT,
        partial(delete_while_down, storage, claims),
        inspect=storage_differences,
        extra_components=storage.extra_components,
        can_provision=storage.can_provision,
    )
    return run(scenario, seed=1, plan=FaultPlan(faults, 0.01))


def crashes(result: ScenarioResult) -> int:
    return sum(isinstance(entry, Noted) and "crashed after" in entry.what for entry in result.history.entries)


@pytest.mark.req("R4.cut-call", "R4.excuse")
@pytest.mark.parametrize(("claims", "rollback"), PODS)
@pytest.mark.parametrize("restarts", [1, 2, 3])
def test_cut_calls_of_deleted_claims_leak_no_volume(claims: int, rollback: bool, restarts: int) -> None:
    """The provisioner crashes after any write, CreateVolume included, and after the next ones of its successors."""
    points = 0
    for n in count(1):
        faults = [Crash(PROVISIONER, n + later, 3.0) for later in range(restarts)]
        result = with_faults(claims, *faults, rollback=rollback)
        if not crashes(result):
            break
        assert result.violation is None, f"crash after write {n}: {result.violation}"
        points += 1
    assert points >= 6, "four objects of capacity, a record and a call"


@pytest.mark.req("R4.cut-call")
@pytest.mark.parametrize(("claims", "rollback"), PODS)
def test_calls_that_end_after_the_crash_leak_no_volume(claims: int, rollback: bool) -> None:
    """The driver completes the call long after its caller crashed."""
    late = BadRpc(PROVISIONER, "create_volume", 1, DriverFault.DONE_LATE, seconds=8.0)
    points = 0
    for n in range(1, 20):
        result = with_faults(claims, late, Crash(PROVISIONER, n, 3.0), rollback=rollback)
        assert result.violation is None, f"crash after write {n}: {result.violation}"
        points += bool(crashes(result))
    assert points >= 5


@pytest.mark.req("R4.excuse")
def test_check_reports_cut_calls_without_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without records a volume is leaked, and that its provisioner crashed is no excuse."""

    async def forget(_: InFlightRecords, __: object) -> bool:
        return True

    monkeypatch.setattr(InFlightRecords, "open", forget)
    found = [with_faults(1, Crash(PROVISIONER, n, 3.0), rollback=False).violation for n in range(1, 9)]
    assert [each.rule for each in found if each is not None] == ["no volume is leaked"]
