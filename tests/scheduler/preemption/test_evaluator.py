"""Who has to go for whom: against kube-scheduler's rules, in tables and by trying everything."""

import random
from collections.abc import Sequence
from itertools import combinations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import well_known
from mooring.api.views.meta import ApiObject, Condition
from mooring.api.views.pods import Pod
from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.preemption.evaluator import Ineligible, Preemption, preempt
from mooring.scheduler.preemption.nominator import DisruptionBudgets, Nominator
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot.snapshot import Snapshot
from scheduler.preemption.test_disruption import WEB, a_budget
from support.builders import Body, a_claim, a_class, a_csi_node, a_node, a_pod, a_volume, claim_ref
from support.builders.drivers import DRIVER
from support.scheduler.attempts import an_attempt
from support.scheduler.snapshots import a_snapshot

pytestmark = pytest.mark.req("T22.victims")


def tried(
    pod: Pod, snapshot: Snapshot, budgets: DisruptionBudgets | None = None, nominator: Nominator | None = None
) -> Preemption | str:
    attempt = an_attempt(pod, snapshot, budgets=budgets, nominator=nominator)
    assert not attempt.decision.node, "no eviction is needed"
    return preempt(attempt)


def chosen(pod: Pod, *objects: ApiObject, budgets: DisruptionBudgets | None = None) -> tuple[str, list[str]] | str:
    outcome = tried(pod, a_snapshot(*objects), budgets)
    return outcome if isinstance(outcome, str) else (outcome.node, sorted(victim.name for victim in outcome.victims))


def resident(
    name: str, node: str = "n1", *, priority: int = 0, cpu: str = "2", start_time: int | None = None, **more: object
) -> Pod:
    pod = a_pod(name=name, node=node, priority=priority, requests={"cpu": cpu}, **more)
    if start_time is None:
        return pod
    status = msgspec.structs.replace(pod.status, start_time=f"2026-01-01T00:00:{start_time:02}Z")
    return msgspec.structs.replace(pod, status=status)


N1, N2 = a_node(name="n1"), a_node(name="n2")
URGENT = a_pod(name="urgent", priority=100, requests={"cpu": "2"})


def no_use(count: int, reason: str, nodes: int = 1) -> str:
    return f"0/{nodes} nodes are available: {count} {reason}."


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param([N1, resident("a"), resident("b")], ("n1", ["b"]), id="of equals, the last by the way"),
        pytest.param(
            [N1, resident("a", start_time=1), resident("b", start_time=2)], ("n1", ["b"]), id="of equals, the youngest"
        ),
        pytest.param([N1, resident("a"), resident("b", priority=1)], ("n1", ["a"]), id="the least important"),
        pytest.param([N1, resident("a", priority=50, cpu="4")], ("n1", ["a"]), id="the only one"),
        pytest.param(
            [N1, resident("a", priority=100, cpu="4")],
            no_use(1, "No preemption victims found for incoming pod"),
            id="no pod has a lower priority",
        ),
        pytest.param(
            [N1, resident("a", priority=100, cpu="3"), resident("b", cpu="1")],
            no_use(1, "Insufficient cpu"),
            id="it would not help if all went",
        ),
        pytest.param(
            [N1, N2, resident("a", priority=9, cpu="4"), resident("b", "n2", priority=5, cpu="4")],
            ("n2", ["b"]),
            id="the node whose most important victim matters least",
        ),
        pytest.param(
            [N1, N2, resident("a", cpu="3"), resident("b", cpu="1"), resident("c", "n2", cpu="4")],
            ("n1", ["a"]),
            id="one victim each: by name",
        ),
        pytest.param(
            [
                N1,
                N2,
                *(resident(name, cpu="1") for name in "abcd"),
                *(resident(name, "n2", cpu="2") for name in "ef"),
            ],
            ("n2", ["f"]),
            id="fewer victims",
        ),
        pytest.param(
            [N1, N2, resident("a", cpu="4", start_time=1), resident("b", "n2", cpu="4", start_time=2)],
            ("n2", ["b"]),
            id="the one that runs for less long",
        ),
        pytest.param(
            [N1, N2, resident("a", cpu="4"), resident("b", "n2", cpu="4", priority=50, deleting=True)],
            ("n2", ["b"]),
            id="where a pod is terminating",
        ),
        pytest.param(
            [a_node(name="n1", unschedulable=True), resident("a", cpu="4")],
            no_use(1, "Preemption is not helpful for scheduling"),
            id="not on a cordoned node",
        ),
        pytest.param(
            [a_node(name="n1", allocatable={"cpu": "1"}), resident("a", cpu="1")],
            no_use(1, "Preemption is not helpful for scheduling"),
            id="not on a node that is too small",
        ),
    ],
)
def test_victims(objects: list[ApiObject], want: tuple[str, list[str]] | str) -> None:
    assert chosen(URGENT, *objects) == want


@pytest.mark.req("T22.budgets")
def test_budgets_are_spared_if_they_can_be() -> None:
    budgets = DisruptionBudgets()
    budgets.observe(None, a_budget(allowed=0, selector=WEB))
    kept = resident("kept", labels={"app": "web"})
    assert chosen(URGENT, N1, kept, resident("free", priority=50), budgets=budgets) == ("n1", ["free"])
    # Among nodes: no violation before all else.
    more = (N1, N2, resident("kept", labels={"app": "web"}, cpu="4"), resident("dear", "n2", priority=99, cpu="4"))
    assert chosen(URGENT, *more, budgets=budgets) == ("n2", ["dear"])
    # Where there is no other way, the budget is overdrawn.
    outcome = tried(URGENT, a_snapshot(N1, resident("kept", labels={"app": "web"}, cpu="4")), budgets)
    assert isinstance(outcome, Preemption)
    assert outcome.violations == 1


def test_some_never_preempt() -> None:
    spec = msgspec.structs.replace(URGENT.spec, preemption_policy="Never")
    assert chosen(msgspec.structs.replace(URGENT, spec=spec), N1, resident("a", cpu="4")) == Ineligible.NEVER


def host_port(number: int) -> list[Body]:
    return [{"name": "main", "ports": [{"containerPort": 80, "hostPort": number}]}]


@pytest.mark.parametrize(
    ("pod", "there", "want"),
    [
        pytest.param(
            a_pod(name="urgent", priority=9, containers=host_port(80)),
            [a_pod(name="a", node="n1", containers=host_port(80)), a_pod(name="b", node="n1")],
            ("n1", ["a"]),
            id="a port",
        ),
        pytest.param(
            a_pod(
                name="urgent",
                priority=9,
                affinity={
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": well_known.HOSTNAME, "labelSelector": {"matchLabels": {"app": "db"}}}
                        ]
                    }
                },
            ),
            [a_pod(name="a", node="n1"), a_pod(name="b", node="n1", labels={"app": "db"})],
            ("n1", ["b"]),
            id="whom it cannot stand",
        ),
        pytest.param(
            a_pod(
                name="urgent",
                priority=9,
                affinity={
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": well_known.HOSTNAME, "labelSelector": {"matchLabels": {"app": "db"}}}
                        ]
                    }
                },
            ),
            [a_pod(name="a", node="n1")],
            no_use(1, "Preemption is not helpful for scheduling"),
            id="no eviction adds the pod it must be near",
        ),
    ],
)
def test_other_reasons_to_go(pod: Pod, there: list[Pod], want: tuple[str, list[str]] | str) -> None:
    assert chosen(pod, N1, *there) == want


def with_volume(claim: str, **more: object) -> Pod:
    return a_pod(name="urgent", priority=100, claims=[claim], requests={"cpu": "2"}, **more)


@pytest.mark.req("T22.volumes")
@pytest.mark.parametrize(
    "volumes",
    [
        pytest.param(
            [a_claim(name="c"), a_volume(name="v", node="n2", size="100Gi")], id="no volume for its claim on that node"
        ),
        pytest.param(
            [
                a_claim(name="c", volume="v", bound=True),
                a_volume(name="v", node="n2", claim_ref=claim_ref(name="c", uid="c-uid"), phase="Bound"),
            ],
            id="its volume is elsewhere",
        ),
        pytest.param(
            [
                a_claim(name="c"),
                a_claim(name="theirs", volume="v", bound=True),
                a_volume(name="v", node="n1", claim_ref=claim_ref(name="theirs", uid="theirs-uid"), phase="Bound"),
            ],
            id="the only volume is the victim's, and stays so",
        ),
    ],
)
def test_no_pod_is_evicted_where_volumes_make_it_impossible(volumes: list[ApiObject]) -> None:
    there = a_pod(name="a", node="n1", claims=["theirs"], requests={"cpu": "4"})
    full = a_pod(name="full", node="n2", priority=1000, requests={"cpu": "4"})
    objects = [N1, N2, a_class(name="local"), *volumes, there, full]
    if not any(isinstance(one, type(volumes[0])) and one.name == "theirs" for one in volumes):
        objects.insert(3, a_claim(name="theirs", storage_class="other"))
    told = chosen(with_volume("c"), *objects)
    assert isinstance(told, str), told


@pytest.mark.req("T22.volumes")
def test_evicting_pod_frees_volume_limit() -> None:
    """A node that takes one volume: the place on the node is freed by an eviction, unlike a volume."""
    claims = [a_claim(name=name, storage_class="made") for name in ("c", "theirs")]
    objects = (N1, a_class(name="made", provisioner=DRIVER), a_csi_node(name="n1", limits={DRIVER: 1}), *claims)
    there = a_pod(name="a", node="n1", claims=["theirs"])
    assert chosen(with_volume("c"), *objects, there, a_pod(name="b", node="n1")) == ("n1", ["a"])


@pytest.mark.req("T22.volumes")
def test_where_two_nodes_would_do_the_one_with_the_volume_is_cleared() -> None:
    objects = (N1, N2, a_class(name="local"), a_claim(name="c"), a_volume(name="v", node="n2"))
    there = (resident("cheap", "n1", cpu="4"), resident("dear", "n2", cpu="4", priority=50))
    assert chosen(with_volume("c"), *objects, *there) == ("n2", ["dear"])


@pytest.mark.req("T22.nominated")
def test_pod_with_terminating_victims_is_ineligible() -> None:
    leaving = a_pod(name="a", node="n1", requests={"cpu": "4"}, deleting=True)
    condition = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    status = msgspec.structs.replace(leaving.status, conditions=(condition,))
    leaving = msgspec.structs.replace(leaving, status=status)
    snapshot = a_snapshot(N1, N2, leaving, resident("b", "n2", cpu="4"))
    nominator = Nominator()
    nominator.put(URGENT, "n1")
    assert tried(URGENT, snapshot, None, nominator) == Ineligible.UNDER_WAY


@pytest.mark.req("T22.nominated")
def test_nominated_resources_are_kept_from_equal_priority() -> None:
    snapshot = a_snapshot(N1, resident("a", cpu="2"))
    nominator = Nominator()
    nominator.put(a_pod(name="first", priority=100, requests={"cpu": "2"}), "n1")
    assert cycle.run_cycle(CycleState(URGENT, snapshot), DEFAULT, random.Random(0)).node == "n1"
    told = tried(URGENT, snapshot, None, nominator)
    assert isinstance(told, Preemption)
    assert [victim.name for victim in told.victims] == ["a"], "there is room for both if this one goes"


@pytest.mark.req("T22.nominated")
def test_a_pod_takes_the_node_that_was_cleared_for_it() -> None:
    nominator = Nominator()
    nominator.put(URGENT, "n2")
    snapshot = a_snapshot(N1, N2, resident("a", "n2", cpu="1"))
    decision = cycle.run_cycle(CycleState(URGENT, snapshot), DEFAULT, random.Random(0), nominator=nominator)
    assert decision.node == "n2", "although n1 is emptier"


@pytest.mark.req("T22.protocol")
def test_the_snapshot_is_as_it_was() -> None:
    objects = [N1, N2, resident("a", cpu="4", labels={"app": "x"}), resident("b", "n2", priority=3, cpu="4")]
    snapshot = a_snapshot(*objects)
    before = snapshot.resources.requested("cpu").copy()
    tried(URGENT, snapshot)
    assert (snapshot.resources.requested("cpu") == before).all()
    assert {pod.name for node in ("n1", "n2") for pod in snapshot.pods_on(node)} == {"a", "b"}


pods = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 4), st.integers(1, 3)), min_size=1, max_size=6)


@given(pods, st.integers(1, 4))
def test_no_smaller_set_of_victims_would_do(there: Sequence[tuple[int, int, int]], cpus: int) -> None:
    """Every victim is necessary: with any of them still there, the pod would not fit."""
    residents = [
        resident(f"p{number}", f"n{1 + node}", priority=priority, cpu=str(cpu))
        for number, (node, priority, cpu) in enumerate(there)
    ]
    pod = a_pod(name="urgent", priority=3, requests={"cpu": str(cpus)})
    snapshot = a_snapshot(N1, N2, *residents)
    if cycle.run_cycle(CycleState(pod, snapshot), DEFAULT, random.Random(0)).node:
        return
    outcome = tried(pod, snapshot)
    if isinstance(outcome, str):
        for node in (N1, N2):
            left = [one for one in residents if one.spec.node_name == node.name and one.spec.priority >= 3]
            assert not fits(pod, node.name, left)
        return
    on_node = [one for one in residents if one.spec.node_name == outcome.node]
    staying = [one for one in on_node if one not in outcome.victims]
    assert all(victim.spec.priority < 3 for victim in outcome.victims)
    assert fits(pod, outcome.node, staying)
    for fewer in combinations(outcome.victims, len(outcome.victims) - 1):
        assert not fits(pod, outcome.node, [one for one in on_node if one not in fewer])


def fits(pod: Pod, node: str, there: list[Pod]) -> bool:
    only = N1 if node == "n1" else N2
    return bool(cycle.run_cycle(CycleState(pod, a_snapshot(only, *there)), DEFAULT, random.Random(0)).node)
