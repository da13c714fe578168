"""The scheduler's own memory of its attempts: what it says, within which bounds, at which cost."""

import asyncio
import random

import msgspec
import pytest
from bench.scheduling_cycle import a_cluster
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.errors import BadRequest
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.views.pods import Pod
from mooring.scheduler import attempt_log
from mooring.scheduler.attempt_log import Attempt, AttemptLog, Attempts, RejectionSummary, VolumeAssignment
from mooring.scheduler.cluster_events import ClusterEvent
from mooring.scheduler.component import Scheduler
from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.interface import CycleState, Decision, FilterResult, NodeRejection
from mooring.scheduler.metrics import Result
from mooring.scheduler.queue import QueuedPod
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.test_cost_of_a_decision import PLAIN, STATEFUL
from support.builders import a_node, a_pod, claim_body, class_body, node_body, pod_body, volume_body
from support.builders.counting import calls_of
from support.scheduler.cluster import SmallWorld, in_world

KEY = "default/pod-1"


def a_snapshot(nodes: int = 5) -> Snapshot:
    snapshot = Snapshot()
    for number in range(nodes):
        snapshot.observe_node(None, a_node(name=f"n{number}"))
    return snapshot


def rejected(*rejections: NodeRejection, plugin: str = "Fit", pod: str = "pod-1") -> Decision:
    return Decision(a_pod(name=pod), "", 5, (), (FilterResult("Shy", ()), FilterResult(plugin, rejections)))


def queued(attempts: int = 1, reason: ClusterEvent | str = "") -> QueuedPod:
    return QueuedPod(a_pod(), attempts=attempts, requeue_reason=reason)


def test_reasons_are_counted_and_three_nodes_named() -> None:
    log = AttemptLog()
    kept = log.decided(
        7.0, queued(), rejected(NodeRejection(0b11101, "Insufficient cpu"), NodeRejection(0b10, "taint")), a_snapshot()
    )
    log.ended(KEY, kept, Result.UNSCHEDULABLE, 0.5)
    [attempt] = log.of(KEY)
    assert attempt.objections == (
        RejectionSummary("Fit", "Insufficient cpu", 4, ("n0", "n2", "n3")),
        RejectionSummary("Fit", "taint", 1, ("n1",)),
    )
    assert (attempt.at, attempt.number, attempt.result, attempt.seconds) == (7.0, 1, Result.UNSCHEDULABLE, 0.5)


@pytest.mark.parametrize(
    ("reason", "want"),
    [
        pytest.param("", "", id="the first time"),
        pytest.param("pod updated", "pod updated", id="text"),
        pytest.param(ClusterEvent("Node", "add", name="n9"), "Node n9 added", id="node added"),
        pytest.param(
            ClusterEvent("PersistentVolumeClaim", "delete", "default", "data"),
            "PersistentVolumeClaim default/data deleted",
            id="claim deleted",
        ),
        pytest.param(
            ClusterEvent("Node", "update", name="n1", updated_fields=frozenset({"labels", "taints"})),
            "Node n1 updated (labels, taints)",
            id="node fields",
        ),
        pytest.param(
            ClusterEvent("CSIStorageCapacity", "update", updated_fields=frozenset({"more capacity"})),
            "CSIStorageCapacity updated (more capacity)",
            id="no object",
        ),
    ],
)
def test_attempt_has_requeue_reason(reason: ClusterEvent | str, want: str) -> None:
    assert AttemptLog().decided(0.0, queued(reason=reason), rejected(), a_snapshot()).woken_by == want


def test_oldest_attempts_are_dropped() -> None:
    log = AttemptLog(attempts=3)
    for number in range(1, 6):
        log.decided(float(number), queued(number), rejected(), a_snapshot())
    assert [attempt.number for attempt in log.of(KEY)] == [3, 4, 5]


def test_finished_pods_are_dropped_first() -> None:
    log = AttemptLog(pods=2)
    for name in ("old", "placed"):
        log.decided(0.0, queued(), rejected(pod=name), a_snapshot())
    log.over("default/placed")
    log.decided(0.0, queued(), rejected(pod="new"), a_snapshot())
    assert [bool(log.of(f"default/{name}")) for name in ("old", "placed", "new")] == [True, False, True]
    log.decided(0.0, queued(), rejected(pod="newest"), a_snapshot())
    assert not log.of("default/old"), "with no pod bound, the one attempted longest ago"


def test_too_many_reasons_and_too_long_ones_are_cut() -> None:
    log = AttemptLog()
    many = [NodeRejection(1, f"{number}{'x' * 999}") for number in range(attempt_log.MAX_REASONS + 5)]
    kept = log.decided(0.0, queued(), rejected(*many), a_snapshot())
    log.ended(KEY, kept, Result.ERROR, 0.0, "y" * 9999)
    assert (len(kept.objections), kept.omitted) == (attempt_log.MAX_REASONS, 5)
    assert len(kept.objections[0].reason) == attempt_log.MAX_REASON_LENGTH
    assert len(kept.message) == attempt_log.MAX_MESSAGE_LENGTH


STEPS = st.tuples(st.sampled_from("abcdef"), st.integers(0, 30), st.booleans(), st.integers(0, 3000))


@given(st.lists(STEPS, max_size=60))
def test_it_never_outgrows_its_bounds_nor_loses_count(steps: list[tuple[str, int, bool, int]]) -> None:
    log = AttemptLog(pods=4, attempts=3, max_bytes=20_000)
    snapshot, open_ones = a_snapshot(), list[tuple[str, Attempt]]()
    for name, reasons, is_over, message in steps:
        decision = rejected(*(NodeRejection(0b111, f"r{each}") for each in range(reasons)), pod=name)
        open_ones.append((f"default/{name}", log.decided(0.0, queued(), decision, snapshot)))
        if is_over:
            log.over(f"default/{name}")
            # The pod of an attempt that ends now may be dropped already.
            pod, kept = open_ones.pop(0)
            log.ended(pod, kept, Result.ERROR, 0.0, "m" * message)
        assert log._pods <= 4
        assert log._bytes <= 20_000
    for name in "abcdefg":
        log.over(f"default/{name}")
    kept_of = {name: log.of(f"default/{name}") for name in "abcdef"}
    assert log._pods == sum(bool(kept) for kept in kept_of.values())
    assert log._bytes == sum(attempt_log._weight(attempt) for kept in kept_of.values() for attempt in kept)


def test_programs_read_what_was_kept() -> None:
    log = AttemptLog()
    log.decided(7.0, queued(2), rejected(NodeRejection(1, "no")), a_snapshot())
    told = msgspec.json.decode(log.document({"pod": KEY}), type=Attempts)
    assert told == Attempts(KEY, log.of(KEY))
    assert msgspec.json.decode(log.document({"pod": "default/unknown"}))["attempts"] == []


@pytest.mark.parametrize("pod", ["", "pod-1", "default/", "/pod-1", "a/b/c"])
def test_pod_parameter_is_required(pod: str) -> None:
    with pytest.raises(BadRequest, match="query parameter required"):
        AttemptLog().document({"pod": pod})


def test_attempts_of_scheduled_pod_are_recorded() -> None:
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
            (RejectionSummary("NodeResourcesFit", "Insufficient cpu", 1, ("small",)),),
        )
        assert (second.number, second.node) == (2, "big")
        assert second.woken_by == "Node big updated (allocatable)", "its status comes after it"
        assert (second.result, second.feasible, second.runner_up) == (Result.SCHEDULED, 1, "")
        assert second.at == pytest.approx(first.at + 30, abs=1)
        task.cancel()

    in_world(scenario)


def test_failed_binding_is_recorded_with_claims() -> None:
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
        assert attempt.supplies == (VolumeAssignment("default/a", "disk"), VolumeAssignment("default/b"))
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
        return cycle.run_cycle(CycleState(pod, snapshot), DEFAULT, random.Random(0))

    decision, log, one = decide(), AttemptLog(), queued()

    def keep() -> None:
        log.ended(KEY, log.decided(0.0, one, decision, snapshot), Result.SCHEDULED, 0.1)

    assert calls_of(keep) - calls_of(lambda: None) <= calls_of(decide) / 50
    assert log.of(pod.key)[0].runner_up
