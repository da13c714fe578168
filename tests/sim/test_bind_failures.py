"""What can happen between a decision and a bound pod: each failure brings the pod back to the queue, and it runs.

The PV controller is made to stand still, so that the scheduler waits for its volumes while the user interferes.
"""

from collections.abc import Awaitable, Callable

import pytest

from builders import claim_body, pod_body
from mooring.api import keys
from mooring.api.kinds import CLAIM, EVENT, NODE, POD, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.pod import Pod
from mooring.api.views.volume import Volume
from mooring.cluster.bootstrap import Layout
from mooring.sim.faults import BadCall, Fault, FaultPlan, Pause, Trouble
from mooring.sim.world import World, simulate
from scenarios import in_world
from sim.trials import BINDER, SCHEDULER

Interference = Callable[[World, Volume], Awaitable[None]]

#: Long enough to interfere, shorter than the scheduler's patience.
WAITING = Pause(BINDER, at=0.0, seconds=30.0)


async def volume_given(world: World) -> Volume:
    """The volume that the scheduler has given to the claim."""

    async def given() -> bool:
        return any(volume.spec.claim_ref for volume in (await world.client.list(VOLUME)).items)

    assert await world.until(given, within=10)
    [volume] = [volume for volume in (await world.client.list(VOLUME)).items if volume.spec.claim_ref]
    return volume


async def delete_volume(world: World, volume: Volume) -> None:
    await world.client.delete(VOLUME, volume.name)


async def make_claim_anew(world: World, _: Volume) -> None:
    await world.client.delete(CLAIM, "claim-1", namespace="default")

    async def gone() -> bool:
        return not (await world.client.list(CLAIM)).items

    assert await world.until(gone, within=10)
    await in_world.create(world, claim_body())


async def clear_claim_ref(world: World, volume: Volume) -> None:
    await world.client.patch(VOLUME, volume.name, MergePatch({"spec": {"claimRef": None}}))


async def nothing(_: World, __: Volume) -> None:
    """The fault alone is enough."""


def place(*faults: Fault, interfere: Interference = nothing, latency: float = 0.0) -> tuple[Pod, list[str]]:
    """One pod with one claim, three volumes on three nodes: the pod at the end, and what was said about it."""

    async def scenario(world: World) -> tuple[Pod, list[str]]:
        await in_world.create(world, claim_body(), pod_body(claims=["claim-1"]))
        await interfere(world, await volume_given(world))
        assert await world.until(lambda: in_world.all_run(world, 1), within=800)
        pod = await world.client.get(POD, "pod-1", namespace="default")
        claim = await world.client.get(CLAIM, "claim-1", namespace="default")
        volume = await world.client.get(VOLUME, claim.spec.volume_name)
        assert volume.name == f"local-{pod.spec.node_name}-1"
        events = (await world.client.list(EVENT, namespace="default")).items
        return pod, [event.message for event in events if event.reason == "FailedScheduling"]

    return simulate(scenario, layout=Layout(local_volumes=1), plan=FaultPlan(faults, latency))


@pytest.mark.parametrize(
    ("interfere", "said"),
    [
        pytest.param(
            delete_volume, 'persistentvolume "{}" not found', id="volume", marks=pytest.mark.req("T16.pv-deleted")
        ),
        pytest.param(
            make_claim_anew,
            'persistentvolumeclaim "claim-1" not found',
            id="claim",
            marks=pytest.mark.req("T16.pvc-deleted"),
        ),
        pytest.param(
            clear_claim_ref,
            'ClaimRef got reset for pv "{}"',
            id="claimRef",
            marks=pytest.mark.req("T16.claimref-cleared"),
        ),
    ],
)
def test_what_the_user_takes_away_is_noticed_and_the_pod_is_placed_again(interfere: Interference, said: str) -> None:
    taken: list[str] = []

    async def interfere_and_tell(world: World, volume: Volume) -> None:
        taken.append(volume.name)
        await interfere(world, volume)

    _, told = place(WAITING, interfere=interfere_and_tell)
    assert any(said.format(*taken) in message for message in told), told


@pytest.mark.req("T16.timeout")
def test_a_pod_whose_volumes_are_not_bound_in_time_is_tried_again() -> None:
    _, told = place(Pause(BINDER, at=0.0, seconds=610.0))
    assert 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded' in told


@pytest.mark.req("T16.conflict")
def test_a_volume_that_changed_since_the_decision_is_not_written_over() -> None:
    _, told = place(BadCall(SCHEDULER, 1, Trouble.OVERTAKEN))
    assert any("the object has been modified" in message for message in told), told


@pytest.mark.req("T16.api-error")
def test_a_refused_write_brings_the_pod_back() -> None:
    """The write arrives when the volume is gone; the other two volumes are left."""

    async def scenario(world: World) -> list[str]:
        await in_world.create(world, claim_body(), pod_body(claims=["claim-1"]))
        await world.clock.sleep(1.0)
        for volume in ("local-node-1-1", "local-node-2-1"):
            await world.client.delete(VOLUME, volume)
        assert await world.until(lambda: in_world.all_run(world, 1), within=60)
        events = (await world.client.list(EVENT, namespace="default")).items
        return [event.message for event in events if event.reason == "FailedScheduling"]

    late = BadCall(SCHEDULER, 1, Trouble.SLOW_REQUEST, 5.0)
    told = [
        message
        for seed in range(3)
        for message in simulate(scenario, layout=Layout(local_volumes=1), seed=seed, plan=FaultPlan((late,)))
    ]
    assert any("persistentvolumes" in message and "not found" in message for message in told), told


@pytest.mark.req("T47.affinity")
def test_a_pod_is_not_bound_to_a_node_that_no_longer_reaches_the_volume() -> None:
    async def relabel(world: World, volume: Volume) -> None:
        node = volume.name.removeprefix("local-").removesuffix("-1")
        await world.client.patch(NODE, node, MergePatch({"metadata": {"labels": {keys.HOSTNAME: "elsewhere"}}}))
        # The claim is bound meanwhile: to a volume that no node reaches.
        await world.clock.sleep(60.0)
        pod = await world.client.get(POD, "pod-1", namespace="default")
        assert pod.spec.node_name == ""
        await world.client.patch(NODE, node, MergePatch({"metadata": {"labels": {keys.HOSTNAME: node}}}))

    _, told = place(WAITING, interfere=relabel)
    assert any("node affinity doesn't match node" in message for message in told), told


@pytest.mark.req("T15.asynchronous")
def test_pods_that_wait_for_volumes_keep_nobody_from_being_placed() -> None:
    async def scenario(world: World) -> None:
        names = [f"pod-{number}" for number in range(3)]
        for name in names:
            await in_world.create(world, claim_body(name=name), pod_body(name=name, claims=[name]))
        await world.clock.sleep(5.0)
        volumes = (await world.client.list(VOLUME)).items
        assert sorted(v.spec.claim_ref.name for v in volumes if v.spec.claim_ref) == names
        assert {pod.spec.node_name for pod in (await world.client.list(POD)).items} == {""}
        await in_world.create(world, pod_body(name="quick"))
        await world.clock.sleep(1.0)
        assert (await world.client.get(POD, "quick", namespace="default")).status.phase == "Running"
        assert await world.until(lambda: in_world.all_run(world, 4), within=60)

    simulate(scenario, layout=Layout(local_volumes=1), plan=FaultPlan((WAITING,)))
