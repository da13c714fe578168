from hypothesis import given
from hypothesis import strategies as st

from builders import Body, a_pod
from mooring.api import label_selector
from mooring.api.views.pod import Pod
from mooring.scheduler import pod_index
from mooring.scheduler.affinity import NO_TERMS, PodSelector, terms_of
from mooring.scheduler.pod_index import PodIndex
from mooring.volumes import nodeset


def selecting(labels: str, *namespaces: str, more: str | None = None) -> PodSelector:
    others = label_selector.NOTHING if more is None else label_selector.parse(more)
    return PodSelector(label_selector.parse(labels), frozenset(namespaces), others)


def away_from(labels: dict[str, str], key: str = "zone") -> Body:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_pods_are_counted_by_selector_and_slot() -> None:
    index = PodIndex()
    web = selecting("app=web", "default")
    index.add(a_pod(name="a", labels={"app": "web"}), NO_TERMS, 1)
    assert index.matching(web).counts == {1: 1}

    index.add(a_pod(name="b", labels={"app": "web", "track": "canary"}), NO_TERMS, 1)
    index.add(a_pod(name="c", labels={"app": "web"}, namespace="other"), NO_TERMS, 2)
    assert index.matching(web).counts == {1: 2}
    assert index.matching(selecting("app=web", "other")).nodes == nodeset.of([2])

    index.remove(a_pod(name="a", labels={"app": "web"}), NO_TERMS, 1)
    index.remove(a_pod(name="b", labels={"app": "web", "track": "canary"}), NO_TERMS, 1)
    assert index.matching(web).nodes == nodeset.EMPTY


def test_several_selectors_must_match_the_same_pod() -> None:
    index = PodIndex()
    index.add(a_pod(name="a", labels={"app": "web"}), NO_TERMS, 1)
    index.add(a_pod(name="b", labels={"tier": "front"}), NO_TERMS, 2)
    index.add(a_pod(name="c", labels={"app": "web", "tier": "front"}), NO_TERMS, 3)

    both = index.matching(selecting("app=web", "default"), selecting("tier=front", "default"))
    assert both.nodes == nodeset.of([3])


def test_namespaces_can_be_chosen_by_their_labels_and_relabelled() -> None:
    index = PodIndex()
    index.add(a_pod(name="a", namespace="blue", labels={"app": "web"}), NO_TERMS, 1)
    team = selecting("app=web", more="team=a")
    assert index.matching(team).nodes == nodeset.EMPTY

    index.put_namespace("blue", {"team": "a"})
    assert index.matching(team).nodes == nodeset.of([1])
    index.put_namespace("blue", None)
    assert index.matching(team).nodes == nodeset.EMPTY
    assert index.matching(selecting("app=web", more="")).nodes == nodeset.of([1])


def test_equal_terms_of_replicas_are_one_entry_until_the_last_is_gone() -> None:
    index = PodIndex()
    replicas = [a_pod(name=f"db-{n}", labels={"app": "db"}, affinity=away_from({"app": "db"})) for n in range(3)]
    for slot, pod in enumerate(replicas):
        index.add(pod, terms_of(pod), slot)

    newcomer = a_pod(name="db-9", labels={"app": "db"})
    [(term, tally)] = index.forbidding(newcomer)
    assert (term.topology_key, tally.nodes) == ("zone", nodeset.of([0, 1, 2]))
    assert list(index.forbidding(a_pod(labels={"app": "other"}))) == []
    assert list(index.forbidding(a_pod(labels={"app": "db"}, namespace="other"))) == []

    for slot, pod in enumerate(replicas):
        index.remove(pod, terms_of(pod), slot)
    assert list(index.forbidding(newcomer)) == []


def test_the_longest_unused_selector_is_forgotten_and_found_again() -> None:
    index = PodIndex()
    index.add(a_pod(labels={"app": "web"}), NO_TERMS, 1)
    for number in range(pod_index.REMEMBERED_SELECTORS + 5):
        index.matching(selecting(f"app=web,n!={number}", "default"))
    first = selecting("app=web,n!=0", "default")
    index.add(a_pod(name="late", labels={"app": "web"}), NO_TERMS, 2)

    assert index.matching(first).counts == {1: 1, 2: 1}


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
                index.matching(step)
            case (Pod() as pod, int(slot), arrives):
                if arrives:
                    index.add(pod, NO_TERMS, slot)
                    on.append((pod, slot))
                elif (pod, slot) in on:
                    index.remove(pod, NO_TERMS, slot)
                    on.remove((pod, slot))
            case (str(name), dict(labels)):
                index.put_namespace(name, labels)
                namespaces[name] = labels
    for selector in SELECTORS:
        matching = [slot for pod, slot in on if selector.matches(pod, namespaces.get(pod.namespace, {}))]
        tally = index.matching(selector)
        assert tally.counts == {slot: matching.count(slot) for slot in matching}
        assert tally.nodes == nodeset.of(matching)
