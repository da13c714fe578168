"""Creating, filling and deleting namespaces with kubectl."""

from collections.abc import Callable

from support.e2e.cluster import Cluster
from support.scenarios.anti_affinity import EXAMPLE

HELD = """
apiVersion: v1
kind: ConfigMap
metadata: {name: held, finalizers: [example.com/not-yet]}
"""
LATE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: late}
"""


def test_namespace_is_deleted_with_its_objects(start_cluster: Callable[..., Cluster]) -> None:
    cluster = start_cluster("--in-memory")
    # kubectl sends this one as protobuf.
    assert cluster("create", "ns", "acc") == "namespace/acc created\n"
    cluster("-n", "acc", "apply", "-f", str(EXAMPLE))
    cluster("-n", "acc", "create", "configmap", "settings", "--from-literal=a=b")
    cluster("-n", "acc", "rollout", "status", "statefulset/db", "--timeout=30s")
    volumes = [f"pv/{claim['spec']['volumeName']}" for claim in cluster.items("pvc", "-n", "acc")]
    assert len(volumes) == 3

    assert 'namespace "acc" deleted' in cluster("delete", "ns", "acc", "--timeout=30s")
    assert "acc" not in cluster("get", "ns")
    assert cluster("get", "pods,pvc,sts,svc,cm,events", "-n", "acc") == "No resources found in acc namespace.\n"
    cluster("wait", *volumes, "--for=jsonpath={.status.phase}=Released", "--timeout=30s")

    cluster("create", "ns", "acc")
    assert "No resources found" in cluster("-n", "acc", "get", "all,cm")


def test_terminating_namespace_rejects_new_objects(start_cluster: Callable[..., Cluster]) -> None:
    cluster = start_cluster("--in-memory")
    cluster("create", "ns", "acc")
    cluster("-n", "acc", "apply", "-f", "-", stdin=HELD)
    cluster("delete", "ns", "acc", "--wait=false")
    cluster("wait", "ns/acc", "--for=condition=NamespaceFinalizersRemaining", "--timeout=30s")

    refused = cluster("-n", "acc", "apply", "-f", "-", stdin=LATE, check=False)
    assert "Error from server (Forbidden)" in refused
    assert (
        'configmaps "late" is forbidden: unable to create new content in namespace acc because it is being terminated'
        in refused
    )
    assert "Terminating" in cluster("get", "ns", "acc")
    output = cluster("describe", "ns", "acc")
    assert (
        "Some content in the namespace has finalizers remaining: example.com/not-yet in 1 resource instances" in output
    )

    cluster("-n", "acc", "patch", "configmap", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    cluster("wait", "ns/acc", "--for=delete", "--timeout=60s")


def test_system_namespaces_cannot_be_deleted(start_cluster: Callable[..., Cluster]) -> None:
    cluster = start_cluster("--in-memory")
    refused = cluster("delete", "ns", "kube-system", check=False)
    assert 'namespaces "kube-system" is forbidden: this namespace may not be deleted' in refused
