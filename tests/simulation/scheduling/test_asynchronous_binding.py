"""Asynchronous binding: volumes are reserved, then awaited, then the pod is bound, without blocking other pods."""

from functools import partial

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, POD, VOLUME
from mooring.cluster.bootstrap import LOCAL_CLASS, Layout
from support.builders import Body, claim_body, class_body, pod_body
from support.scenarios import simulated
from support.simulation.cluster import SimulatedCluster
from support.simulation.fault_scenario import FaultScenario, check
from support.simulation.faults import FaultPlan, Pause
from support.simulation.history import Written
from support.simulation.mixtures import PROVISIONER
from support.simulation.scenarios import BINDER, SCHEDULER, all_pods_run

PODS = 4
MADE = class_body(name="made", provisioner="local.standins.mooring.dev")
#: The components that complete the bindings are paused first.
AWAY = tuple(Pause(instance, at=0.5, seconds=30.0) for instance in (BINDER, PROVISIONER))


def pod_with_two_claims(number: int) -> list[Body]:
    """A pod with a claim on an existing volume and one on a volume to be provisioned."""
    old, new = f"old-{number}", f"new-{number}"
    return [
        claim_body(name=old),
        claim_body(name=new, storage_class="made"),
        pod_body(name=f"pod-{number}", claims=[old, new]),
    ]


async def create_objects(cluster: SimulatedCluster) -> None:
    await simulated.create(cluster, MADE)
    await cluster.clock.sleep(1.0)
    for number in range(PODS):
        await simulated.create(cluster, *pod_with_two_claims(number))
    await cluster.clock.sleep(5.0)
    volumes, claims = (await cluster.client.list(VOLUME)).items, (await cluster.client.list(CLAIM)).items
    given = sorted(volume.spec.claim_ref.name for volume in volumes if volume.spec.claim_ref)
    assert given == [f"old-{number}" for number in range(PODS)], "all decisions are made and written"
    assert all(claim.selected_node for claim in claims if claim.storage_class != LOCAL_CLASS)
    assert not any(claim.fully_bound for claim in claims)
    assert {pod.spec.node_name for pod in (await cluster.client.list(POD)).items} == {""}, "and all pods wait"
    await simulated.create(cluster, pod_body(name="quick"))
    await cluster.clock.sleep(1.0)
    assert (await cluster.client.get(POD, "quick", namespace="default")).status.phase == "Running"


def is_reservation(entry: Written, pod: str) -> bool:
    """The scheduler reserves a volume for one of the pod's claims, or sets its selected node."""
    after = entry.change.after
    if entry.author != SCHEDULER or after is None:
        return False
    number = pod.rpartition("-")[2]
    if entry.kind is VOLUME:
        return f'"name":"old-{number}"'.encode() in after.value.replace(b" ", b"")
    return (
        entry.kind is CLAIM
        and entry.key == f"default/new-{number}"
        and well_known.SELECTED_NODE.encode() in after.value
    )


@pytest.mark.req("T15.asynchronous", "T15.many", "T15.order")
@pytest.mark.parametrize("latency", [0.0, 0.02, 0.2])
def test_volumes_are_reserved_and_bound_before_the_pod(latency: float) -> None:
    scenario = FaultScenario(Layout(local_volumes=4), create_objects, expect=partial(all_pods_run, count=PODS + 1))
    result = check(scenario, seed=0, plan=FaultPlan(AWAY, latency))
    writes = [entry for entry in result.history.writes() if entry.author == SCHEDULER]
    for number in range(PODS):
        pod = f"pod-{number}"
        [bound] = [at for at, entry in enumerate(writes) if entry.verb == "bind" and entry.key == f"default/{pod}"]
        reserved = [at for at, entry in enumerate(writes) if is_reservation(entry, pod)]
        assert len(reserved) == 2
        assert max(reserved) < bound
