"""Spreading: what must hold, what is wished for, whom it counts, and what could change its mind."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import well_known
from mooring.api.views.core import Node
from mooring.api.views.pods import Pod
from mooring.scheduler import cluster_events
from mooring.scheduler.plugins.pod_topology_spread import UNEVEN, UNLABELLED, PodTopologySpread
from scheduler.snapshot.test_pod_terms import a_service
from support.builders import Body, a_node, a_pod
from support.scheduler.snapshots import a_snapshot, refused, rejected, requeues, scored, unresolvable

PLUGIN = PodTopologySpread()


def over(key: str = well_known.ZONE, *, skew: int = 1, hard: bool = True, app: str = "web", **more: object) -> Body:
    return {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": app}},
    } | more


def spread(*constraints: Body, app: str = "web", **more: object) -> Pod:
    return a_pod(name="new", labels={"app": app}, topology_spread=constraints, **more)


#: Two zones of two nodes each.
NODES = [a_node(name=f"{zone}{number}", zone=zone) for zone in "ab" for number in (1, 2)]


def on(*nodes: str, app: str = "web", **more: object) -> list[Pod]:
    return [a_pod(name=f"p{n}-{node}", node=node, labels={"app": app}, **more) for n, node in enumerate(nodes)]


@pytest.mark.req("T21.topology-spread")
@pytest.mark.parametrize(
    ("constraints", "there", "want"),
    [
        pytest.param([over()], [], set(), id="no pods there"),
        pytest.param([over()], on("a1"), {"a1", "a2"}, id="one zone has one more"),
        pytest.param([over(skew=2)], on("a1"), set(), id="within the skew"),
        pytest.param([over(skew=2)], on("a1", "a1"), {"a1", "a2"}, id="beyond the skew"),
        pytest.param([over()], on("a1", "b2"), set(), id="even"),
        pytest.param([over()], on("a1", app="db"), set(), id="others do not count"),
        pytest.param([over(app="db")], on("a1", app="db"), set(), id="who is not counted itself may join one"),
        pytest.param([over(app="db")], on("a1", "a1", app="db"), {"a1", "a2"}, id="but not two"),
        pytest.param([over()], on("a1", deleting=True), set(), id="who leaves does not count"),
        pytest.param([over()], on("a1", namespace="other"), set(), id="nor who is in another namespace"),
        pytest.param([over(well_known.HOSTNAME)], on("a1"), {"a1"}, id="per host"),
        pytest.param([over(), over(well_known.HOSTNAME)], on("a1", "b1"), {"a1", "b1"}, id="per zone and host"),
        pytest.param([over(minDomains=3)], on("a1", "b1"), {"a1", "a2", "b1", "b2"}, id="a third zone is to come"),
        pytest.param([over(minDomains=2)], on("a1", "b1"), set(), id="as many zones as wanted"),
        pytest.param([over(labelSelector={})], on("a1", "a1"), set(), id="an empty selector counts no pods"),
        pytest.param([over(labelSelector=None)], on("a1", "a1"), set(), id="no selector selects no pods"),
    ],
)
def test_what_must_hold(constraints: list[Body], there: list[Pod], want: set[str]) -> None:
    snapshot = a_snapshot(*NODES, *there)
    said = rejected(PLUGIN, spread(*constraints), snapshot)
    assert said == ({UNEVEN: want} if want else {})
    assert unresolvable(PLUGIN, spread(*constraints), snapshot) == set()


def test_nodes_without_the_label_are_outside() -> None:
    snapshot = a_snapshot(*NODES, a_node(name="bare"), *on("a1", "bare", "bare"))
    pod = spread(over())
    assert rejected(PLUGIN, pod, snapshot) == {UNLABELLED: {"bare"}, UNEVEN: {"a1", "a2"}}
    assert unresolvable(PLUGIN, pod, snapshot) == {"bare"}


def test_a_node_is_named_with_its_first_problem() -> None:
    nodes = [a_node(name="n1", zone="a"), a_node(name="n2", zone="b", labels={"rack": "1"})]
    pod = spread(over(well_known.HOSTNAME, app="db"), over("rack"))
    assert rejected(PLUGIN, pod, a_snapshot(*nodes, *on("n1", "n1", "n2", app="db"))) == {UNLABELLED: {"n1"}}


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        pytest.param({}, set(), id="honoured by default: the other zone is not looked at"),
        pytest.param({"nodeAffinityPolicy": "Ignore"}, {"a1", "a2"}, id="ignored: the other zone is empty"),
    ],
)
def test_nodes_the_pod_may_not_go_to(policy: Body, want: set[str]) -> None:
    pod = spread(over(**policy), node_selector={well_known.ZONE: "a"})
    assert rejected(PLUGIN, pod, a_snapshot(*NODES, *on("a1"))).get(UNEVEN, set()) == want


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        pytest.param({}, {"a1", "a2"}, id="ignored by default: the tainted zone is empty"),
        pytest.param({"nodeTaintsPolicy": "Honor"}, set(), id="honoured: it is not looked at"),
    ],
)
def test_untolerated_taints_exclude_nodes(policy: Body, want: set[str]) -> None:
    taint = {"key": "dedicated", "effect": "NoSchedule"}
    nodes = [*NODES[:2], a_node(name="b1", zone="b", taints=[taint])]
    assert rejected(PLUGIN, spread(over(**policy)), a_snapshot(*nodes, *on("a1"))).get(UNEVEN, set()) == want


def test_match_label_keys_count_only_pods_of_the_same_revision() -> None:
    old = on("a1", "a1")
    pod = a_pod(
        name="new", labels={"app": "web", "rev": "2"}, topology_spread=[over(matchLabelKeys=["rev", "unheard-of"])]
    )
    assert rejected(PLUGIN, pod, a_snapshot(*NODES, *old)) == {}
    same = a_pod(name="same", node="a1", labels={"app": "web", "rev": "2"})
    assert rejected(PLUGIN, pod, a_snapshot(*NODES, *old, same)) == {UNEVEN: {"a1", "a2"}}


def test_invalid_selector_is_reported() -> None:
    told = refused(PLUGIN, spread(over(labelSelector={"matchLabels": {"a b": "c"}})), a_snapshot(*NODES))
    assert told is not None
    assert told.startswith("pod's topology spread constraints cannot be parsed")


@pytest.mark.parametrize(
    ("constraints", "there", "want"),
    [
        pytest.param(
            [over(well_known.HOSTNAME, hard=False)],
            [],
            {"a1": 100, "a2": 100, "b1": 100, "b2": 100},
            id="no pods there",
        ),
        pytest.param(
            [over(well_known.HOSTNAME, hard=False)],
            on("a1", "a1", "a2"),
            # log(6) is 1.79: 4, 2 and 0 after rounding.
            {"a1": 0, "a2": 50, "b1": 100, "b2": 100},
            id="per host",
        ),
        pytest.param(
            [over(hard=False)],
            on("a1", "a2", "b1"),
            # log(4) is 1.39: 3 and 1 after rounding.
            {"a1": 33, "a2": 33, "b1": 100, "b2": 100},
            id="per zone",
        ),
        pytest.param(
            [over(hard=False, skew=5)],
            on("a1", "a2", "b1"),
            # Four more on both sides: 7 and 5.
            {"a1": 71, "a2": 71, "b1": 100, "b2": 100},
            id="a larger skew waters differences down",
        ),
    ],
)
def test_what_is_wished_for(constraints: list[Body], there: list[Pod], want: dict[str, int]) -> None:
    assert scored(PLUGIN, spread(*constraints), a_snapshot(*NODES, *there)) == want


def test_weights_grow_with_the_number_of_domains() -> None:
    """Both constraints at once, against the formula."""
    there = on("a1", "a2", "b1", "b1")
    pod = spread(over(hard=False), over(well_known.HOSTNAME, hard=False))
    zones, hosts = {"a": 2, "b": 2}, {"a1": 1, "a2": 1, "b1": 2, "b2": 0}
    raw = {n: math.floor(zones[n[0]] * math.log(4) + hosts[n] * math.log(6) + 0.5) for n in hosts}
    least, most = min(raw.values()), max(raw.values())
    want = {n: 100 * (most + least - count) // most for n, count in raw.items()}
    assert scored(PLUGIN, pod, a_snapshot(*NODES, *there)) == want


def test_nodes_without_the_label_score_nothing() -> None:
    result = scored(PLUGIN, spread(over(hard=False)), a_snapshot(*NODES, a_node(name="bare"), *on("a1")))
    assert result is not None
    assert result["bare"] == 0
    assert result["b1"] == 100


def test_pods_without_constraints_have_no_opinion() -> None:
    assert scored(PLUGIN, a_pod(), a_snapshot(*NODES)) is None
    assert scored(PLUGIN, spread(over()), a_snapshot(*NODES)) is None
    assert rejected(PLUGIN, a_pod(), a_snapshot(*NODES, *on("a1"))) == {}


def test_pods_of_one_service_are_spread_by_default() -> None:
    """By host with a skew of three and by zone with one of five; a node without a zone counts by its host alone."""
    there = on("a1", "a1", "b1")
    snapshot = a_snapshot(*NODES, a_node(name="bare"), *there)
    snapshot.spread_selectors.observe_service(None, a_service({"app": "web"}))
    # Five hosts and three "zones", one of which is having none.
    hosts, zones = {"a1": 2, "a2": 0, "b1": 1, "b2": 0, "bare": 0}, {"a": 2, "b": 1}
    raw = {
        name: math.floor(
            hosts[name] * math.log(7) + 2 + (zones[name[0]] * math.log(5) + 4 if name != "bare" else 0) + 0.5
        )
        for name in hosts
    }
    least, most = min(raw.values()), max(raw.values())
    want = {name: 100 * (most + least - count) // most for name, count in raw.items()}
    assert scored(PLUGIN, a_pod(name="new", labels={"app": "web"}), snapshot) == want
    assert scored(PLUGIN, a_pod(name="new", labels={"app": "db"}), snapshot) is None
    assert scored(PLUGIN, spread(over()), snapshot) is None, "who has constraints of its own has no others"


WAITING = spread(over())


@pytest.mark.req("T26.spread")
@pytest.mark.parametrize(
    ("change", "woken"),
    [
        pytest.param(cluster_events.pod_event(None, on("b1")[0]), True, id="a pod that counts came"),
        pytest.param(cluster_events.pod_event(on("a1")[0], None), True, id="a pod that counts went"),
        pytest.param(cluster_events.pod_event(on("a1", app="db")[0], None), False, id="a pod that does not count went"),
        pytest.param(cluster_events.pod_event(on("a1", namespace="other")[0], None), False, id="in another namespace"),
        pytest.param(
            cluster_events.pod_event(on("a1")[0], on("a1", deleting=True)[0]), True, id="a pod is on its way out"
        ),
        pytest.param(cluster_events.pod_event(on("a1")[0], on("a1", app="db")[0]), True, id="a pod was relabelled"),
        pytest.param(cluster_events.node_event(None, NODES[0]), True, id="a node came"),
        pytest.param(cluster_events.node_event(NODES[0], None), True, id="a node went, and a domain with it"),
        pytest.param(
            cluster_events.node_event(NODES[0], a_node(name="a1", zone="c")), True, id="a node was relabelled"
        ),
    ],
)
def test_wakes(change: cluster_events.ClusterEvent | None, woken: bool) -> None:
    assert requeues(PLUGIN, WAITING, change) is woken


nodes = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", ""]), st.sampled_from(["", "1", "2"])), min_size=1, max_size=5
)
residents = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["web", "db"]), st.booleans()), max_size=8)
soft_constraints = st.lists(
    st.tuples(st.sampled_from([well_known.ZONE, "rack", well_known.HOSTNAME]), st.integers(1, 2), st.integers(1, 3)),
    min_size=1,
    max_size=2,
)


@given(nodes, residents, soft_constraints)
def test_the_filter_is_what_a_walk_over_all_pods_says(
    drawn: list[tuple[str, str]], there: list[tuple[int, str, bool]], constraints: list[tuple[str, int, int]]
) -> None:
    cluster = [
        a_node(name=f"n{i}", zone=zone, labels={"rack": rack} if rack else {}) for i, (zone, rack) in enumerate(drawn)
    ]
    pods = [
        a_pod(name=f"p{i}", node=f"n{where % len(cluster)}", labels={"app": app}, deleting=leaving)
        for i, (where, app, leaving) in enumerate(there)
    ]
    pod = spread(*(over(key, skew=skew, minDomains=least) for key, skew, least in constraints))
    said = rejected(PLUGIN, pod, a_snapshot(*cluster, *pods))
    assert said == walked(cluster, pods, constraints)


def walked(cluster: list[Node], pods: list[Pod], constraints: list[tuple[str, int, int]]) -> dict[str, set[str]]:
    said: dict[str, set[str]] = {}
    labelled = [node for node in cluster if all(key in node.metadata.labels for key, _, _ in constraints)]
    for node in cluster:
        for key, skew, min_domains in constraints:
            value = node.metadata.labels.get(key)
            if value is None:
                said.setdefault(UNLABELLED, set()).add(node.name)
                break
            counts = {other.metadata.labels[key]: 0 for other in labelled}
            for pod in pods:
                where = next((one for one in labelled if one.name == pod.spec.node_name), None)
                if where is not None and pod.metadata.labels["app"] == "web" and not pod.deleting:
                    counts[where.metadata.labels[key]] += 1
            least = min(counts.values(), default=0) if len(counts) >= min_domains else 0
            if counts.get(value, 0) + 1 - least > skew:
                said.setdefault(UNEVEN, set()).add(node.name)
                break
    return said
