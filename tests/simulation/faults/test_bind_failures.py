"""Failures between a scheduling decision and the bound pod: each requeues the pod, and it runs.

The PV controller or the provisioner is paused, so that the scheduler waits while other clients interfere.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, CSI_NODE, EVENT, NODE, POD, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.cluster.bootstrap import Layout
from support.builders import Body, claim_body, class_body, pod_body, volume_body
from support.builders.drivers import DRIVER
from support.scenarios import simulated
from support.simulation.cluster import SimulatedCluster, simulate
from support.simulation.faults import BadCall, Fault, FaultPlan, Pause, RequestFault
from support.simulation.invariants import reaches
from support.simulation.mixtures import PROVISIONER
from support.simulation.scenarios import BINDER, PROTECTION, SCHEDULER

Interference = Callable[[SimulatedCluster], Awaitable[None]]

#: Long enough to interfere, shorter than the scheduler's bind timeout.
WAITING = Pause(BINDER, at=0.5, seconds=30.0)
#: The finalizer stays, so that the deleted volume is seen.
STILL_THERE = Pause(PROTECTION, at=0.5, seconds=30.0)
NOT_MADE = Pause(PROVISIONER, at=0.5, seconds=30.0)
MADE = class_body(name="made", provisioner="local.standins.mooring.dev")


async def reserved_volume(cluster: SimulatedCluster) -> str:
    """Wait for the volume that the scheduler reserves for the claim."""
    found: list[str] = []

    async def is_reserved() -> bool:
        found.extend(volume.name for volume in (await cluster.client.list(VOLUME)).items if volume.spec.claim_ref)
        return bool(found)

    assert await cluster.until(is_reserved, within=10)
    return found[0]


async def selected_node(cluster: SimulatedCluster) -> str:
    """Wait for the selected node of the claim."""
    found: list[str] = []

    async def is_selected() -> bool:
        node = (await cluster.client.get(CLAIM, "claim-1", namespace="default")).selected_node
        found.extend([node] if node else [])
        return bool(found)

    assert await cluster.until(is_selected, within=10)
    return found[0]


async def delete_volume(cluster: SimulatedCluster) -> None:
    await cluster.client.delete(VOLUME, await reserved_volume(cluster))


async def recreate_claim(cluster: SimulatedCluster) -> None:
    await reserved_volume(cluster)
    await cluster.client.delete(CLAIM, "claim-1", namespace="default")

    async def gone() -> bool:
        return not (await cluster.client.list(CLAIM)).items

    assert await cluster.until(gone, within=10)
    await simulated.create(cluster, claim_body())


async def clear_claim_ref(cluster: SimulatedCluster) -> None:
    await cluster.client.patch(VOLUME, await reserved_volume(cluster), MergePatch({"spec": {"claimRef": None}}))


async def clear_selected_node(cluster: SimulatedCluster) -> None:
    await selected_node(cluster)
    await set_selected_node(cluster, None)


async def change_selected_node(cluster: SimulatedCluster) -> None:
    chosen = await selected_node(cluster)
    await set_selected_node(cluster, "node-1" if chosen == "node-2" else "node-2")


async def set_selected_node(cluster: SimulatedCluster, node: str | None) -> None:
    patch = MergePatch({"metadata": {"annotations": {well_known.SELECTED_NODE: node}}})
    await cluster.client.patch(CLAIM, "claim-1", patch, namespace="default")


async def delete_the_smaller_volume(cluster: SimulatedCluster) -> None:
    await cluster.clock.sleep(1.0)
    await cluster.client.delete(VOLUME, "local-node-1-1")


async def nothing(_: SimulatedCluster) -> None:
    """No interference besides the fault."""


class Failure(NamedTuple):
    """One pod with one claim: the faults, and a part of the expected event message."""

    message: str
    faults: tuple[Fault, ...]
    interfere: Interference = nothing
    layout: Layout = Layout(local_volumes=1)
    #: Volumes and classes created before the pause.
    before: tuple[Body, ...] = ()
    storage_class: str = "local"


LATE = BadCall(SCHEDULER, 1, RequestFault.SLOW_REQUEST, 5.0)


def schedule(failure: Failure) -> list[str]:
    """FailedScheduling messages until the pod ran on a node with its volume."""

    async def scenario(cluster: SimulatedCluster) -> list[str]:
        await simulated.create(cluster, *failure.before)
        await cluster.clock.sleep(1.0)
        await simulated.create(cluster, claim_body(storage_class=failure.storage_class), pod_body(claims=["claim-1"]))
        await failure.interfere(cluster)
        assert await cluster.until(lambda: simulated.all_run(cluster, 1), within=800)
        pod = await cluster.client.get(POD, "pod-1", namespace="default")
        claim = await cluster.client.get(CLAIM, "claim-1", namespace="default")
        volume = await cluster.client.get(VOLUME, claim.spec.volume_name)
        assert reaches(await cluster.client.get(NODE, pod.spec.node_name), volume)
        events = (await cluster.client.list(EVENT, namespace="default")).items
        return [event.message for event in events if event.reason == "FailedScheduling"]

    return simulate(scenario, layout=failure.layout, plan=FaultPlan(failure.faults))


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(
            Failure('pv "local-node-1-1" is being deleted', (WAITING, STILL_THERE), delete_volume),
            id="volume deleted",
            marks=pytest.mark.req("T16.pv-deleted"),
        ),
        pytest.param(
            Failure('persistentvolumeclaim "claim-1" not found', (WAITING,), recreate_claim),
            id="claim deleted",
            marks=pytest.mark.req("T16.pvc-deleted"),
        ),
        pytest.param(
            Failure('ClaimRef got reset for pv "local-node-', (WAITING,), clear_claim_ref),
            id="claimRef cleared",
            marks=pytest.mark.req("T16.claimref-cleared"),
        ),
        pytest.param(
            Failure(
                'selectedNode annotation reset for PVC "claim-1"',
                (NOT_MADE,),
                clear_selected_node,
                before=(MADE,),
                storage_class="made",
            ),
            id="selected node cleared",
            marks=pytest.mark.req("T16.selected-node-cleared"),
        ),
        pytest.param(
            Failure(
                'provisioning failed for PVC "claim-1"',
                (NOT_MADE,),
                change_selected_node,
                before=(MADE,),
                storage_class="made",
            ),
            id="selected node changed",
            marks=pytest.mark.req("T16.selected-node-changed"),
        ),
        pytest.param(
            Failure(
                'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded',
                (Pause(BINDER, at=0.5, seconds=610.0),),
            ),
            id="not bound in time",
            marks=pytest.mark.req("T16.timeout"),
        ),
        pytest.param(
            Failure("the object has been modified", (BadCall(SCHEDULER, 1, RequestFault.OVERTAKEN),)),
            id="volume changed since the decision",
            marks=pytest.mark.req("T16.conflict"),
        ),
        pytest.param(
            Failure(
                'persistentvolumes "local-node-1-1" not found',
                (LATE,),
                delete_the_smaller_volume,
                layout=Layout(nodes=1, local_volumes=2),
            ),
            id="write rejected",
            marks=pytest.mark.req("T16.api-error"),
        ),
    ],
)
def test_pod_is_requeued_and_runs_after_bind_failure(failure: Failure) -> None:
    messages = schedule(failure)
    assert any(failure.message in message for message in messages), messages


async def relabel_node_temporarily(cluster: SimulatedCluster) -> None:
    await reserved_volume(cluster)
    await cluster.client.patch(NODE, "node-1", labelled(well_known.HOSTNAME, "elsewhere"))
    await wait_for_bound_claim_of_pending_pod(cluster)
    await cluster.client.patch(NODE, "node-1", labelled(well_known.HOSTNAME, "node-1"))


async def relabel_volume_temporarily(cluster: SimulatedCluster) -> None:
    volume = await reserved_volume(cluster)
    await cluster.client.patch(VOLUME, volume, labelled(well_known.ZONE, "elsewhere"))
    await wait_for_bound_claim_of_pending_pod(cluster)
    await cluster.client.patch(VOLUME, volume, labelled(well_known.ZONE, "zone-a"))


def labelled(key: str, value: str) -> MergePatch:
    return MergePatch({"metadata": {"labels": {key: value}}})


async def wait_for_bound_claim_of_pending_pod(cluster: SimulatedCluster) -> None:
    """The claim is bound, and the pod still waits."""
    await cluster.clock.sleep(60.0)
    assert (await cluster.client.get(CLAIM, "claim-1", namespace="default")).fully_bound
    assert (await cluster.client.get(POD, "pod-1", namespace="default")).spec.node_name == ""


async def lower_attach_limit_temporarily(cluster: SimulatedCluster) -> None:
    await reserved_volume(cluster)
    await cluster.client.patch(CSI_NODE, "node-1", limit(0))
    await wait_for_bound_claim_of_pending_pod(cluster)
    await cluster.client.patch(CSI_NODE, "node-1", limit(1))


def limit(count: int) -> MergePatch:
    return MergePatch({"spec": {"drivers": [{"name": DRIVER, "nodeID": "n", "allocatable": {"count": count}}]}})


OF_DRIVER = volume_body(name="driven", source={"csi": {"driver": DRIVER, "volumeHandle": "1"}})


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(
            Failure("node affinity doesn't match node", (WAITING,), relabel_node_temporarily, layout=Layout(nodes=1)),
            id="affinity",
            marks=pytest.mark.req("T47.affinity"),
        ),
        pytest.param(
            Failure(
                "zone labels don't match node",
                (WAITING,),
                relabel_volume_temporarily,
                layout=Layout(nodes=1),
            ),
            id="zone",
            marks=pytest.mark.req("T47.zone"),
        ),
        pytest.param(
            Failure(
                f'takes no more volumes of driver "{DRIVER}"',
                (WAITING,),
                lower_attach_limit_temporarily,
                layout=Layout(nodes=1, local_volumes=0),
                before=(OF_DRIVER,),
            ),
            id="limits",
            marks=pytest.mark.req("T47.limits"),
        ),
    ],
)
def test_bound_volume_is_checked_again_before_pod_binding(failure: Failure) -> None:
    messages = schedule(failure)
    assert any(failure.message in message for message in messages), messages
