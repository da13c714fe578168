import msgspec
import pytest

from mooring.api.kinds import REPLICA_SET, REPLICATION_CONTROLLER, SERVICE, STATEFUL_SET
from mooring.api.selectors import NOTHING, SelectorError
from mooring.api.views.core import Service
from mooring.api.views.workloads import StatefulSet
from mooring.scheduler.snapshot.pod_terms import NO_TERMS, DefaultSpreadSelectors, terms_of
from support.builders import Body, a_pod, metadata


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


def test_invalid_selector_is_an_error() -> None:
    wrong = {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["w*"]}]}
    with pytest.raises(SelectorError, match="Like"):
        terms_of(a_pod(affinity=required(labelSelector=wrong)))


def a_service(selector: Body | None, *, namespace: str = "default", name: str = "web") -> Service:
    body = {"metadata": metadata(name=name, namespace=namespace), "spec": {"selector": selector}}
    return SERVICE.decode(msgspec.json.encode(body))


def a_set(selector: Body, *, name: str = "db") -> StatefulSet:
    body = {"metadata": metadata(name=name, namespace="default"), "spec": {"selector": selector}}
    return STATEFUL_SET.decode(msgspec.json.encode(body))


def owner(kind: str, name: str, version: str = "apps/v1") -> list[Body]:
    return [{"apiVersion": version, "kind": kind, "name": name, "uid": "u", "controller": True}]


def selector_text(spread_selectors: DefaultSpreadSelectors, **pod: object) -> str:
    selector = spread_selectors.of(a_pod(labels={"app": "web", "tier": "1"}, **pod))
    return "" if selector is None else str(selector)


@pytest.mark.parametrize(
    ("services", "want"),
    [
        pytest.param([], "", id="none"),
        pytest.param([a_service({"app": "web"})], "app=web", id="of one service"),
        pytest.param([a_service({"app": "db"})], "", id="of another"),
        pytest.param([a_service({"app": "web"}, namespace="other")], "", id="in another namespace"),
        pytest.param([a_service({}), a_service(None, name="headless")], "", id="without a selector"),
        pytest.param(
            [a_service({"app": "web"}), a_service({"tier": "1"}, name="tier")], "app=web,tier=1", id="of two services"
        ),
    ],
)
def test_services(services: list[Service], want: str) -> None:
    spread_selectors = DefaultSpreadSelectors()
    for service in services:
        spread_selectors.observe_service(None, service)
    assert selector_text(spread_selectors) == want
    for service in services:
        spread_selectors.observe_service(service, None)
    assert selector_text(spread_selectors) == ""


def test_controllers_are_found_by_the_owner_reference() -> None:
    spread_selectors = DefaultSpreadSelectors()
    wanted = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}
    spread_selectors.observe_controller(None, a_set(wanted))
    assert selector_text(spread_selectors, owners=owner("StatefulSet", "db")) == "app in (db,web)"
    assert selector_text(spread_selectors, owners=owner("StatefulSet", "other")) == ""
    assert selector_text(spread_selectors, owners=owner("ReplicaSet", "db")) == ""
    assert selector_text(spread_selectors, owners=owner("StatefulSet", "db"), namespace="other") == ""
    spread_selectors.observe_controller(a_set(wanted), None)
    assert selector_text(spread_selectors, owners=owner("StatefulSet", "db")) == ""


def test_all_sorts_of_controllers() -> None:
    spread_selectors = DefaultSpreadSelectors()
    meta = metadata(name="x", namespace="default")
    sets = {"metadata": meta, "spec": {"selector": {"matchLabels": {"app": "web"}}}}
    old = {"metadata": meta, "spec": {"selector": {"tier": "1"}}}
    spread_selectors.observe_controller(None, REPLICA_SET.decode(msgspec.json.encode(sets)))
    spread_selectors.observe_controller(None, REPLICATION_CONTROLLER.decode(msgspec.json.encode(old)))
    spread_selectors.observe_service(None, a_service({"tier": "1"}))
    assert selector_text(spread_selectors, owners=owner("ReplicaSet", "x")) == "app=web,tier=1"
    assert selector_text(spread_selectors, owners=owner("ReplicationController", "x", "v1")) == "tier=1"


def test_invalid_selector_of_a_workload_is_ignored() -> None:
    spread_selectors = DefaultSpreadSelectors()
    spread_selectors.observe_controller(None, a_set({"matchLabels": {"a b": "c"}}))
    assert selector_text(spread_selectors, owners=owner("StatefulSet", "db")) == ""
