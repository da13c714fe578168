"""StatefulSets and Services."""

from typing import Any

import pytest

from mooring.api import kinds
from server.tables.rows import row

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
