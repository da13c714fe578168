import msgspec
import pytest

from builders import Body, a_pod, metadata
from mooring.api.kinds import REPLICA_SET, REPLICATION_CONTROLLER, SERVICE, STATEFUL_SET
from mooring.api.views.service import Service
from mooring.api.views.workload import StatefulSet
from mooring.scheduler.siblings import Siblings


def a_service(selector: Body | None, *, namespace: str = "default", name: str = "web") -> Service:
    body = {"metadata": metadata(name=name, namespace=namespace), "spec": {"selector": selector}}
    return SERVICE.decode(msgspec.json.encode(body))


def a_set(selector: Body, *, name: str = "db") -> StatefulSet:
    body = {"metadata": metadata(name=name, namespace="default"), "spec": {"selector": selector}}
    return STATEFUL_SET.decode(msgspec.json.encode(body))


def owner(kind: str, name: str, version: str = "apps/v1") -> list[Body]:
    return [{"apiVersion": version, "kind": kind, "name": name, "uid": "u", "controller": True}]


def told(siblings: Siblings, **pod: object) -> str:
    selector = siblings.of(a_pod(labels={"app": "web", "tier": "1"}, **pod))
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
    siblings = Siblings()
    for service in services:
        siblings.observe_service(None, service)
    assert told(siblings) == want
    for service in services:
        siblings.observe_service(service, None)
    assert told(siblings) == ""


def test_controllers_are_found_by_the_owner_reference() -> None:
    siblings = Siblings()
    wanted = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}
    siblings.observe_controller(None, a_set(wanted))
    assert told(siblings, owners=owner("StatefulSet", "db")) == "app in (db,web)"
    assert told(siblings, owners=owner("StatefulSet", "other")) == ""
    assert told(siblings, owners=owner("ReplicaSet", "db")) == ""
    assert told(siblings, owners=owner("StatefulSet", "db"), namespace="other") == ""
    siblings.observe_controller(a_set(wanted), None)
    assert told(siblings, owners=owner("StatefulSet", "db")) == ""


def test_all_sorts_of_controllers() -> None:
    siblings = Siblings()
    meta = metadata(name="x", namespace="default")
    sets = {"metadata": meta, "spec": {"selector": {"matchLabels": {"app": "web"}}}}
    old = {"metadata": meta, "spec": {"selector": {"tier": "1"}}}
    siblings.observe_controller(None, REPLICA_SET.decode(msgspec.json.encode(sets)))
    siblings.observe_controller(None, REPLICATION_CONTROLLER.decode(msgspec.json.encode(old)))
    siblings.observe_service(None, a_service({"tier": "1"}))
    assert told(siblings, owners=owner("ReplicaSet", "x")) == "app=web,tier=1"
    assert told(siblings, owners=owner("ReplicationController", "x", "v1")) == "tier=1"


def test_a_selector_nobody_understands_tells_nothing() -> None:
    siblings = Siblings()
    siblings.observe_controller(None, a_set({"matchLabels": {"a b": "c"}}))
    assert told(siblings, owners=owner("StatefulSet", "db")) == ""
