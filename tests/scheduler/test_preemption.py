"""Who has to go for whom: against kube-scheduler's rules, in tables and by trying everything."""

import random
from collections.abc import Sequence
from itertools import combinations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import Body, a_claim, a_class, a_csi_node, a_node, a_pod, a_volume, claim_ref
from builders.drivers import DRIVER
from mooring.api import keys
from mooring.api.views.meta import ApiObject, Condition
from mooring.api.views.pod import Pod
from mooring.scheduler import cycle
from mooring.scheduler.contract import Cycle
from mooring.scheduler.disruption import Budgets
from mooring.scheduler.nominations import Nominations
from mooring.scheduler.preemption import Ineligible, Preemption, preempt
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot import Snapshot
from scheduler.attempts import an_attempt
from scheduler.snapshots import a_snapshot
from scheduler.test_disruption import WEB, a_budget

pytestmark = pytest.mark.req("T22")


def tried(
    pod: Pod, snapshot: Snapshot, budgets: Budgets | None = None, nominations: Nominations | None = None
) -> Preemption | str:
    attempt = an_attempt(pod, snapshot, budgets=budgets, nominations=nominations)
    assert not attempt.decision.node, "nobody has to go"
    return preempt(attempt)


def chosen(pod: Pod, *objects: ApiObject, budgets: Budgets | None = None) -> tuple[str, list[str]] | str:
    outcome = tried(pod, a_snapshot(*objects), budgets)
    return outcome if isinstance(outcome, str) else (outcome.node, sorted(victim.name for victim in outcome.victims))


def resident(
    name: str, node: str = "n1", *, priority: int = 0, cpu: str = "2", started: int | None = None, **more: object
) -> Pod:
    pod = a_pod(name=name, node=node, priority=priority, requests={"cpu": cpu}, **more)
    if started is None:
        return pod
    status = msgspec.structs.replace(pod.status, start_time=f"2026-01-01T00:00:{started:02}Z")
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
            [N1, resident("a", started=1), resident("b", started=2)], ("n1", ["b"]), id="of equals, the youngest"
        ),
        pytest.param([N1, resident("a"), resident("b", priority=1)], ("n1", ["a"]), id="the least important"),
        pytest.param([N1, resident("a", priority=50, cpu="4")], ("n1", ["a"]), id="the only one"),
        pytest.param(
            [N1, resident("a", priority=100, cpu="4")],
            no_use(1, "No preemption victims found for incoming pod"),
            id="nobody is less important",
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
            [N1, N2, resident("a", cpu="4", started=1), resident("b", "n2", cpu="4", started=2)],
            ("n2", ["b"]),
            id="the one that runs for less long",
        ),
        pytest.param(
            [N1, N2, resident("a", cpu="4"), resident("b", "n2", cpu="4", priority=50, deleting=True)],
            ("n2", ["b"]),
            id="where somebody leaves anyway",
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
def test_who_has_to_go(objects: list[ApiObject], want: tuple[str, list[str]] | str) -> None:
    assert chosen(URGENT, *objects) == want


@pytest.mark.req("T22.budgets")
def test_budgets_are_spared_if_they_can_be() -> None:
    budgets = Budgets()
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
                            {"topologyKey": keys.HOSTNAME, "labelSelector": {"matchLabels": {"app": "db"}}}
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
                            {"topologyKey": keys.HOSTNAME, "labelSelector": {"matchLabels": {"app": "db"}}}
                        ]
                    }
                },
            ),
            [a_pod(name="a", node="n1")],
            no_use(1, "Preemption is not helpful for scheduling"),
            id="whom it misses nobody's going brings",
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
def test_nobody_is_evicted_where_volumes_make_it_impossible(volumes: list[ApiObject]) -> None:
    there = a_pod(name="a", node="n1", claims=["theirs"], requests={"cpu": "4"})
    full = a_pod(name="full", node="n2", priority=1000, requests={"cpu": "4"})
    objects = [N1, N2, a_class(name="local"), *volumes, there, full]
    if not any(isinstance(one, type(volumes[0])) and one.name == "theirs" for one in volumes):
        objects.insert(3, a_claim(name="theirs", storage_class="other"))
    told = chosen(with_volume("c"), *objects)
    assert isinstance(told, str), told


@pytest.mark.req("T22.volumes")
def test_attached_volumes_make_room_when_their_pod_goes() -> None:
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
def test_who_waits_for_victims_to_leave_takes_no_more() -> None:
    leaving = a_pod(name="a", node="n1", requests={"cpu": "4"}, deleting=True)
    condition = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    status = msgspec.structs.replace(leaving.status, conditions=(condition,))
    leaving = msgspec.structs.replace(leaving, status=status)
    snapshot = a_snapshot(N1, N2, leaving, resident("b", "n2", cpu="4"))
    nominations = Nominations()
    nominations.put(URGENT, "n1")
    assert tried(URGENT, snapshot, None, nominations) == Ineligible.UNDER_WAY


@pytest.mark.req("T22.nominated")
def test_room_that_is_promised_is_not_taken_by_who_is_not_more_important() -> None:
    snapshot = a_snapshot(N1, resident("a", cpu="2"))
    nominations = Nominations()
    nominations.put(a_pod(name="first", priority=100, requests={"cpu": "2"}), "n1")
    assert cycle.run(Cycle(URGENT, snapshot), DEFAULT, random.Random(0)).node == "n1"
    told = tried(URGENT, snapshot, None, nominations)
    assert isinstance(told, Preemption)
    assert [victim.name for victim in told.victims] == ["a"], "there is room for both if this one goes"


@pytest.mark.req("T22.nominated")
def test_a_pod_takes_the_node_that_was_cleared_for_it() -> None:
    nominations = Nominations()
    nominations.put(URGENT, "n2")
    snapshot = a_snapshot(N1, N2, resident("a", "n2", cpu="1"))
    decision = cycle.run(Cycle(URGENT, snapshot), DEFAULT, random.Random(0), nominations=nominations)
    assert decision.node == "n2", "although n1 is emptier"


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
    """Whoever is evicted is needed: with any of them still there, the pod would not fit."""
    residents = [
        resident(f"p{number}", f"n{1 + node}", priority=priority, cpu=str(cpu))
        for number, (node, priority, cpu) in enumerate(there)
    ]
    pod = a_pod(name="urgent", priority=3, requests={"cpu": str(cpus)})
    snapshot = a_snapshot(N1, N2, *residents)
    if cycle.run(Cycle(pod, snapshot), DEFAULT, random.Random(0)).node:
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
    return bool(cycle.run(Cycle(pod, a_snapshot(only, *there)), DEFAULT, random.Random(0)).node)
