"""Which claims keep a pod from every node although no pod has used them, and how they are marked."""

import asyncio
import dataclasses
import random
from collections.abc import Sequence

import msgspec
import pytest

from mooring.api import well_known
from mooring.api.errors import Conflict
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.views.meta import ApiObject, Condition
from mooring.api.views.storage import Claim, Volume
from mooring.control.feature_gates import parse_feature_gates
from mooring.scheduler.binding.claim_rollback import ROLLING_BACK, blocking_claims
from mooring.scheduler.component import FAILED, Scheduler
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.plugins.gates import ClaimsInRollback
from mooring.scheduler.registry import DEFAULT
from mooring.volumes.claim_rollback import CLEAN, ROLLBACK, clean_condition
from support.builders import (
    a_claim,
    a_class,
    a_node,
    a_pod,
    a_volume,
    claim_body,
    claim_ref,
    class_body,
    node_body,
    pod_body,
    volume_body,
)
from support.scheduler.cluster import SmallWorld, in_world
from support.scheduler.snapshots import a_snapshot, refused

CHOSEN = {well_known.BOUND_BY_CONTROLLER: well_known.ANNOTATION_SET}
LATE = a_class(name="local")
REFUSAL = 'persistentvolumeclaim "a" is being rolled back'
OPEN, CLOSED = a_node(name="open"), a_node(name="closed", unschedulable=True)


def bound(name: str, *, clean: str = "True", storage_class: str = "local") -> Claim:
    """To a volume of its own name."""
    claim = a_claim(
        name=name, uid=f"uid-{name}", storage_class=storage_class, volume=f"v-{name}", bound=True, annotations=CHOSEN
    )
    conditions = (Condition(type=CLEAN, status=clean),) if clean else ()
    return msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, conditions=conditions))


def taken(name: str, node: str, *, storage_class: str = "local") -> Volume:
    """The volume of a claim."""
    return a_volume(
        name=f"v-{name}",
        node=node,
        storage_class=storage_class,
        annotations=CHOSEN,
        claim_ref=claim_ref(name=name, uid=f"uid-{name}"),
        phase="Bound",
    )


def free(node: str, *, name: str = "spare", size: str = "10Gi") -> Volume:
    return a_volume(name=name, node=node, size=size)


@pytest.mark.req("T40.only-if-it-helps")
@pytest.mark.parametrize(
    ("objects", "claims", "want"),
    [
        pytest.param(
            [bound("a"), taken("a", "closed"), free("open")], ["a"], ["a"], id="unused, and there is another volume"
        ),
        pytest.param([bound("a"), taken("a", "closed")], ["a"], [], id="there is no other volume"),
        pytest.param(
            [bound("a"), taken("a", "closed"), free("open", size="1Gi")], ["a"], [], id="the other one is too small"
        ),
        pytest.param(
            [bound("a", clean="False"), taken("a", "closed"), free("open")], ["a"], [], id="it was used: never"
        ),
        pytest.param(
            [bound("a", clean=""), taken("a", "closed"), free("open")], ["a"], [], id="no condition Clean: never"
        ),
        pytest.param(
            [bound("a"), taken("a", "closed"), a_claim(name="b"), free("open"), free("open", name="more")],
            ["a", "b"],
            ["a"],
            id="half of the pod is bound",
        ),
        pytest.param(
            [bound("a"), taken("a", "closed"), a_claim(name="b"), free("open")],
            ["a", "b"],
            [],
            id="half of the pod is bound, and elsewhere only the half would fit again",
        ),
        pytest.param(
            [bound("a"), taken("a", "closed"), bound("b", clean="False"), taken("b", "open"), free("open")],
            ["a", "b"],
            ["a"],
            id="the used one stays where the pod can go",
        ),
        pytest.param(
            [bound("a"), taken("a", "open"), bound("b", clean="False"), taken("b", "closed"), free("open")],
            ["a", "b"],
            [],
            id="a used one is in the way too",
        ),
        pytest.param(
            [
                a_class(name="now", binding_mode="Immediate"),
                bound("a", storage_class="now"),
                taken("a", "closed", storage_class="now"),
                free("open"),
            ],
            ["a"],
            [],
            id="of a class that does not ask for nodes",
        ),
        pytest.param([a_claim(name="a")], ["a"], [], id="not bound"),
        pytest.param([], [], [], id="no claims"),
        pytest.param([], ["a"], [], id="a claim that is not there"),
    ],
)
def test_blocking_claims(objects: Sequence[ApiObject], claims: Sequence[str], want: Sequence[str]) -> None:
    attempt = CycleState(a_pod(claims=claims), a_snapshot(OPEN, CLOSED, LATE, *objects))
    found = blocking_claims(attempt, DEFAULT, random.Random(0))
    assert [claim.name for claim in found] == want


def test_what_others_need_is_not_taken_from_them() -> None:
    world = a_snapshot(OPEN, CLOSED, LATE, bound("a"), taken("a", "closed"), free("open"))
    assert not blocking_claims(CycleState(a_pod(claims=["a"]), world), DEFAULT, random.Random(0), in_use=lambda _: True)


def test_a_claim_made_before_a_driver_can_go_where_one_can_be_made() -> None:
    """A volume need not be there yet."""
    made = a_class(name="made", provisioner="csi.example.com")
    world = a_snapshot(OPEN, CLOSED, made, bound("a", storage_class="made"), taken("a", "closed", storage_class="made"))
    assert blocking_claims(CycleState(a_pod(claims=["a"]), world), DEFAULT, random.Random(0))


@pytest.mark.req("T40.pods-rejected")
@pytest.mark.parametrize(
    ("notes", "want"),
    [pytest.param({}, None, id="as usual"), pytest.param({ROLLBACK: "yes"}, REFUSAL, id="being unbound")],
)
def test_pods_with_claims_in_rollback_are_refused(notes: dict[str, str], want: str | None) -> None:
    world = a_snapshot(OPEN, LATE, a_claim(name="a", annotations=notes))
    assert refused(ClaimsInRollback(), a_pod(claims=["a"]), world) == want
    assert refused(ClaimsInRollback(), a_pod(claims=["not-there"]), world) is None


def half_bound(world: SmallWorld) -> None:
    world.put(STORAGE_CLASS, class_body(name="local"))
    world.put(NODE, node_body(name="open"))
    world.put(NODE, node_body(name="closed", unschedulable=True))
    claim = world.put(CLAIM, claim_body(name="a", annotations=CHOSEN))
    world.change(
        CLAIM, "a", {"status": {"conditions": [clean_condition(now="2026-01-01T00:00:00Z")]}}, subresource="status"
    )
    reference = claim_ref(name="a", uid=claim.uid)
    world.put(VOLUME, volume_body(name="v1", node="closed", annotations=CHOSEN, claim_ref=reference, phase="Bound"))
    world.put(VOLUME, volume_body(name="v2", node="open"))
    world.finish_binding("a", "v1")


def marked(world: SmallWorld) -> bool:
    return ROLLBACK in world.body(CLAIM, "a")["metadata"]["annotations"]


def play(gates: str, *faults: str | Conflict, another: bool = False) -> SmallWorld:
    worlds: list[SmallWorld] = []

    async def whole(world: SmallWorld) -> None:
        worlds.append(world)
        half_bound(world)
        if another:
            world.put(POD, pod_body(name="other", claims=["a"], node="closed"))
        world.client.faults["patch persistentvolumeclaims"] += faults
        task = asyncio.create_task(
            Scheduler(dataclasses.replace(world.context, gates=parse_feature_gates(gates))).run()
        )
        await world.settle()
        world.put(POD, pod_body(claims=["a"]))
        await world.settle(15)
        task.cancel()

    in_world(whole)
    return worlds[0]


@pytest.mark.req("T40.unbound")
@pytest.mark.parametrize(
    "faults",
    [
        pytest.param((), id="on a good day"),
        pytest.param(("before",), id="the request gets lost"),
        pytest.param(("after",), id="the answer gets lost"),
        pytest.param((Conflict("modified"),), id="a concurrent update"),
    ],
)
def test_a_pod_without_a_node_has_unused_claims_marked(faults: tuple[str | Conflict, ...]) -> None:
    world = play("ClaimRollback=true", *faults)
    assert marked(world)
    assert any(REFUSAL in message for message in world.recorder.messages(FAILED))
    if not faults:
        assert world.recorder.messages(ROLLING_BACK) == [
            "no node fits because of unused volumes; rolling back claims: a"
        ]


@pytest.mark.req("T40.gate-off", "T31.claim-rollback-off")
def test_nothing_is_marked_without_the_gate() -> None:
    assert not marked(play(""))


@pytest.mark.req("T40.only-clean")
def test_nothing_is_marked_that_a_pod_on_a_node_may_use() -> None:
    assert not marked(play("ClaimRollback=true", another=True))
