"""`kubectl drain`: pods are evicted from a node and run on another."""

from collections.abc import Callable

from support.e2e.cluster import Cluster

#: A set whose pods could run on any node.
SET = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  replicas: 2
  serviceName: web
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: example.com/web:1}]
"""


def test_drained_node_loses_its_pods(start_cluster: Callable[..., Cluster]) -> None:
    cluster = start_cluster("--in-memory")
    cluster("apply", "-f", "-", stdin=SET)
    cluster("rollout", "status", "statefulset/web", "--timeout=30s")
    node = next(pod["spec"]["nodeName"] for pod in cluster.items("pods"))
    output = cluster("drain", node, "--timeout=30s")
    assert "evicting pod default/web-" in output
    assert f"node/{node} drained" in output
    cluster("rollout", "status", "statefulset/web", "--timeout=30s")
    assert node not in {pod["spec"]["nodeName"] for pod in cluster.items("pods")}
