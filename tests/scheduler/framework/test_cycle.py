import random
from collections.abc import Iterable
from typing import ClassVar

import numpy as np
import pytest

from mooring.api.views.meta import ApiObject
from mooring.scheduler.cluster_events import QueueingHint
from mooring.scheduler.framework.cycle import NO_NODES, Profile, fit_error, reserve, run_cycle
from mooring.scheduler.framework.interface import CycleState, Decision, NodeRejection, Scores, ScoreSummary
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes import topology
from mooring.volumes.binding import OutOfSync
from mooring.volumes.topology import NodeSet
from support.builders import a_claim, a_class, a_node, a_pod, a_volume
from support.scheduler.snapshots import a_snapshot


class Says:
    """A plugin that rejects what it is told to."""

    events_to_register: ClassVar[tuple[QueueingHint, ...]] = ()

    def __init__(self, name: str, **reasons: Iterable[int]) -> None:
        self.name = name
        self.reasons = reasons

    def filter(self, cycle: CycleState) -> Iterable[NodeRejection]:
        return [NodeRejection(topology.node_set_of(slots), reason) for reason, slots in self.reasons.items()]


class Refuses:
    name: ClassVar[str] = "Refuses"
    events_to_register: ClassVar[tuple[QueueingHint, ...]] = ()

    def prefilter(self, cycle: CycleState) -> str | None:
        return "not this one"

    def filter(self, cycle: CycleState) -> Iterable[NodeRejection]:
        raise AssertionError("a plugin that refused the pod is not asked about nodes")


class Likes:
    events_to_register: ClassVar[tuple[QueueingHint, ...]] = ()

    def __init__(self, name: str, weight: int, *scores: float) -> None:
        self.name = name
        self.weight = weight
        self.scores = scores
        self.asked = 0

    def score(self, cycle: CycleState, feasible: NodeSet) -> Scores | None:
        self.asked += 1
        vector = np.zeros(cycle.snapshot.resources.width)
        vector[: len(self.scores)] = self.scores
        return vector


def nodes(count: int) -> Snapshot:
    return a_snapshot(*(a_node(name=f"n{number}") for number in range(count)))


def decided(profile: Profile, snapshot: Snapshot, seed: int = 0) -> Decision:
    return run_cycle(CycleState(a_pod(), snapshot), profile, random.Random(seed))


def test_every_filter_runs_on_every_node() -> None:
    decision = decided(Profile([Says("A", no=[0, 1]), Says("B", nope=[0, 1, 2])]), nodes(3))

    assert decision.node == ""
    assert [(said.plugin, [r.nodes for r in said.rejections]) for said in decision.filter_results] == [
        ("A", [0b011]),
        ("B", [0b111]),
    ]
    assert decision.unschedulable_plugins == {"A", "B"}


@pytest.mark.req("T26.first-rejection")
@pytest.mark.parametrize(
    ("first", "second", "want"),
    [
        pytest.param([0, 1], [0, 1], {"A"}, id="the second says nothing new"),
        pytest.param([0, 1], [1], {"A"}, id="nor does it of one node"),
        pytest.param([0], [0, 1], {"A", "B"}, id="each is the first for some node"),
        pytest.param([], [0, 1], {"B"}, id="the first has no objection"),
    ],
)
def test_pod_waits_for_the_plugin_that_rejects_a_node_first(
    first: list[int], second: list[int], want: set[str]
) -> None:
    """What the others say of that node matters only once the first has changed its mind."""
    decision = decided(Profile([Says("A", no=first), Says("B", nor=second)]), nodes(2))

    assert decision.unschedulable_plugins == want


def test_a_refusal_stands_alone_in_what_must_change() -> None:
    decision = decided(Profile([Refuses(), Says("B", nope=[0])]), nodes(2))

    assert decision.node == ""
    assert [refusal.reason for refusal in decision.refusals] == ["not this one"]
    assert [said.plugin for said in decision.filter_results] == ["B"], (
        "the others are asked, for those who want to know"
    )
    assert decision.unschedulable_plugins == {"Refuses"}


@pytest.mark.req("T21.texts")
@pytest.mark.parametrize(
    ("profile", "count", "want"),
    [
        pytest.param(Profile([]), 0, NO_NODES, id="no nodes"),
        pytest.param(Profile([Refuses()]), 3, "0/3 nodes are available: not this one.", id="the pod is refused"),
        pytest.param(Profile([Says("A", no=[0, 1])]), 2, "0/2 nodes are available: 2 no.", id="one reason"),
        pytest.param(
            Profile([Says("A", first=[0]), Says("B", second=[0, 1, 2])]),
            3,
            "0/3 nodes are available: 1 first, 2 second.",
            id="a node counts for the first plugin that rejected it",
        ),
        pytest.param(
            Profile([Says("A", no=[0, 1], nope=[0])]),
            2,
            "0/2 nodes are available: 1 nope, 2 no.",
            id="with all that this plugin said",
        ),
        pytest.param(
            Profile([Says("A", few=range(2)), Says("B", many=range(12))]),
            12,
            "0/12 nodes are available: 10 many, 2 few.",
            id="sorted as texts, counts in front",
        ),
    ],
)
def test_failure_message(profile: Profile, count: int, want: str) -> None:
    assert fit_error(decided(profile, nodes(count))) == want


@pytest.mark.req("T21.texts")
def test_failure_message_of_the_real_plugins() -> None:
    snapshot = a_snapshot(
        a_node(name="n1", allocatable={"cpu": "1"}),
        a_node(name="n2"),
        a_node(name="n3"),
        a_class(),
        a_claim(),
        a_volume(node="n1"),
    )
    decision = run_cycle(
        CycleState(a_pod(claims=["claim-1"], requests={"cpu": "2"}), snapshot), DEFAULT, random.Random(0)
    )

    assert fit_error(decision) == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't find available persistent volumes to bind."
    )
    assert decision.unschedulable_plugins == {"NodeResourcesFit", "VolumeBinding"}


def test_rejections_of_no_plugin_are_empty() -> None:
    """Slots without a node, or no slot at all: the plugin did not say no, and need not change its mind."""
    decision = decided(Profile([Says("A", no=[7], nope=[]), Says("B", no=[0])]), nodes(1))

    assert decision.unschedulable_plugins == {"B"}


def test_the_highest_weighted_total_wins() -> None:
    profile = Profile([Likes("A", 1, 100, 0, 0), Likes("B", 3, 0, 50, 20)])
    decision = decided(profile, nodes(3))

    assert decision.node == "n1"
    assert decision.ranking == ScoreSummary(3, 150, "n0", 100)
    without_n1 = decided(profile.with_first_plugins(Says("C", no=[1])), nodes(3))
    assert without_n1.ranking == ScoreSummary(2, 100, "n2", 60)


@pytest.mark.parametrize(
    ("profile", "want"),
    [
        pytest.param(Profile([Likes("A", 1, 5, 5, 5)]), {("n0", 5.0), ("n1", 5.0), ("n2", 5.0)}, id="among equals"),
        pytest.param(Profile([Likes("A", 1, 0, 9, 8)]), {("n2", 8.0)}, id="the next best"),
        pytest.param(Profile([Says("B", no=[2]), Likes("A", 1, 0, 9, 8)]), {("n0", 0.0)}, id="feasible ones only"),
        pytest.param(Profile([Says("B", no=[0, 2]), Likes("A", 1, 0, 9, 8)]), {("", 0.0)}, id="no other node"),
    ],
)
def test_decision_has_runner_up(profile: Profile, want: set[tuple[str, float]]) -> None:
    decision = decided(profile, nodes(3))
    assert (decision.ranking.runner_up, decision.ranking.runner_up_score) in want
    assert decision.ranking.runner_up != decision.node


def test_only_feasible_nodes_are_chosen_and_ranked() -> None:
    decision = decided(Profile([Says("A", no=[1]), Likes("B", 1, 1, 100, 2)]), nodes(3))

    assert decision.node == "n2"
    assert decision.ranking == ScoreSummary(2, 2, "n0", 1)


def test_single_feasible_node_is_not_scored() -> None:
    likes = Likes("B", 1, 1, 2)
    assert decided(Profile([Says("A", no=[1]), likes]), nodes(2)).node == "n0"
    assert likes.asked == 0


def test_ties_are_broken_by_the_seed_among_the_best_only() -> None:
    profile = Profile([Likes("A", 1, 50, 50, 0, 50)])
    chosen = [decided(profile, nodes(4), seed).node for seed in range(40)]

    assert set(chosen) == {"n0", "n1", "n3"}
    assert chosen == [decided(profile, nodes(4), seed).node for seed in range(40)]


def test_ranking_outlives_the_nodes_it_names() -> None:
    snapshot = nodes(2)
    decision = decided(Profile([Likes("A", 1, 5, 7)]), snapshot)
    snapshot.observe_node(a_node(name="n0"), None)
    snapshot.observe_node(None, a_node(name="new"))

    assert decision.ranking == ScoreSummary(2, 7, "n0", 5)


def volumes(*more: ApiObject) -> Snapshot:
    return a_snapshot(a_node(name="n0"), a_class(), a_claim(), a_volume(node="n0"), *more)


@pytest.mark.req("T11.kept")
def test_what_a_cycle_found_serves_its_reservation_and_nothing_after_it() -> None:
    snapshot = volumes()
    cycle = CycleState(a_pod(claims=["claim-1"]), snapshot)
    decision = run_cycle(cycle, DEFAULT, random.Random(0))
    plan = reserve(cycle, DEFAULT, decision.node)
    assert [binding.volume.name for binding in plan.static] == ["volume-1"]

    snapshot.volumes.restore(plan)
    snapshot.volumes.observe_claim(a_claim(), a_claim(deleting=True, version="2"))
    assert not isinstance(cycle.claims, str)
    assert CycleState(cycle.pod, snapshot).claims == 'persistentvolumeclaim "claim-1" is being deleted'


@pytest.mark.req("T13.restored")
def test_a_reservation_that_fails_leaves_no_promise_behind() -> None:
    made = a_claim(name="made", storage_class="made")
    snapshot = volumes(a_claim(name="claim-2"), a_class(name="made", provisioner="csi.example.com"), made)
    cycle = CycleState(a_pod(claims=["claim-1", "made"]), snapshot)
    run_cycle(cycle, DEFAULT, random.Random(0))
    snapshot.volumes.observe_claim(made, a_claim(name="made", storage_class="made", version="2"))
    with pytest.raises(OutOfSync):
        reserve(cycle, DEFAULT, "n0")

    other = a_pod(name="other", claims=["claim-2"])
    assert run_cycle(CycleState(other, snapshot), DEFAULT, random.Random(0)).node == "n0"


@pytest.mark.req("T17.elsewhere")
@pytest.mark.parametrize(
    ("provisioning_failures", "chosen"),
    [
        pytest.param({}, "n0", id="none"),
        pytest.param({"n0": 1}, "n1", id="the best one"),
        pytest.param({"n0": 2, "n1": 1}, "n2", id="two"),
        pytest.param({"n0": 2, "n1": 1, "n2": 3}, "n1", id="all of them"),
        pytest.param({"gone": 5}, "n0", id="one that is not there any more"),
    ],
)
def test_nodes_with_failed_provisioning_come_last(provisioning_failures: dict[str, int], chosen: str) -> None:
    """The first node is the emptiest, the last one the fullest."""
    snapshot = Snapshot()
    for number in range(3):
        snapshot.observe_node(None, a_node(name=f"n{number}", allocatable={"cpu": "16"}))
        there = a_pod(name=f"on-{number}", node=f"n{number}", requests={"cpu": f"{1 + 5 * number}"})
        snapshot.observe_pod(None, there)
    attempt = CycleState(a_pod(requests={"cpu": "1"}), snapshot)
    assert run_cycle(attempt, DEFAULT, random.Random(0), provisioning_failures=provisioning_failures).node == chosen
