from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.views.core import Namespace, Node
from mooring.api.views.meta import Meta
from mooring.api.views.pods import Pod
from mooring.scheduler import cluster_events
from mooring.scheduler.plugins.inter_pod_affinity import (
    AFFINITY,
    ANTI_AFFINITY,
    EXISTING_ANTI_AFFINITY,
    InterPodAffinity,
)
from mooring.scheduler.snapshot.pod_terms import Term, terms_of
from support.builders import Body, a_node, a_pod
from support.scheduler.snapshots import a_snapshot, refused, rejected, requeues, scored, unresolvable

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

#: Two zones with two nodes each, and a node in none.
NODES = (
    a_node(name="a1", zone="a"),
    a_node(name="a2", zone="a"),
    a_node(name="b1", zone="b"),
    a_node(name="b2", zone="b"),
    a_node(name="x"),
)


def term(key: str, app: str, **more: object) -> Body:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}} | more


def near(*terms: Body) -> Body:
    return {"podAffinity": {REQUIRED: list(terms)}}


def away(*terms: Body) -> Body:
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def app(name: str, *, on: str = "", affinity: Body | None = None, namespace: str = "default", suffix: str = "") -> Pod:
    return a_pod(name=f"{name}{suffix}-{on}", namespace=namespace, labels={"app": name}, node=on, affinity=affinity)


@pytest.mark.req("T21.pod-affinity")
@pytest.mark.parametrize(
    ("pod", "others", "rejects"),
    [
        pytest.param(app("web"), [app("db", on="a1")], set(), id="no terms"),
        pytest.param(
            app("web", affinity=near(term(ZONE, "db"))), [app("db", on="a1")], {"b1", "b2", "x"}, id="same zone"
        ),
        pytest.param(
            app("web", affinity=near(term(HOST, "db"))), [app("db", on="a1")], {"a2", "b1", "b2", "x"}, id="same host"
        ),
        pytest.param(
            app("web", affinity=near(term(ZONE, "db"))), [], {"a1", "a2", "b1", "b2", "x"}, id="no pod matches"
        ),
        pytest.param(
            app("web", affinity=near(term(ZONE, "web"))),
            [],
            {"x"},
            id="the first of its own group, where the key exists",
        ),
        pytest.param(
            app("web", affinity=near(term(ZONE, "web"))),
            [app("web", on="b1")],
            {"a1", "a2", "x"},
            id="the second of its group",
        ),
        pytest.param(
            app("web", affinity=near(term(ZONE, "web"))),
            [app("web", on="x")],
            {"x"},
            id="a mate on a node without the key does not count",
        ),
        pytest.param(
            app("web", affinity=near(term(ZONE, "db"))),
            [app("db", on="a1", namespace="other")],
            {"a1", "a2", "b1", "b2", "x"},
            id="a pod of another namespace does not count",
        ),
        pytest.param(
            app("web", affinity=near(term(ZONE, "db", namespaces=["other"]))),
            [app("db", on="a1", namespace="other")],
            {"b1", "b2", "x"},
            id="unless the term names the namespace",
        ),
        pytest.param(
            app("web", affinity=near(term(ZONE, "db"), term(ZONE, "web"))),
            [app("db", on="a1"), app("web", on="a1")],
            {"a1", "a2", "b1", "b2", "x"},
            id="one pod must fulfil all terms",
        ),
    ],
)
def test_affinity(pod: Pod, others: Sequence[Pod], rejects: set[str]) -> None:
    snapshot = a_snapshot(*NODES, *others)

    assert rejected(InterPodAffinity(), pod, snapshot) == ({AFFINITY: rejects} if rejects else {})
    assert unresolvable(InterPodAffinity(), pod, snapshot) == rejects


@pytest.mark.req("T21.pod-anti-affinity")
@pytest.mark.parametrize(
    ("pod", "others", "want"),
    [
        pytest.param(
            app("web", affinity=away(term(ZONE, "db"))),
            [app("db", on="a1")],
            {ANTI_AFFINITY: {"a1", "a2"}},
            id="other zone",
        ),
        pytest.param(
            app("web", affinity=away(term(ZONE, "db"))), [app("db", on="x")], {}, id="no zone is no zone to avoid"
        ),
        pytest.param(
            app("web", affinity=away(term(HOST, "db"), term(ZONE, "mq"))),
            [app("db", on="a1"), app("mq", on="b1")],
            {ANTI_AFFINITY: {"a1", "b1", "b2"}},
            id="every term keeps away by itself",
        ),
        pytest.param(
            app("web"),
            [app("db", on="a1", affinity=away(term(ZONE, "web")))],
            {EXISTING_ANTI_AFFINITY: {"a1", "a2"}},
            id="a placed pod keeps the newcomer away",
        ),
        pytest.param(
            app("web"),
            [app("db", on="a1", affinity=away(term(ZONE, "mq")))],
            {},
            id="a placed pod's anti-affinity selects other pods",
        ),
        pytest.param(
            app("db", affinity=away(term(HOST, "db"))),
            [app("db", on="a1", affinity=away(term(HOST, "db"))), app("db", on="b1", affinity=away(term(HOST, "db")))],
            {ANTI_AFFINITY: {"a1", "b1"}},
            id="both sides mind: the first reason is the only one",
        ),
    ],
)
def test_anti_affinity(pod: Pod, others: Sequence[Pod], want: dict[str, set[str]]) -> None:
    snapshot = a_snapshot(*NODES, *others)

    assert rejected(InterPodAffinity(), pod, snapshot) == want
    assert unresolvable(InterPodAffinity(), pod, snapshot) == set()


def test_namespaces_by_label() -> None:
    namespace = Namespace(metadata=Meta(name="other", labels={"team": "a"}))
    wants = near(term(HOST, "db", namespaceSelector={"matchLabels": {"team": "a"}}))
    snapshot = a_snapshot(*NODES, namespace, app("db", on="a1", namespace="other"), app("db", on="b1"))

    assert rejected(InterPodAffinity(), app("web", affinity=wants), snapshot) == {AFFINITY: {"a2", "b1", "b2", "x"}}


@pytest.mark.parametrize(
    ("expression", "namespaces"),
    [
        pytest.param({"operator": "NotIn", "values": ["a"]}, {"b", "none"}, id="NotIn"),
        pytest.param({"operator": "DoesNotExist"}, {"none"}, id="DoesNotExist"),
    ],
)
def test_namespaces_by_what_their_labels_are_not(expression: Body, namespaces: set[str]) -> None:
    """The labels of the pod's namespace count, not that an empty set of labels satisfies the selector."""
    teams = {"a": {"team": "a"}, "b": {"team": "b"}, "none": {}}
    selector = {"matchExpressions": [{"key": "team"} | expression]}
    on = dict(zip(teams, ("a1", "a2", "b1"), strict=True))
    snapshot = a_snapshot(
        *NODES,
        *(Namespace(metadata=Meta(name=name, labels=labels)) for name, labels in teams.items()),
        *(app("db", on=node, namespace=name) for name, node in on.items()),
    )
    pod = app("web", affinity=away(term(HOST, "db", namespaceSelector=selector)))

    assert rejected(InterPodAffinity(), pod, snapshot) == {ANTI_AFFINITY: {on[name] for name in namespaces}}


def test_invalid_selector_is_refused_with_the_reason() -> None:
    wrong = {"topologyKey": ZONE, "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}}
    said = refused(InterPodAffinity(), app("web", affinity=near(wrong)), a_snapshot(*NODES))

    assert said is not None
    assert "Like" in said


def weighted(weight: int, one: Body) -> Body:
    return {"weight": weight, "podAffinityTerm": one}


def test_preferences_of_the_pod_score() -> None:
    wants = {
        "podAffinity": {PREFERRED: [weighted(10, term(ZONE, "db"))]},
        "podAntiAffinity": {PREFERRED: [weighted(10, term(HOST, "mq"))]},
    }
    others = [app("db", on="a1"), app("mq", on="a2"), app("mq", on="b1")]
    scores = scored(InterPodAffinity(), app("web", affinity=wants), a_snapshot(*NODES, *others))

    assert scores == {"a1": 100, "a2": 50, "b1": 0, "b2": 50, "x": 50}


def test_preferences_and_needs_of_placed_pods_score() -> None:
    likes = {"podAffinity": {PREFERRED: [weighted(3, term(HOST, "web"))], REQUIRED: [term(HOST, "web")]}}
    dislikes = {"podAntiAffinity": {PREFERRED: [weighted(4, term(HOST, "web"))]}}
    others = [app("db", on="a1", affinity=likes), app("mq", on="b1", affinity=dislikes)]
    scores = scored(InterPodAffinity(), app("web"), a_snapshot(*NODES, *others))

    assert scores == {"a1": 100, "a2": 50, "b1": 0, "b2": 50, "x": 50}


def test_without_preferences_there_is_no_opinion() -> None:
    assert scored(InterPodAffinity(), app("web"), a_snapshot(*NODES, app("db", on="a1"))) is None


@pytest.mark.req("T26.pod")
@pytest.mark.parametrize(
    ("affinity", "before", "after", "want"),
    [
        pytest.param(near(term(ZONE, "db")), None, app("db", on="a1"), True, id="the pod to be near comes"),
        pytest.param(near(term(ZONE, "db")), None, app("mq", on="a1"), False, id="another pod comes"),
        pytest.param(near(term(ZONE, "db")), None, app("db"), False, id="it comes but has no node yet"),
        pytest.param(near(term(ZONE, "db")), app("db"), app("db", on="a1"), True, id="it gets its node"),
        pytest.param(away(term(ZONE, "db")), app("db", on="a1"), None, True, id="the pod in the way goes"),
        pytest.param(away(term(ZONE, "db")), app("mq", on="a1"), None, False, id="another pod goes"),
        pytest.param(away(term(ZONE, "db")), None, app("db", on="a1"), False, id="one more in the way comes"),
        pytest.param(
            None, app("db", on="a1", affinity=away(term(ZONE, "web"))), None, True, id="the pod that minded goes"
        ),
        pytest.param(
            away(term(ZONE, "db"), term(ZONE, "mq")),
            app("db", on="a1"),
            None,
            True,
            id="the pod in the way of one of two terms goes",
        ),
        pytest.param(
            None,
            app("db", on="a1", affinity=away(term(ZONE, "web"), term(ZONE, "mq"))),
            None,
            True,
            id="the pod that minded by one of two terms goes",
        ),
        pytest.param(
            away(term(ZONE, "db"), term(ZONE, "mq")),
            app("db", on="a1"),
            a_pod(name="db-a1", labels={"app": "other"}, node="a1"),
            True,
            id="the pod in the way of one of two terms gets other labels",
        ),
        pytest.param(
            away(term(ZONE, "db")),
            app("db"),
            a_pod(name="db-", labels={"app": "other"}),
            False,
            id="a pod without a node gets other labels",
        ),
    ],
)
def test_pods_wake(affinity: Body | None, before: Pod | None, after: Pod | None, want: bool) -> None:
    pod = app("web", affinity=affinity)

    assert requeues(InterPodAffinity(), pod, cluster_events.pod_event(before, after)) is want


# --- against the rules, node by node and pod by pod ---

APPS = ("web", "db")
TERMS = st.builds(term, st.sampled_from([ZONE, HOST]), st.sampled_from(APPS))
AFFINITIES = st.builds(
    lambda good, bad: {"podAffinity": {REQUIRED: good}, "podAntiAffinity": {REQUIRED: bad}},
    st.lists(TERMS, max_size=2),
    st.lists(TERMS, max_size=2),
)
PLACED = st.lists(
    st.tuples(st.sampled_from(APPS), st.sampled_from([node.name for node in NODES]), st.none() | AFFINITIES), max_size=4
)


def _speaks_of(one: Term, pod: Pod) -> bool:
    return one.pods.matches(pod, {})


def _same(key: str, first: Node, second: Node) -> bool:
    value = first.metadata.labels.get(key)
    return value is not None and value == second.metadata.labels.get(key)


def _by_the_rules(pod: Pod, node: Node, placed: list[tuple[Pod, Node]]) -> str | None:
    terms = terms_of(pod)
    mates = [where for other, where in placed if all(_speaks_of(one, other) for one in terms.affinity)]
    if terms.affinity:
        if any(one.topology_key not in node.metadata.labels for one in terms.affinity):
            return AFFINITY
        counts = any(one.topology_key in where.metadata.labels for where in mates for one in terms.affinity)
        first_of_group = not counts and all(_speaks_of(one, pod) for one in terms.affinity)
        if not first_of_group and not all(
            any(_same(one.topology_key, node, where) for where in mates) for one in terms.affinity
        ):
            return AFFINITY
    for one in terms.anti_affinity:
        if any(_speaks_of(one, other) and _same(one.topology_key, node, where) for other, where in placed):
            return ANTI_AFFINITY
    for other, where in placed:
        for one in terms_of(other).anti_affinity:
            if _speaks_of(one, pod) and _same(one.topology_key, node, where):
                return EXISTING_ANTI_AFFINITY
    return None


@pytest.mark.req("T21.pod-affinity", "T21.pod-anti-affinity")
@given(PLACED, st.sampled_from(APPS), AFFINITIES)
def test_all_nodes_at_once_equals_one_by_one(
    placed: list[tuple[str, str, Body | None]], name: str, affinity: Body
) -> None:
    by_name = {node.name: node for node in NODES}
    others = [
        (app(other, on=on, affinity=terms, suffix=str(number)), by_name[on])
        for number, (other, on, terms) in enumerate(placed)
    ]
    pod = app(name, affinity=affinity)
    said = rejected(InterPodAffinity(), pod, a_snapshot(*NODES, *(other for other, _ in others)))

    expected: dict[str, set[str]] = {}
    for node in NODES:
        if reason := _by_the_rules(pod, node, others):
            expected.setdefault(reason, set()).add(node.name)
    assert said == expected
