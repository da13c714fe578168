import pytest

from builders import Body, a_pod
from mooring.api.label_selector import NOTHING, SelectorError
from mooring.scheduler.affinity import NO_TERMS, terms_of


def required(**term: object) -> Body:
    whole = {"topologyKey": "zone"} | term
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [whole]}}


def test_a_pod_without_affinity_has_no_terms() -> None:
    assert terms_of(a_pod()) is NO_TERMS
    assert terms_of(a_pod(affinity={"nodeAffinity": {}})) is NO_TERMS


def test_preferences_carry_their_sign() -> None:
    term = {"topologyKey": "zone", "labelSelector": {}}
    wish = [{"weight": 30, "podAffinityTerm": term}]
    both = {
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wish},
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wish},
    }

    assert [wish.weight for wish in terms_of(a_pod(affinity=both)).preferred] == [30, -30]


@pytest.mark.parametrize(
    ("term", "namespaces"),
    [
        pytest.param({}, {"default"}, id="its own namespace where the term names none"),
        pytest.param({"namespaces": ["a", "b"]}, {"a", "b"}, id="those the term names"),
        pytest.param({"namespaceSelector": {}}, set(), id="not its own beside a namespaceSelector"),
    ],
)
def test_namespaces(term: Body, namespaces: set[str]) -> None:
    [found] = terms_of(a_pod(affinity=required(labelSelector={}, **term))).affinity

    assert found.pods.namespaces == namespaces


def test_an_absent_selector_selects_nothing_and_an_empty_one_everything() -> None:
    pod = a_pod(labels={"app": "web"})
    [absent] = terms_of(a_pod(affinity=required())).affinity
    [empty] = terms_of(a_pod(affinity=required(labelSelector={}))).affinity

    assert absent.pods.labels == NOTHING
    assert empty.pods.matches(pod, {})


def test_match_label_keys_are_read_from_the_pod_itself() -> None:
    keys = {"labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["hash", "absent"]}
    [term] = terms_of(a_pod(labels={"app": "web", "hash": "7"}, affinity=required(**keys))).affinity
    mismatch = {"labelSelector": {"matchLabels": {"app": "web"}}, "mismatchLabelKeys": ["hash"]}
    [other] = terms_of(a_pod(labels={"app": "web", "hash": "7"}, affinity=required(**mismatch))).affinity

    assert str(term.pods.labels) == "app=web,hash=7"
    assert str(other.pods.labels) == "app=web,hash!=7"


def test_working_match_label_keys_in_twice_changes_nothing() -> None:
    """Current API servers have merged them into the selector already."""
    merged = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "hash", "operator": "In", "values": ["7"]}]}
    labels = {"app": "web", "hash": "7"}
    [term] = terms_of(a_pod(labels=labels, affinity=required(labelSelector=merged, matchLabelKeys=["hash"]))).affinity

    assert str(term.pods.labels) == "app=web,hash=7"


def test_replicas_share_their_terms() -> None:
    affinity = required(labelSelector={"matchLabels": {"app": "web"}})
    first, second = (terms_of(a_pod(name=name, affinity=affinity)) for name in ("a", "b"))

    assert hash(first) == hash(second)
    assert first == second


def test_a_selector_nobody_understands_is_an_error() -> None:
    wrong = {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["w*"]}]}
    with pytest.raises(SelectorError, match="Like"):
        terms_of(a_pod(affinity=required(labelSelector=wrong)))
