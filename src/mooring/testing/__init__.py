"""An embedded cluster for tests of your own: a context manager, and fixtures for pytest. Public API.

    import mooring.testing

    with mooring.testing.cluster(nodes=6, zones=3) as cluster:
        cluster.apply(Path("statefulset.yaml"))
        cluster.wait("Pod", "db-0", lambda pod: pod["status"]["phase"] == "Running")

The cluster runs in a process of its own, in memory, on a free port of 127.0.0.1, and is ready in one or two seconds.
Any Kubernetes client works with `cluster.kubeconfig`. With pytest installed, the fixtures `mooring_cluster` and
`mooring_session_cluster` exist without an import (`pytest_plugin`).
"""

from mooring.testing.cluster import StartFailed, TestCluster, WaitTimeout, cluster

__all__ = ["StartFailed", "TestCluster", "WaitTimeout", "cluster"]
