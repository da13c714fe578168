"""Tables of workloads, Services, Endpoints and policies."""

from typing import Any

import pytest

from mooring.api import kinds
from mooring.api.kinds import Kind
from support.server.table_rows import row

Body = dict[str, Any]


def test_a_stateful_set() -> None:
    containers = [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}]
    workload = {
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "template": {"spec": {"containers": containers}}},
        "status": {"readyReplicas": 2},
    }
    assert row(kinds.STATEFUL_SET, workload) == {
        "Name": "web",
        "Ready": "2/3",
        "Age": "5m",
        "Containers": "a,b",
        "Images": "a:1,b:2",
    }


@pytest.mark.parametrize(("spec", "want"), [({}, "0/1"), ({"replicas": 0}, "0/0")], ids=["unsaid", "none"])
def test_how_many_a_stateful_set_wants(spec: Body, want: str) -> None:
    assert row(kinds.STATEFUL_SET, {"spec": spec})["Ready"] == want


@pytest.mark.parametrize(
    ("service", "want"),
    [
        pytest.param({}, ("", "<none>", "<none>", "<none>", "<none>"), id="empty"),
        pytest.param(
            {
                "spec": {
                    "type": "ClusterIP",
                    "clusterIP": "10.0.0.1",
                    "clusterIPs": ["10.0.0.1", "fd00::1"],
                    "ports": [{"port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}],
                    "selector": {"b": "2", "a": "1"},
                }
            },
            ("ClusterIP", "10.0.0.1", "<none>", "80/TCP,53/UDP", "a=1,b=2"),
            id="inside",
        ),
        pytest.param(
            {"spec": {"type": "ClusterIP", "clusterIP": "None"}},
            ("ClusterIP", "None", "<none>", "<none>", "<none>"),
            id="headless",
        ),
        pytest.param(
            {"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}], "externalIPs": ["192.0.2.1"]}},
            ("NodePort", "<none>", "192.0.2.1", "80:30080/TCP", "<none>"),
            id="on nodes",
        ),
        pytest.param(
            {"spec": {"type": "LoadBalancer"}},
            ("LoadBalancer", "<none>", "<pending>", "<none>", "<none>"),
            id="waiting for a load balancer",
        ),
        pytest.param(
            {
                "spec": {"type": "LoadBalancer", "externalIPs": ["192.0.2.9"]},
                "status": {"loadBalancer": {"ingress": [{"hostname": "lb.example"}, {"ip": "192.0.2.1"}]}},
            },
            ("LoadBalancer", "<none>", "192.0.2.1,lb.example,192.0.2.9", "<none>", "<none>"),
            id="behind a load balancer",
        ),
        pytest.param(
            {"spec": {"type": "ExternalName", "externalName": "db.example"}},
            ("ExternalName", "<none>", "db.example", "<none>", "<none>"),
            id="a name elsewhere",
        ),
    ],
)
def test_services(service: Body, want: tuple[str, ...]) -> None:
    cells = row(kinds.SERVICE, {"metadata": {"name": "s"}} | service)
    assert tuple(cells[column] for column in ("Type", "Cluster-IP", "External-IP", "Port(s)", "Selector")) == want


CONTAINERS = [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}]
WORKLOAD: Body = {
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 3,
        "selector": {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["b", "a"]},
                {"key": "old", "operator": "DoesNotExist"},
            ],
        },
        "template": {"spec": {"containers": CONTAINERS, "nodeSelector": {"disk": "ssd"}}},
    },
}
WIDE = {"Containers": "a,b", "Images": "a:1,b:2", "Selector": "app=web,!old,tier in (a,b)"}


@pytest.mark.parametrize(
    ("kind", "status", "want"),
    [
        pytest.param(
            kinds.DEPLOYMENT,
            {"readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2},
            {"Name": "web", "Ready": "2/3", "Up-to-date": 1, "Available": 2, "Age": "5m", **WIDE},
            id="a deployment",
        ),
        pytest.param(
            kinds.REPLICA_SET,
            {"replicas": 3, "readyReplicas": 2},
            {"Name": "web", "Desired": 3, "Current": 3, "Ready": 2, "Age": "5m", **WIDE},
            id="a replica set",
        ),
        pytest.param(
            kinds.DAEMON_SET,
            {
                "desiredNumberScheduled": 5,
                "currentNumberScheduled": 4,
                "numberReady": 3,
                "updatedNumberScheduled": 2,
                "numberAvailable": 1,
            },
            {
                "Name": "web",
                "Desired": 5,
                "Current": 4,
                "Ready": 3,
                "Up-to-date": 2,
                "Available": 1,
                "Node Selector": "disk=ssd",
                "Age": "5m",
                **WIDE,
            },
            id="a daemon set",
        ),
    ],
)
def test_workloads(kind: Kind, status: Body, want: Body) -> None:
    assert row(kind, WORKLOAD | {"status": status}) == want


def test_a_revision_names_its_owner() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": True}
    revision = {"metadata": {"name": "web-1", "ownerReferences": [owner]}, "revision": 4}
    assert row(kinds.CONTROLLER_REVISION, revision) == {
        "Name": "web-1",
        "Controller": "statefulset.apps/web",
        "Revision": 4,
        "Age": "5m",
    }
    assert row(kinds.CONTROLLER_REVISION, {})["Controller"] == "<none>"


@pytest.mark.parametrize(
    ("subsets", "want"),
    [
        pytest.param([], "<none>", id="none"),
        pytest.param([{"addresses": [{"ip": "10.0.0.1"}]}], "10.0.0.1", id="no ports"),
        pytest.param(
            [{"addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "ports": [{"port": 80}, {"port": 81}]}],
            "10.0.0.1:80,[fd00::1]:80,10.0.0.1:81 + 1 more...",
            id="many",
        ),
    ],
)
def test_endpoints(subsets: list[Body], want: str) -> None:
    assert row(kinds.ENDPOINTS, {"subsets": subsets})["Endpoints"] == want


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"minAvailable": 0}, ("0", "N/A", 2), id="at least"),
        pytest.param({"maxUnavailable": "50%"}, ("N/A", "50%", 2), id="at most"),
    ],
)
def test_a_budget(spec: Body, want: tuple[object, ...]) -> None:
    cells = row(kinds.DISRUPTION_BUDGET, {"spec": spec, "status": {"disruptionsAllowed": 2}})
    assert (cells["Min Available"], cells["Max Unavailable"], cells["Allowed Disruptions"]) == want


def test_a_priority_class() -> None:
    body = {"metadata": {"name": "gold"}, "value": 7, "preemptionPolicy": "Never"}
    assert row(kinds.PRIORITY_CLASS, body) == {
        "Name": "gold",
        "Value": 7,
        "Global-Default": False,
        "Age": "5m",
        "PreemptionPolicy": "Never",
    }


def test_a_quota_tells_requests_from_limits() -> None:
    status = {"hard": {"pods": "5", "limits.cpu": "2", "cpu": "1"}, "used": {"pods": "3"}}
    cells = row(kinds.RESOURCE_QUOTA, {"status": status})
    assert (cells["Request"], cells["Limit"]) == ("cpu: 0/1, pods: 3/5", "limits.cpu: 0/2")


@pytest.mark.parametrize(
    ("claim", "want"),
    [
        pytest.param({}, "pending", id="new"),
        pytest.param({"metadata": {"deletionTimestamp": "x"}}, "deleted", id="gone before it was served"),
        pytest.param({"status": {"allocation": {"x": 1}}}, "allocated", id="served"),
        pytest.param({"status": {"allocation": {"x": 1}, "reservedFor": [{}]}}, "allocated,reserved", id="in use"),
    ],
)
def test_a_resource_claim(claim: Body, want: str) -> None:
    assert row(kinds.RESOURCE_CLAIM, claim)["State"] == want
