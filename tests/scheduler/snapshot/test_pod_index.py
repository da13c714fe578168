from collections import Counter
from collections.abc import Iterable, Mapping
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from mooring.api import selectors
from mooring.api.views.pods import Pod
from mooring.scheduler.snapshot import pod_index
from mooring.scheduler.snapshot.node_indexes import NodeCounts
from mooring.scheduler.snapshot.pod_index import PodIndex
from mooring.scheduler.snapshot.pod_terms import NO_TERMS, PodSelector, terms_of
from mooring.volumes import topology
from support.builders import Body, a_pod


def selecting(labels: str, *namespaces: str, more: str | None = None) -> PodSelector:
    others = selectors.NOTHING if more is None else selectors.parse_label_selector(more)
    return PodSelector(selectors.parse_label_selector(labels), frozenset(namespaces), others)


def away_from(labels: dict[str, str], key: str = "zone") -> Body:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_pods_are_counted_by_selector_and_slot() -> None:
    index = PodIndex()
    web = selecting("app=web", "default")
    index.count(a_pod(name="a", labels={"app": "web"}), NO_TERMS, 1, 1)
    assert index.matching(web).column(3).tolist() == [0, 1, 0]

    index.count(a_pod(name="b", labels={"app": "web", "track": "canary"}), NO_TERMS, 1, 1)
    index.count(a_pod(name="c", labels={"app": "web"}, namespace="other"), NO_TERMS, 2, 1)
    assert index.matching(web).column(3).tolist() == [0, 2, 0]
    assert index.matching(selecting("app=web", "other")).nodes == topology.node_set_of([2])

    index.count(a_pod(name="a", labels={"app": "web"}), NO_TERMS, 1, -1)
    index.count(a_pod(name="b", labels={"app": "web", "track": "canary"}), NO_TERMS, 1, -1)
    assert index.matching(web).nodes == topology.EMPTY


def test_several_selectors_must_match_the_same_pod() -> None:
    index = PodIndex()
    index.count(a_pod(name="a", labels={"app": "web"}), NO_TERMS, 1, 1)
    index.count(a_pod(name="b", labels={"tier": "front"}), NO_TERMS, 2, 1)
    index.count(a_pod(name="c", labels={"app": "web", "tier": "front"}), NO_TERMS, 3, 1)

    both = index.matching(selecting("app=web", "default"), selecting("tier=front", "default"))
    assert both.nodes == topology.node_set_of([3])


def test_namespaces_can_be_chosen_by_their_labels_and_relabelled() -> None:
    index = PodIndex()
    index.count(a_pod(name="a", namespace="blue", labels={"app": "web"}), NO_TERMS, 1, 1)
    team = selecting("app=web", more="team=a")
    assert index.matching(team).nodes == topology.EMPTY

    index.put_namespace("blue", {"team": "a"})
    assert index.matching(team).nodes == topology.node_set_of([1])
    index.put_namespace("blue", None)
    assert index.matching(team).nodes == topology.EMPTY
    assert index.matching(selecting("app=web", more="")).nodes == topology.node_set_of([1])


def test_equal_terms_of_replicas_are_one_entry_until_the_last_is_gone() -> None:
    index = PodIndex()
    replicas = [a_pod(name=f"db-{n}", labels={"app": "db"}, affinity=away_from({"app": "db"})) for n in range(3)]
    for slot, pod in enumerate(replicas):
        index.count(pod, terms_of(pod), slot, 1)

    newcomer = a_pod(name="db-9", labels={"app": "db"})
    [(key, tally)] = index.forbidding(newcomer)
    assert (key, tally.nodes, tally.counts) == ("zone", topology.node_set_of([0, 1, 2]), {0: 1, 1: 1, 2: 1})
    assert list(index.forbidding(a_pod(labels={"app": "other"}))) == []
    assert list(index.forbidding(a_pod(labels={"app": "db"}, namespace="other"))) == []

    for slot, pod in enumerate(replicas):
        index.count(pod, terms_of(pod), slot, -1)
    assert list(index.forbidding(newcomer)) == []


def test_least_recently_used_selector_is_evicted() -> None:
    index = PodIndex()
    index.count(a_pod(labels={"app": "web"}), NO_TERMS, 1, 1)
    for number in range(pod_index.MAX_CACHED_SELECTORS + 5):
        index.matching(selecting(f"app=web,n!={number}", "default"))
    first = selecting("app=web,n!=0", "default")
    index.count(a_pod(name="late", labels={"app": "web"}), NO_TERMS, 2, 1)

    assert index.matching(first).column(3).tolist() == [0, 1, 1]


PODS = [
    a_pod(name=f"{app}-{tier}-{namespace}", namespace=namespace, labels={"app": app, "tier": tier})
    for app in ("web", "db")
    for tier in ("x", "y")
    for namespace in ("default", "other")
]
SELECTORS = (
    selecting("app=web", "default"),
    selecting("tier!=x", "default", "other"),
    selecting("app in (web,db)", more="team"),
)


@given(
    st.lists(
        st.tuples(st.sampled_from(PODS), st.integers(0, 3), st.booleans())
        | st.sampled_from(SELECTORS)
        | st.tuples(st.sampled_from(["default", "other"]), st.sampled_from([{}, {"team": "a"}])),
        max_size=25,
    )
)
def test_tallies_equal_a_count_from_scratch(steps: list[object]) -> None:
    index = PodIndex()
    on: list[tuple[Pod, int]] = []
    namespaces: dict[str, dict[str, str]] = {}
    for step in steps:
        match step:
            case PodSelector():
                # The column is kept from now on, and does not reach the slots of pods that come later.
                index.matching(step).column(1 + max((slot for _, slot in on), default=0))
            case (Pod() as pod, int(slot), arrives):
                if arrives:
                    index.count(pod, NO_TERMS, slot, 1)
                    on.append((pod, slot))
                elif (pod, slot) in on:
                    index.count(pod, NO_TERMS, slot, -1)
                    on.remove((pod, slot))
            case (str(name), dict(labels)):
                index.put_namespace(name, labels)
                namespaces[name] = labels
    for selector in SELECTORS:
        matching = [slot for pod, slot in on if selector.matches(pod, namespaces.get(pod.namespace, {}))]
        tally = index.matching(selector)
        assert tally.column(4).tolist() == [matching.count(slot) for slot in range(4)]
        assert tally.nodes == topology.node_set_of(matching)


def term(labels: Body, key: str, **fields: object) -> Body:
    return {"topologyKey": key, "labelSelector": labels, **fields}


WEB: Body = {"matchLabels": {"app": "web"}}
#: A label is looked at only while one of those that name it is carried.
TERMS = (
    term(WEB, "zone"),
    term(WEB, "host"),
    term({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["x"]}]}, "zone"),
    term({"matchLabels": {"app": "db"}}, "zone", namespaces=["other"]),
    term({}, "host", namespaceSelector={"matchLabels": {"team": "a"}}),
)


def carrying(required: Body, preferred: Body, weight: int) -> Pod:
    """A pod with a required term on either side, and preferred ones whose weights may cancel those of others."""
    wish = {"weight": weight, "podAffinityTerm": preferred}
    near, far = ("podAffinity", "podAntiAffinity") if weight % 2 else ("podAntiAffinity", "podAffinity")
    affinity = {
        near: {"requiredDuringSchedulingIgnoredDuringExecution": [required]},
        far: {"preferredDuringSchedulingIgnoredDuringExecution": [wish, wish]},
    }
    return a_pod(name="carrier", affinity=affinity)


CARRIERS = st.builds(carrying, st.sampled_from(TERMS), st.sampled_from(TERMS), st.integers(0, 3))


def from_scratch(pod: Pod, on: list[tuple[Pod, int]], labels: dict[str, str]) -> tuple[Body, Body]:
    """What carried terms forbid and attract, by topology key and slot, added up one by one."""
    forbidden: Counter[tuple[str, int]] = Counter()
    attracted: Counter[tuple[str, int]] = Counter()
    for other, slot in on:
        affinity, anti_affinity, preferred = terms_of(other)
        for term in anti_affinity:
            forbidden[term.topology_key, slot] += term.pods.matches(pod, labels)
        for term, weight in (*((term, pod_index.HARD_AFFINITY_WEIGHT) for term in affinity), *preferred):
            attracted[term.topology_key, slot] += weight * term.pods.matches(pod, labels)
    return _table(forbidden), _table(attracted)


def _table(sums: Mapping[tuple[str, int], int]) -> Body:
    return {key: column for key in ("zone", "host") if any(column := [sums.get((key, slot), 0) for slot in range(4)])}


def kept(sums: Iterable[tuple[str, NodeCounts]]) -> Body:
    columns = {key: tally.column(4).tolist() for key, tally in sums}
    return {key: column for key, column in columns.items() if any(column)}


@given(
    st.lists(
        st.tuples(CARRIERS, st.integers(0, 3))
        | st.integers(0, 20)
        | st.tuples(st.sampled_from(["default", "other"]), st.sampled_from([{}, {"team": "a"}])),
        max_size=20,
    ),
    st.sampled_from([3, 64]),
)
def test_sums_of_carried_terms_equal_those_from_scratch(steps: list[object], remembered: int) -> None:
    """However pods with terms come and go (a number is the one that goes), and whether sums are kept or forgotten."""
    index = PodIndex()
    on: list[tuple[Pod, int]] = []
    namespaces: dict[str, dict[str, str]] = {}
    with patch.object(pod_index, "MAX_CACHED_SUMS", remembered):
        for step in steps:
            match step:
                case (Pod() as carrier, int(slot)):
                    index.count(carrier, terms_of(carrier), slot, 1)
                    on.append((carrier, slot))
                case int(number) if on:
                    carrier, slot = on.pop(number % len(on))
                    index.count(carrier, terms_of(carrier), slot, -1)
                case (str(name), dict(labels)):
                    index.put_namespace(name, labels)
                    namespaces[name] = labels
            for pod in PODS:
                forbidden, attracted = from_scratch(pod, on, namespaces.get(pod.namespace, {}))
                assert kept(index.forbidding(pod)) == forbidden
                assert kept(index.attracting(pod)) == attracted
                carried = {term.topology_key for term in index._attracting._terms}
                assert {key for key, _ in index.attracting(pod)} <= carried
    summed_for = [len(one.sums) for one in index._attracting._terms.values()]
    assert max(summed_for, default=0) <= remembered
    for carrier, slot in on:
        index.count(carrier, terms_of(carrier), slot, -1)
    assert all(not index.forbidding(pod) and not index.attracting(pod) for pod in PODS)
