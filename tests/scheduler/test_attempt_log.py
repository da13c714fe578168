"""The scheduler's own memory of its attempts: what it says, within which bounds, at which cost."""

import asyncio
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_node, a_pod, claim_body, class_body, node_body, pod_body, volume_body
from builders.counting import calls_of
from mooring.api.errors import BadRequest
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.views.pod import Pod
from mooring.scheduler import attempt_log, cycle
from mooring.scheduler.attempt_log import Attempt, AttemptLog, Attempts, Objection, Supply
from mooring.scheduler.component import Scheduler
from mooring.scheduler.contract import Change, Cycle, Decision, Rejection, Said
from mooring.scheduler.metrics import Result
from mooring.scheduler.queue import Entry
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot import Snapshot
from scheduler.test_cost_of_a_decision import PLAIN, STATEFUL, a_cluster
from scheduler.worlds import SmallWorld, in_world

KEY = "default/pod-1"


def a_snapshot(nodes: int = 5) -> Snapshot:
    snapshot = Snapshot()
    for number in range(nodes):
        snapshot.observe_node(None, a_node(name=f"n{number}"))
    return snapshot


def rejected(*rejections: Rejection, plugin: str = "Fit", pod: str = "pod-1") -> Decision:
    return Decision(a_pod(name=pod), "", 5, (), (Said("Shy", ()), Said(plugin, rejections)), {})


def entry(attempts: int = 1, woken: Change | str = "") -> Entry:
    return Entry(a_pod(), attempts=attempts, woken=woken)


def test_reasons_are_counted_and_three_nodes_named() -> None:
    log = AttemptLog()
    kept = log.decided(
        7.0, entry(), rejected(Rejection(0b11101, "Insufficient cpu"), Rejection(0b10, "taint")), a_snapshot()
    )
    log.ended(KEY, kept, Result.UNSCHEDULABLE, 0.5)
    [attempt] = log.of(KEY)
    assert attempt.objections == (
        Objection("Fit", "Insufficient cpu", 4, ("n0", "n2", "n3")),
        Objection("Fit", "taint", 1, ("n1",)),
    )
    assert (attempt.at, attempt.number, attempt.result, attempt.seconds) == (7.0, 1, Result.UNSCHEDULABLE, 0.5)


@pytest.mark.parametrize(
    ("woken", "want"),
    [
        pytest.param("", "", id="the first time"),
        pytest.param("the pod itself changed", "the pod itself changed", id="words"),
        pytest.param(Change("Node", "add", name="n9"), "Node n9 was added", id="a node came"),
        pytest.param(
            Change("PersistentVolumeClaim", "delete", "default", "data"),
            "PersistentVolumeClaim default/data went away",
            id="a claim went",
        ),
        pytest.param(
            Change("Node", "update", name="n1", parts=frozenset({"labels", "taints"})),
            "Node n1 changed (labels, taints)",
            id="parts of a node",
        ),
        pytest.param(
            Change("CSIStorageCapacity", "update", parts=frozenset({"more room"})),
            "CSIStorageCapacity changed (more room)",
            id="nobody in particular",
        ),
    ],
)
def test_it_says_why_the_pod_was_tried(woken: Change | str, want: str) -> None:
    assert AttemptLog().decided(0.0, entry(woken=woken), rejected(), a_snapshot()).woken_by == want


def test_the_oldest_attempts_of_a_pod_are_forgotten() -> None:
    log = AttemptLog(attempts=3)
    for number in range(1, 6):
        log.decided(float(number), entry(number), rejected(), a_snapshot())
    assert [attempt.number for attempt in log.of(KEY)] == [3, 4, 5]


def test_pods_whose_story_is_over_make_room_before_those_that_wait() -> None:
    log = AttemptLog(pods=2)
    for name in ("old", "placed"):
        log.decided(0.0, entry(), rejected(pod=name), a_snapshot())
    log.over("default/placed")
    log.decided(0.0, entry(), rejected(pod="new"), a_snapshot())
    assert [bool(log.of(f"default/{name}")) for name in ("old", "placed", "new")] == [True, False, True]
    log.decided(0.0, entry(), rejected(pod="newest"), a_snapshot())
    assert not log.of("default/old"), "with nobody placed, who was tried longest ago"


def test_too_many_reasons_and_too_long_ones_are_cut() -> None:
    log = AttemptLog()
    many = [Rejection(1, f"{number}{'x' * 999}") for number in range(attempt_log.REASONS + 5)]
    kept = log.decided(0.0, entry(), rejected(*many), a_snapshot())
    log.ended(KEY, kept, Result.ERROR, 0.0, "y" * 9999)
    assert (len(kept.objections), kept.omitted) == (attempt_log.REASONS, 5)
    assert len(kept.objections[0].reason) == attempt_log.LONGEST_REASON
    assert len(kept.message) == attempt_log.LONGEST_MESSAGE


STEPS = st.tuples(st.sampled_from("abcdef"), st.integers(0, 30), st.booleans(), st.integers(0, 3000))


@given(st.lists(STEPS, max_size=60))
def test_it_never_outgrows_its_bounds_nor_loses_count(steps: list[tuple[str, int, bool, int]]) -> None:
    log = AttemptLog(pods=4, attempts=3, most_bytes=20_000)
    snapshot, open_ones = a_snapshot(), list[tuple[str, Attempt]]()
    for name, reasons, is_over, message in steps:
        decision = rejected(*(Rejection(0b111, f"r{each}") for each in range(reasons)), pod=name)
        open_ones.append((f"default/{name}", log.decided(0.0, entry(), decision, snapshot)))
        if is_over:
            log.over(f"default/{name}")
            # Whoever ends now may be forgotten already.
            pod, kept = open_ones.pop(0)
            log.ended(pod, kept, Result.ERROR, 0.0, "m" * message)
        assert log.pods <= 4
        assert log.weight <= 20_000
    for name in "abcdefg":
        log.over(f"default/{name}")
    kept_of = {name: log.of(f"default/{name}") for name in "abcdef"}
    assert log.pods == sum(bool(kept) for kept in kept_of.values())
    assert log.weight == sum(attempt_log._weight(attempt) for kept in kept_of.values() for attempt in kept)


def test_programs_read_what_was_kept() -> None:
    log = AttemptLog()
    log.decided(7.0, entry(2), rejected(Rejection(1, "no")), a_snapshot())
    told = msgspec.json.decode(log.document({"pod": KEY}), type=Attempts)
    assert told == Attempts(KEY, log.of(KEY))
    assert msgspec.json.decode(log.document({"pod": "default/unknown"}))["attempts"] == []


@pytest.mark.parametrize("pod", ["", "pod-1", "default/", "/pod-1", "a/b/c"])
def test_whose_attempts_must_be_said(pod: str) -> None:
    with pytest.raises(BadRequest, match="say whose attempts"):
        AttemptLog().document({"pod": pod})


def test_a_pod_that_waits_and_is_placed_has_its_attempts_told() -> None:
    async def scenario(world: SmallWorld) -> None:
        world.put(NODE, node_body(name="small"))
        log = AttemptLog()
        task = asyncio.create_task(Scheduler(world.context, attempts=log).run())
        await world.settle()
        world.put(POD, pod_body(requests={"cpu": "6"}))
        await world.settle(30)
        world.put(NODE, node_body(name="big", allocatable={"cpu": "8"}))
        await world.settle()
        first, second = log.of(KEY)
        assert (first.result, first.objections) == (
            Result.UNSCHEDULABLE,
            (Objection("NodeResourcesFit", "Insufficient cpu", 1, ("small",)),),
        )
        assert (second.number, second.node) == (2, "big")
        assert second.woken_by == "Node big changed (allocatable)", "its status comes after it"
        assert (second.result, second.feasible, second.runner_up) == (Result.SCHEDULED, 1, "")
        assert second.at == pytest.approx(first.at + 30, abs=1)
        task.cancel()

    in_world(scenario)


def test_binding_that_waits_and_fails_is_told_with_its_claims() -> None:
    async def scenario(world: SmallWorld) -> None:
        world.put(NODE, node_body(name="n1"))
        world.put(STORAGE_CLASS, class_body(name="late", provisioner="made.example"))
        world.put(VOLUME, volume_body(name="disk", size="10Gi", storage_class="late"))
        for name, size in (("a", "5Gi"), ("b", "50Gi")):
            world.put(CLAIM, claim_body(name=name, size=size, storage_class="late"))
        log = AttemptLog()
        task = asyncio.create_task(Scheduler(world.context, bind_timeout=20.0, attempts=log).run())
        await world.settle()
        world.put(POD, pod_body(claims=["a", "b"]))
        await world.settle(10)
        [attempt] = log.of(KEY)
        assert (attempt.result, attempt.node) == (None, "n1")
        assert attempt.supplies == (Supply("default/a", "disk"), Supply("default/b"))
        await world.settle(10.4)
        assert attempt.result is Result.ERROR
        assert attempt.message.endswith("binding volumes: context deadline exceeded")
        assert attempt.seconds == pytest.approx(20, abs=1)
        task.cancel()

    in_world(scenario)


@pytest.mark.parametrize("pod", [pytest.param(PLAIN, id="plain"), pytest.param(STATEFUL, id="with volumes")])
def test_a_pod_that_is_placed_pays_one_call_in_fifty(pod: Pod) -> None:
    snapshot = a_cluster(200, 400)

    def decide() -> Decision:
        return cycle.run(Cycle(pod, snapshot), DEFAULT, random.Random(0))

    decision, log, one = decide(), AttemptLog(), entry()

    def keep() -> None:
        log.ended(KEY, log.decided(0.0, one, decision, snapshot), Result.SCHEDULED, 0.1)

    assert calls_of(keep) - calls_of(lambda: None) <= calls_of(decide) / 50
    assert log.of(pod.key)[0].runner_up
