"""What can happen between a decision and a bound pod: each failure brings the pod back to the queue, and it runs.

The PV controller or the provisioner is made to stand still, so that the scheduler waits while others interfere.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest

from builders import Body, claim_body, class_body, pod_body, volume_body
from builders.drivers import DRIVER
from mooring.api import keys
from mooring.api.kinds import CLAIM, CSI_NODE, EVENT, NODE, POD, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.cluster.bootstrap import Layout
from mooring.sim.facts import reaches
from mooring.sim.faults import BadCall, Fault, FaultPlan, Pause, Trouble
from mooring.sim.world import World, simulate
from scenarios import in_world
from sim.mixtures import PROVISIONER
from sim.trials import BINDER, SCHEDULER

Interference = Callable[[World], Awaitable[None]]

#: Long enough to interfere, shorter than the scheduler's patience.
WAITING = Pause(BINDER, at=0.5, seconds=30.0)
NOT_MADE = Pause(PROVISIONER, at=0.5, seconds=30.0)
MADE = class_body(name="made", provisioner="local.standins.mooring.dev")


async def given(world: World) -> str:
    """The volume that the scheduler has given to the claim, once it has."""
    found: list[str] = []

    async def is_given() -> bool:
        found.extend(volume.name for volume in (await world.client.list(VOLUME)).items if volume.spec.claim_ref)
        return bool(found)

    assert await world.until(is_given, within=10)
    return found[0]


async def asked_for(world: World) -> str:
    """The node for which the scheduler has asked for a volume, once it has."""
    found: list[str] = []

    async def is_asked_for() -> bool:
        node = (await world.client.get(CLAIM, "claim-1", namespace="default")).selected_node
        found.extend([node] if node else [])
        return bool(found)

    assert await world.until(is_asked_for, within=10)
    return found[0]


async def delete_volume(world: World) -> None:
    await world.client.delete(VOLUME, await given(world))


async def make_claim_anew(world: World) -> None:
    await given(world)
    await world.client.delete(CLAIM, "claim-1", namespace="default")

    async def gone() -> bool:
        return not (await world.client.list(CLAIM)).items

    assert await world.until(gone, within=10)
    await in_world.create(world, claim_body())


async def clear_claim_ref(world: World) -> None:
    await world.client.patch(VOLUME, await given(world), MergePatch({"spec": {"claimRef": None}}))


async def clear_selected_node(world: World) -> None:
    await asked_for(world)
    await note_on_claim(world, None)


async def change_selected_node(world: World) -> None:
    chosen = await asked_for(world)
    await note_on_claim(world, "node-1" if chosen == "node-2" else "node-2")


async def note_on_claim(world: World, node: str | None) -> None:
    patch = MergePatch({"metadata": {"annotations": {keys.SELECTED_NODE: node}}})
    await world.client.patch(CLAIM, "claim-1", patch, namespace="default")


async def delete_the_smaller_volume(world: World) -> None:
    await world.clock.sleep(1.0)
    await world.client.delete(VOLUME, "local-node-1-1")


async def nothing(_: World) -> None:
    """The fault alone is enough."""


class Failure(NamedTuple):
    """One pod with one claim: what goes wrong, and what is said about it."""

    said: str
    faults: tuple[Fault, ...]
    interfere: Interference = nothing
    layout: Layout = Layout(local_volumes=1)
    #: What is there before anybody stands still: volumes and classes.
    before: tuple[Body, ...] = ()
    storage_class: str = "local"


LATE = BadCall(SCHEDULER, 1, Trouble.SLOW_REQUEST, 5.0)


def place(failure: Failure) -> list[str]:
    """What was said about the pod until it ran, beside its volume."""

    async def scenario(world: World) -> list[str]:
        await in_world.create(world, *failure.before)
        await world.clock.sleep(1.0)
        await in_world.create(world, claim_body(storage_class=failure.storage_class), pod_body(claims=["claim-1"]))
        await failure.interfere(world)
        assert await world.until(lambda: in_world.all_run(world, 1), within=800)
        pod = await world.client.get(POD, "pod-1", namespace="default")
        claim = await world.client.get(CLAIM, "claim-1", namespace="default")
        volume = await world.client.get(VOLUME, claim.spec.volume_name)
        assert reaches(await world.client.get(NODE, pod.spec.node_name), volume)
        events = (await world.client.list(EVENT, namespace="default")).items
        return [event.message for event in events if event.reason == "FailedScheduling"]

    return simulate(scenario, layout=failure.layout, plan=FaultPlan(failure.faults))


@pytest.mark.req("T16")
@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(
            Failure('pv "local-node-1-1" is being deleted', (WAITING,), delete_volume),
            id="the volume is deleted",
            marks=pytest.mark.req("T16.pv-deleted"),
        ),
        pytest.param(
            Failure('persistentvolumeclaim "claim-1" not found', (WAITING,), make_claim_anew),
            id="the claim is deleted",
            marks=pytest.mark.req("T16.pvc-deleted"),
        ),
        pytest.param(
            Failure('ClaimRef got reset for pv "local-node-', (WAITING,), clear_claim_ref),
            id="claimRef is cleared",
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
            id="the selected node is cleared",
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
            id="the selected node is changed",
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
            Failure("the object has been modified", (BadCall(SCHEDULER, 1, Trouble.OVERTAKEN),)),
            id="the volume has changed since the decision",
            marks=pytest.mark.req("T16.conflict"),
        ),
        pytest.param(
            Failure(
                'persistentvolumes "local-node-1-1" not found',
                (LATE,),
                delete_the_smaller_volume,
                layout=Layout(nodes=1, local_volumes=2),
            ),
            id="the write is refused",
            marks=pytest.mark.req("T16.api-error"),
        ),
    ],
)
def test_a_failure_brings_the_pod_back_and_it_runs_all_the_same(failure: Failure) -> None:
    told = place(failure)
    assert any(failure.said in message for message in told), told


async def move_the_node_for_a_while(world: World) -> None:
    await given(world)
    await world.client.patch(NODE, "node-1", labelled(keys.HOSTNAME, "elsewhere"))
    await stay_unbound(world)
    await world.client.patch(NODE, "node-1", labelled(keys.HOSTNAME, "node-1"))


async def move_the_volume_for_a_while(world: World) -> None:
    volume = await given(world)
    await world.client.patch(VOLUME, volume, labelled(keys.ZONE, "elsewhere"))
    await stay_unbound(world)
    await world.client.patch(VOLUME, volume, labelled(keys.ZONE, "zone-a"))


def labelled(key: str, value: str) -> MergePatch:
    return MergePatch({"metadata": {"labels": {key: value}}})


async def stay_unbound(world: World) -> None:
    """The claim is bound meanwhile, and the pod nevertheless waits."""
    await world.clock.sleep(60.0)
    assert (await world.client.get(CLAIM, "claim-1", namespace="default")).fully_bound
    assert (await world.client.get(POD, "pod-1", namespace="default")).spec.node_name == ""


async def take_no_volumes_for_a_while(world: World) -> None:
    await given(world)
    await world.client.patch(CSI_NODE, "node-1", limit(0))
    await stay_unbound(world)
    await world.client.patch(CSI_NODE, "node-1", limit(1))


def limit(count: int) -> MergePatch:
    return MergePatch({"spec": {"drivers": [{"name": DRIVER, "nodeID": "n", "allocatable": {"count": count}}]}})


OF_DRIVER = volume_body(name="driven", source={"csi": {"driver": DRIVER, "volumeHandle": "1"}})


@pytest.mark.req("T47")
@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(
            Failure("node affinity doesn't match node", (WAITING,), move_the_node_for_a_while, layout=Layout(nodes=1)),
            id="affinity",
            marks=pytest.mark.req("T47.affinity"),
        ),
        pytest.param(
            Failure(
                "zone labels don't match node",
                (WAITING,),
                move_the_volume_for_a_while,
                layout=Layout(nodes=1),
            ),
            id="zone",
            marks=pytest.mark.req("T47.zone"),
        ),
        pytest.param(
            Failure(
                f'takes no more volumes of driver "{DRIVER}"',
                (WAITING,),
                take_no_volumes_for_a_while,
                layout=Layout(nodes=1, local_volumes=0),
                before=(OF_DRIVER,),
            ),
            id="limits",
            marks=pytest.mark.req("T47.limits"),
        ),
    ],
)
def test_what_was_really_bound_is_looked_at_again_before_the_pod_is(failure: Failure) -> None:
    told = place(failure)
    assert any(failure.said in message for message in told), told
