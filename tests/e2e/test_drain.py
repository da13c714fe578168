"""`kubectl drain`: pods leave a node by eviction, and come up elsewhere."""

from collections.abc import Callable

from e2e.conftest import Cluster

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


def test_a_drained_node_is_left_by_its_pods(start_cluster: Callable[..., Cluster]) -> None:
    cluster = start_cluster("--in-memory")
    cluster("apply", "-f", "-", stdin=SET)
    cluster("rollout", "status", "statefulset/web", "--timeout=30s")
    node = next(pod["spec"]["nodeName"] for pod in cluster.items("pods"))
    told = cluster("drain", node, "--timeout=30s")
    assert "evicting pod default/web-" in told
    assert f"node/{node} drained" in told
    cluster("rollout", "status", "statefulset/web", "--timeout=30s")
    assert node not in {pod["spec"]["nodeName"] for pod in cluster.items("pods")}
