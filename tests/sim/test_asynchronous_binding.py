"""Many pods wait for their volumes at once, and keep nobody waiting: volumes first, then the wait, then the pod."""

from functools import partial

import pytest

from builders import Body, claim_body, class_body, pod_body
from mooring.api import keys
from mooring.api.kinds import CLAIM, POD, VOLUME
from mooring.cluster.bootstrap import LOCAL_CLASS, Layout
from mooring.sim.faults import FaultPlan, Pause
from mooring.sim.history import Written
from mooring.sim.trial import Trial, check
from mooring.sim.world import World
from scenarios import in_world
from sim.mixtures import PROVISIONER
from sim.trials import BINDER, SCHEDULER, everybody_runs

PODS = 4
MADE = class_body(name="made", provisioner="local.standins.mooring.dev")
#: Whoever has to complete the bindings is not to be heard of, and then is.
AWAY = tuple(Pause(who, at=0.5, seconds=30.0) for who in (BINDER, PROVISIONER))


def one_of_many(number: int) -> list[Body]:
    """A pod with a claim on an existing volume and one on a volume to be made."""
    old, new = f"old-{number}", f"new-{number}"
    return [
        claim_body(name=old),
        claim_body(name=new, storage_class="made"),
        pod_body(name=f"pod-{number}", claims=[old, new]),
    ]


async def arrive(world: World) -> None:
    await in_world.create(world, MADE)
    await world.clock.sleep(1.0)
    for number in range(PODS):
        await in_world.create(world, *one_of_many(number))
    await world.clock.sleep(5.0)
    volumes, claims = (await world.client.list(VOLUME)).items, (await world.client.list(CLAIM)).items
    given = sorted(volume.spec.claim_ref.name for volume in volumes if volume.spec.claim_ref)
    assert given == [f"old-{number}" for number in range(PODS)], "all decisions are made and written"
    assert all(claim.selected_node for claim in claims if claim.storage_class != LOCAL_CLASS)
    assert not any(claim.fully_bound for claim in claims)
    assert {pod.spec.node_name for pod in (await world.client.list(POD)).items} == {""}, "and all pods wait"
    await in_world.create(world, pod_body(name="quick"))
    await world.clock.sleep(1.0)
    assert (await world.client.get(POD, "quick", namespace="default")).status.phase == "Running"


def is_reservation(entry: Written, pod: str) -> bool:
    """The scheduler gives a volume to one of the pod's claims, or asks for one to be made."""
    after = entry.change.after
    if entry.who != SCHEDULER or after is None:
        return False
    number = pod.rpartition("-")[2]
    if entry.kind is VOLUME:
        return f'"name":"old-{number}"'.encode() in after.value.replace(b" ", b"")
    return entry.kind is CLAIM and entry.key == f"default/new-{number}" and keys.SELECTED_NODE.encode() in after.value


@pytest.mark.req("T15", "T15.asynchronous", "T15.many", "T15.order")
@pytest.mark.parametrize("latency", [0.0, 0.02, 0.2])
def test_volumes_are_reserved_first_then_awaited_and_then_the_pod_is_bound(latency: float) -> None:
    trial = Trial(Layout(local_volumes=4), arrive, expect=partial(everybody_runs, count=PODS + 1))
    outcome = check(trial, seed=0, plan=FaultPlan(AWAY, latency))
    writes = [entry for entry in outcome.history.writes() if entry.who == SCHEDULER]
    for number in range(PODS):
        pod = f"pod-{number}"
        [bound] = [at for at, entry in enumerate(writes) if entry.verb == "bind" and entry.key == f"default/{pod}"]
        reserved = [at for at, entry in enumerate(writes) if is_reservation(entry, pod)]
        assert len(reserved) == 2
        assert max(reserved) < bound
