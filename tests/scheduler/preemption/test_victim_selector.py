"""Clearing nodes asks only what can have changed; it finds the victims that asking everything finds."""

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api import well_known
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.scheduler.cluster_events import QueueingHint
from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.framework.interface import CycleState, NodeRejection, PodDependentFilter, ResourceFilter
from mooring.scheduler.preemption.evaluator import Preemption, VictimSelector, preempt
from mooring.scheduler.preemption.nominator import DisruptionBudgets, Nominator
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot.snapshot import Snapshot
from scheduler.preemption.test_disruption import a_budget
from support.builders import Body, a_claim, a_class, a_csi_node, a_node, a_pod, a_volume, claim_ref
from support.builders.drivers import DRIVER
from support.scheduler.attempts import an_attempt
from support.scheduler.preemption_oracle import preempt_by_definition
from support.scheduler.snapshots import a_snapshot

pytestmark = pytest.mark.req("T22.victims")

APPS = ("a", "b")
NODES = ("n0", "n1", "n2", "n3")
ONE_POD = "ReadWriteOncePod"


def a_term(app: str, key: str) -> Body:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def required(side: str, *terms: Body) -> Body:
    return {side: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


apps, topologies = st.sampled_from(APPS), st.sampled_from([well_known.HOSTNAME, well_known.ZONE])
terms = st.builds(a_term, apps, topologies)
affinities = st.one_of(
    st.none(),
    st.builds(partial(required, "podAntiAffinity"), terms),
    st.builds(partial(required, "podAffinity"), terms),
    st.builds(lambda one, other: required("podAntiAffinity", one) | required("podAffinity", other), terms, terms),
)
ports = st.one_of(st.none(), st.sampled_from([80, 81]))
spreads = st.one_of(
    st.just([]),
    st.builds(
        lambda app, key, skew: [
            {
                "topologyKey": key,
                "maxSkew": skew,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": app}},
            }
        ],
        apps,
        topologies,
        st.integers(1, 2),
    ),
)


def containers(cpu: int, port: int | None) -> list[Body]:
    body: Body = {"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}
    if port is not None:
        body["ports"] = [{"containerPort": port, "hostPort": port}]
    return [body]


@st.composite
def residents(draw: st.DrawFn) -> list[Pod]:
    pods: list[Pod] = []
    for number in range(draw(st.integers(2, 9))):
        claims = draw(st.sampled_from([(), (), ("shared",), ("alone",), (f"own-{number}",)]))
        pods.append(
            a_pod(
                name=f"p{number}",
                node=draw(st.sampled_from(NODES)),
                priority=draw(st.integers(0, 3)),
                labels={"app": draw(apps)},
                containers=containers(draw(st.integers(0, 2)), draw(ports)),
                affinity=draw(affinities),
                claims=claims,
                deleting=draw(st.booleans()),
            )
        )
    return pods


@st.composite
def newcomers(draw: st.DrawFn, name: str = "urgent") -> Pod:
    return a_pod(
        name=name,
        priority=draw(st.integers(1, 3)),
        labels={"app": draw(apps)},
        containers=containers(draw(st.integers(0, 4)), draw(ports)),
        affinity=draw(affinities),
        topology_spread=draw(spreads),
        claims=draw(st.sampled_from([(), (), ("shared",), ("alone",), ("late",)])),
    )


def a_world(pods: list[Pod]) -> Snapshot:
    """Four nodes of four processors and two volumes in two zones, one of them without a zone."""
    nodes: list[ApiObject] = []
    for number, name in enumerate(NODES):
        labels = {well_known.HOSTNAME: name} | ({well_known.ZONE: "ab"[number % 2]} if number < 3 else {})
        nodes.append(a_node(name=name, labels=labels, allocatable={"cpu": "4", "pods": "3"}))
        nodes.append(a_csi_node(name=name, limits={DRIVER: 1 + number % 2}))
    made = a_class(name="made", provisioner=DRIVER)
    claims = [a_claim(name=f"own-{number}", storage_class="made") for number in range(9)]
    claims += [a_claim(name="late"), a_claim(name="shared", storage_class="made")]
    claims.append(a_claim(name="alone", volume="v-alone", bound=True, access_modes=[ONE_POD]))
    volumes = [
        a_volume(name="v-late", node="n1"),
        a_volume(name="v-alone", claim_ref=claim_ref(name="alone", uid="alone-uid"), phase="Bound"),
    ]
    return a_snapshot(*nodes, made, a_class(name="local"), *claims, *volumes, *pods)


@settings(max_examples=100)
@given(residents(), newcomers(), st.lists(newcomers("first"), max_size=1), st.sampled_from(NODES), st.integers(0, 2))
def test_the_victims_are_those_that_asking_everything_finds(
    there: list[Pod], pod: Pod, promised: list[Pod], where: str, allowed: int
) -> None:
    nominator, budgets = Nominator(), DisruptionBudgets()
    for other in promised:
        nominator.put(other, where)
    budgets.observe(None, a_budget(allowed=allowed, selector={"matchLabels": {"app": "a"}}))
    # Each in a world of its own: pods that are put back stand in another order among equals.
    slow, fast = (an_attempt(pod, a_world(there), budgets=budgets, nominator=nominator) for _ in range(2))
    if slow.decision.node or slow.decision.refusals:
        return
    asked = DEFAULT.for_pod(pod)
    wanted = preempt_by_definition(slow, lambda: cycle.run_filters(slow.state, asked, nominator))
    assert preempt(fast) == wanted


def test_nothing_is_taken_out_where_only_amounts_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = a_snapshot(a_node(name="n1"), a_pod(name="old", node="n1", requests={"cpu": "4"}))
    clearing = VictimSelector(an_attempt(a_pod(name="urgent", priority=1, requests={"cpu": "1"}), snapshot))

    def never(_: Snapshot, pod: Pod) -> None:
        raise AssertionError(f"{pod.name} was taken out")

    monkeypatch.setattr(Snapshot, "take_out", never)
    outcome = clearing.select_victims(0)
    assert isinstance(outcome, Preemption)
    assert [victim.name for victim in outcome.victims] == ["old"]


@pytest.mark.parametrize("plugin", [pytest.param(one, id=one.name) for one in DEFAULT.filters])
def test_every_filter_declares_pod_dependence(plugin: object) -> None:
    assert isinstance(plugin, PodDependentFilter | ResourceFilter)


def test_undeclared_filter_runs_on_every_node() -> None:
    """An out-of-tree plugin that rejects nodes with a pod called `old`, without declaring that it depends on pods."""

    class NotBesideOld:
        name: ClassVar[str] = "NotBesideOld"
        events_to_register: ClassVar[tuple[QueueingHint, ...]] = ()

        def filter(self, cycle: CycleState) -> Iterable[NodeRejection]:
            if any(one.name == "old" for one in cycle.snapshot.pods_on("n1")):
                yield NodeRejection(cycle.snapshot.nodes, "not beside old")

    profile = Profile((NotBesideOld(), *DEFAULT.plugins))
    snapshot = a_snapshot(
        a_node(name="n1"), a_pod(name="old", node="n1", priority=1), a_pod(name="new", node="n1", priority=0)
    )
    outcome = preempt(an_attempt(a_pod(name="urgent", priority=2), snapshot, profile=profile))
    assert isinstance(outcome, Preemption)
    assert [victim.name for victim in outcome.victims] == ["old"]


@pytest.mark.req("T22.volumes")
def test_holder_of_read_write_once_pod_claim_is_preempted() -> None:
    """It may be anywhere, and only its leaving helps: not that of a pod on the same node, nor on another."""
    holder = a_pod(name="holder", node="n1", claims=["alone"])
    snapshot = a_world([holder, a_pod(name="beside", node="n1"), a_pod(name="away", node="n2")])
    outcome = preempt(an_attempt(a_pod(name="urgent", priority=1, claims=["alone"]), snapshot))
    assert isinstance(outcome, Preemption), outcome
    assert (outcome.node, [victim.name for victim in outcome.victims]) == ("n1", ["holder"])
