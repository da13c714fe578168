"""Two instances of each component as processes: one is active, the other takes over after a kill; skew is reported."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.volumes.holds.policy import COMMITTED
from support.builders import claim_body, class_body, volume_body
from support.e2e.cluster import Cluster
from support.e2e.processes import COMPONENTS, ELECTION, Process, ProcessCluster
from support.e2e.workspace import Workspace
from support.hostpath.command import recorded_volumes

pytestmark = pytest.mark.slow


@pytest.fixture
def kubeconfig(tmp_path: Path, kubectl_on_path: None) -> Iterator[Path]:
    """Of an API server without any controllers."""
    file = tmp_path / "kubeconfig"
    server = Process("ready", "apiserver", "--in-memory", "--secure-port=0", "--kubeconfig", str(file))
    yield file
    server.end()


def web(own: str, replicas: int) -> dict[str, object]:
    claim = claim_body(name="data", namespace="", storage_class=own)
    template = {
        "metadata": {"labels": {"app": own}},
        "spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": own},
        "spec": {
            "replicas": replicas,
            "serviceName": own,
            "selector": {"matchLabels": {"app": own}},
            "template": template,
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim["spec"]}],
        },
    }


@pytest.mark.req("T35.failover", "T35.skew")
def test_second_instance_takes_over_and_gate_skew_is_reported(kubeconfig: Path, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    own = Workspace(cluster, "default")

    def start(*arguments: str) -> Process:
        process = Process(" ", *arguments, "--kubeconfig", str(kubeconfig), "--no-http", *ELECTION)
        ended.callback(process.end)
        return process

    with contextlib.ExitStack() as ended:
        # The namespaces of leases are created by the cluster's installer.
        cluster("create", "namespace", "kube-node-lease", check=False)
        start("nodeagent", "--nodes", "2", "--zones", "2")
        first = [start("controller"), start("scheduler")]
        start("controller")
        start("scheduler", "--feature-gates", "CSIStorageCapacity=false")
        own.apply(
            class_body(name="disks"),
            *(volume_body(name=f"v{n}", storage_class="disks", node="node-1") for n in range(2)),
        )
        own.apply(web("disks", 1))
        own.wait_ready("disks-0")

        for process in first:
            process.kill()
        own("scale", "statefulset/disks", "--replicas=2")
        own.wait_ready("disks-0", "disks-1")
        system = Workspace(cluster, "kube-system")
        leases = {lease["metadata"]["name"]: lease["spec"] for lease in system.items("leases")}
        assert leases["mooring-controller"]["leaseTransitions"] >= 1
        assert leases["mooring-scheduler"]["leaseTransitions"] >= 1
        # The gate in which the new leader differs affects the scheduler only.
        assert "CSIStorageCapacity" not in system("get", "events")

        third = start(
            "controller",
            "--controllers=persistentvolume-binder-controller",
            "--leader-elect-resource-name=other",
            "--feature-gates=VolumeScheduling=false",
        )
        message = "VolumeScheduling is false in other and true in mooring-scheduler"
        system.wait_for(lambda: message in system("get", "events", "--field-selector=reason=ComponentSkew"))
        third.end()


@pytest.mark.req("T35.every-component")
def test_killed_leader_of_every_component_is_replaced_by_its_standby(tmp_path: Path, kubectl_on_path: None) -> None:
    with ProcessCluster(tmp_path) as stack:
        stack.start_api_server()
        stack.start_nodes("default=100Gi")
        leaders, terms = {}, {}
        for component in COMPONENTS:
            leaders[component] = stack.start(component)
            terms[component] = stack.wait_leader(component)
            stack.start(component)

        stack.create_pod("before")
        stack.own.wait_ready("before")
        for component, leader in leaders.items():
            # Killed while a pod is on its way: the standby finishes what the leader leaves undone.
            stack.create_pod(f"during-{component}")
            leader.kill()
            stack.own.wait_ready(f"during-{component}")
            stack.wait_leader(component, after=terms[component])
            claims = stack.create_pod(f"after-{component}")
            stack.own.wait_ready(f"after-{component}")
            for claim in claims:
                stack.own.wait_event(f"pvc/{claim}", COMMITTED, "")

        volumes = stack.cluster.items("pv")
        assert len(volumes) == 2 * (1 + 2 * len(COMPONENTS))
        assert {volume["status"]["phase"] for volume in volumes} == {"Bound"}
        assert len(recorded_volumes(stack.driver)) == len(volumes)
