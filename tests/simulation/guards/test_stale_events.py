"""Components that decide on stale caches and on assumptions that were not written."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from mooring.api import well_known
from mooring.api.kinds import POD
from mooring.cluster.bootstrap import Layout
from support.builders import Body, claim_body, class_body, pod_body, volume_body
from support.scenarios import simulated
from support.simulation.cluster import SimulatedCluster
from support.simulation.fault_scenario import FaultScenario, check
from support.simulation.faults import BadCall, BadWatch, DuplicateInstance, FaultPlan, RequestFault, WatchFault
from support.simulation.history import Noted
from support.simulation.scenarios import BINDER, SCHEDULER, all_pods_run


def arriving(*steps: tuple[float, Body]) -> Callable[[SimulatedCluster], Awaitable[None]]:
    async def apply(cluster: SimulatedCluster) -> None:
        for seconds, body in steps:
            await cluster.clock.sleep(seconds)
            await simulated.create(cluster, body)

    return apply


@pytest.mark.req("T35.no-lease")
@pytest.mark.parametrize("lost", range(2, 18, 2))
def test_stale_pv_controller_does_not_unbind_volume(lost: int) -> None:
    """1. Two controllers have observed an available volume.
    2. The first binds it to a claim; the second does not observe that, and its own writes for that claim are lost.
    3. Another claim is created: in the second controller's cache the volume is available.
    """
    second = f"{BINDER}-2"
    apply = arriving(
        (0.0, class_body(name="now", binding_mode="Immediate")),
        (0.0, volume_body(storage_class="now", node="node-1")),
        (1.0, claim_body(name="first", storage_class="now")),
        (1.0, claim_body(name="second", storage_class="now")),
    )
    # Its third watch is of volumes; the volume and its first phase are delivered.
    deaf = BadWatch(second, watch=3, after=2, effect=WatchFault.STALLED, seconds=8.0)
    dumb = [BadCall(second, call, RequestFault.LOST_REQUEST) for call in range(1, lost)]
    result = check(
        FaultScenario(Layout(local_volumes=0), apply),
        seed=0,
        plan=FaultPlan((DuplicateInstance(BINDER, 0.0), deaf, *dumb), latency=0.001),
    )
    fault_occurred = [entry.what for entry in result.history.entries if isinstance(entry, Noted)]
    assert "watch persistentvolumes: the watch stood still" in fault_occurred
    [volume] = result.facts.volumes.values()
    assert volume.spec.claim_ref is not None
    assert volume.spec.claim_ref.name == "first"


@pytest.mark.req("T6.class-seen-late")
def test_pv_controller_waits_for_unobserved_class() -> None:
    """1. A class with delayed binding is created; the controller's watch of classes is stalled.
    2. A claim of that class is created, and a volume exists where its pod cannot be scheduled.
    """
    apply = arriving(
        (0.0, class_body(name="later")),
        (0.0, volume_body(name="here", storage_class="later", node="node-1")),
        (0.0, volume_body(name="there", storage_class="later", node="node-2", size="20Gi")),
        (1.0, claim_body(storage_class="later")),
        (1.0, pod_body(claims=["claim-1"], node_selector={well_known.HOSTNAME: "node-2"})),
    )
    # Its second watch is of classes; no event is delivered.
    deaf = BadWatch(BINDER, 2, 0, WatchFault.STALLED, seconds=5.0)
    result = check(
        FaultScenario(Layout(nodes=2, local_volumes=0), apply, expect=partial(all_pods_run, count=1)),
        seed=0,
        plan=FaultPlan((deaf,), latency=0.001),
    )
    fault_occurred = [entry.what for entry in result.history.entries if isinstance(entry, Noted)]
    assert "watch storageclasses: the watch stood still" in fault_occurred
    assert result.facts.claims["default/claim-1"].spec.volume_name == "there"


@pytest.mark.req("T13.restored")
def test_volume_of_failed_binding_is_available_again() -> None:
    """1. Both volumes are assumed for a pod.
    2. The write of the first conflicts: the second is never written.
    3. The pod is deleted.
    4. Another pod needs both volumes.
    """

    async def apply(cluster: SimulatedCluster) -> None:
        claims = [claim_body(name=name) for name in ("a", "b", "c", "d")]
        await simulated.create(cluster, *claims, pod_body(name="first", claims=["a", "b"]))
        await cluster.clock.sleep(0.5)
        await cluster.client.delete(POD, "first", namespace="default", grace_seconds=0)
        await simulated.create(cluster, pod_body(name="second", claims=["c", "d"]))

    # The coordinator's lease may be read before the write.
    plan = FaultPlan(tuple(BadCall(SCHEDULER, call, RequestFault.OVERTAKEN) for call in (1, 2)))
    result = check(FaultScenario(Layout(nodes=1, local_volumes=2), apply), seed=0, plan=plan)
    [pod] = result.facts.pods.values()
    assert (pod.name, pod.status.phase) == ("second", "Running")
