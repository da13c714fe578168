"""A provisioner for all nodes as a process of its own: segments, owner and freshness of what it publishes."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from mooring.csi.client import CsiClient
from support.builders.hostpath import a_request
from support.e2e.cluster import Cluster
from support.e2e.provisioner_process import claim, driver_objects, pod, provisioner, register
from support.e2e.workspace import Workspace
from support.hostpath.command import csi_hostpath, recorded_volumes
from support.network.snapshot_server import serving_snapshots

pytestmark = pytest.mark.slow

DRIVER: Final = "disks.example.com"
KEY: Final = "disks.example.com/node"
NODES: Final = ("node-1", "node-2", "node-3")
#: So that no figure is published because of a poll.
HOURLY: Final = ("--enable-capacity", "--capacity-poll-interval=1h", "--strict-topology")
NO_OWNER: Final = "--capacity-ownerref-level=-1"

Start = Callable[..., Cluster]


@contextmanager
def serving(folder: Path, start_cluster: Start, *options: str) -> Iterator[Workspace]:
    """A cluster of three nodes and a driver with 10Gi on each, for which no provisioner runs yet."""
    folder.mkdir()
    served = [f"--served-node={node}:{KEY}={node}" for node in NODES[1:]]
    own = ("--drivername", DRIVER, "--topology", f"{KEY}=node-1", "--pool", "disk=10Gi")
    with csi_hostpath(folder, *own, *served, *options):
        cluster = start_cluster("--in-memory")
        register(cluster, DRIVER, KEY, *NODES)
        workspace = Workspace(cluster, "default")
        workspace.apply(*driver_objects(DRIVER, "disks"))
        yield workspace


def objects(workspace: Workspace) -> list[dict[str, Any]]:
    return workspace.items("csistoragecapacities")


def node_of(capacity: dict[str, Any]) -> str:
    return str(capacity["nodeTopology"]["matchLabels"][KEY])


def figures(workspace: Workspace) -> dict[str, str]:
    """Capacity by node."""
    return {node_of(each): each["capacity"] for each in objects(workspace)}


@pytest.mark.req("C6.source")
def test_segments_of_nodes(tmp_path: Path, start_cluster: Start) -> None:
    with (
        serving(tmp_path / "d", start_cluster) as workspace,
        provisioner(workspace.cluster, tmp_path / "d", *HOURLY, NO_OWNER, "--capacity-segment-source=topology"),
    ):
        workspace.wait_for(lambda: figures(workspace) == dict.fromkeys(NODES, "10Gi"))


@pytest.mark.req("C6.source")
def test_segments_of_a_file(tmp_path: Path, start_cluster: Start) -> None:
    """Only the listed segment is published and used, until the file lists another."""
    file = tmp_path / "segments.yaml"
    file.write_text(f"- {{{KEY}: node-2}}\n")
    source = ("--capacity-segment-source=file", f"--capacity-segment-file={file}")
    with (
        serving(tmp_path / "d", start_cluster) as workspace,
        provisioner(workspace.cluster, tmp_path / "d", *HOURLY, NO_OWNER, *source),
    ):
        workspace.wait_for(lambda: figures(workspace) == {"node-2": "10Gi"})
        workspace.apply(claim("a", "disks", "6Gi"), pod("a", "a"))
        workspace.wait_ready("a")
        assert workspace.node_of("a") == "node-2"
        workspace.wait_for(lambda: figures(workspace) == {"node-2": "4Gi"})
        workspace.apply(claim("b", "disks", "6Gi"), pod("b", "b"))
        workspace.wait_unscheduled("b", "node(s) did not have enough free storage")
        file.write_text(f"- {{{KEY}: node-2}}\n- {{{KEY}: node-3}}\n")
        workspace.wait_ready("b")
        assert workspace.node_of("b") == "node-3"


@pytest.mark.req("C6.source")
def test_segment_of_a_driver_call(tmp_path: Path, start_cluster: Start) -> None:
    """The driver's NodeGetInfo names the segment of node-1."""
    with (
        serving(tmp_path / "d", start_cluster) as workspace,
        provisioner(workspace.cluster, tmp_path / "d", *HOURLY, NO_OWNER, "--capacity-segment-source=driver"),
    ):
        workspace.wait_for(lambda: figures(workspace) == {"node-1": "10Gi"})
        workspace.apply(claim("a", "disks", "6Gi"), pod("a", "a"))
        workspace.wait_ready("a")
        assert workspace.node_of("a") == "node-1"
        workspace.wait_for(lambda: figures(workspace) == {"node-1": "4Gi"})


@pytest.mark.req("C6.owner", "C6.objects")
@pytest.mark.parametrize(("kind", "level"), [("Deployment", 2), ("StatefulSet", 1)])
def test_objects_belong_to_the_publishers_workload(kind: str, level: int, tmp_path: Path, start_cluster: Start) -> None:
    """They are deleted with it, and not with a pod of it."""
    labels = {"app": "publisher"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "main"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template, "serviceName": "publisher"}
    if kind == "Deployment":
        del spec["serviceName"]
    workload = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "publisher"}, "spec": spec}
    with serving(tmp_path / "d", start_cluster) as workspace:
        workspace.apply(workload)
        workspace.wait_for(lambda: len(workspace.items("pods", "-l", "app=publisher")) == 1)
        (own,) = workspace.items("pods", "-l", "app=publisher")
        name = own["metadata"]["name"]
        with provisioner(
            workspace.cluster, tmp_path / "d", *HOURLY, f"--capacity-ownerref-level={level}", POD_NAME=name
        ):
            workspace.wait_for(lambda: figures(workspace) == dict.fromkeys(NODES, "10Gi"))
            uid = workspace.item(kind, "publisher")["metadata"]["uid"]
            owners = [each["metadata"]["ownerReferences"] for each in objects(workspace)]
            assert [[(o["kind"], o["name"], o["uid"]) for o in each] for each in owners] == [
                [(kind, "publisher", uid)]
            ] * 3
        workspace("delete", "pod", name, "--wait=false")
        workspace.wait_for(
            lambda: own["metadata"]["uid"] not in [p["metadata"]["uid"] for p in workspace.items("pods")]
        )
        assert len(objects(workspace)) == 3
        workspace("delete", kind, "publisher", "--wait=false")
        workspace.wait_for(lambda: not objects(workspace))


def stamp(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.req("C22.at-once")
def test_figures_are_fresh_when_a_snapshot_is_taken(tmp_path: Path, start_cluster: Start) -> None:
    """What the driver takes for a snapshot is published when the VolumeSnapshotContent says that it is taken. Polls are
    an hour apart."""
    folder = tmp_path / "d"
    with (
        serving(folder, start_cluster) as workspace,
        serving_snapshots(workspace.cluster.kubeconfig, tmp_path) as (snapshots, kubeconfig),
        provisioner(
            workspace.cluster, folder, *HOURLY, NO_OWNER, "--capacity-watch-snapshots", f"--kubeconfig={kubeconfig}"
        ),
    ):
        workspace.apply(claim("data", "disks", "1Gi"), pod("data", "data", node="node-1"))
        workspace.wait_ready("data")
        workspace.wait_for(lambda: figures(workspace)["node-1"] == "9Gi")
        (volume,) = [pv for pv in workspace.cluster.items("pv") if "csi" in pv["spec"]]
        source = {"volumeHandle": volume["spec"]["csi"]["volumeHandle"]}
        content = {"metadata": {"name": "content"}, "spec": {"driver": DRIVER, "source": source}}
        snapshots.put(content)

        async def take() -> None:
            async with CsiClient(folder / "csi.sock") as driver:
                await driver.create_volume(a_request("snapshot", 2 * 2**30, preferred=({KEY: "node-1"},)), secrets={})

        asyncio.run(take())
        assert figures(workspace)["node-1"] == "9Gi"
        snapshots.put(content | {"status": {"snapshotHandle": "snapshot", "restoreSize": 2**30}})
        workspace.wait_for(lambda: figures(workspace)["node-1"] == "7Gi")


@pytest.mark.req("C9.one-second")
def test_figures_are_fresh_within_a_second(tmp_path: Path, start_cluster: Start) -> None:
    """The process records when a volume was created and when it then asked the driver. Of several volumes the quickest
    counts: other processes of a busy machine may delay each. Polls are an hour apart."""
    with (
        serving(tmp_path / "d", start_cluster) as workspace,
        provisioner(workspace.cluster, tmp_path / "d", *HOURLY, NO_OWNER),
    ):
        workspace.wait_for(lambda: figures(workspace) == dict.fromkeys(NODES, "10Gi"))
        delays: list[float] = []
        for number in range(1, 5):
            name = f"c-{number}"
            workspace.apply(claim(name, "disks", "1Gi"), pod(name, name, node="node-1"))
            workspace.wait_ready(name)
            workspace.wait_for(lambda left=10 - number: figures(workspace)["node-1"] == f"{left}Gi")  # type: ignore[misc]
            (volume,) = [
                pv for pv in workspace.cluster.items("pv") if pv["spec"].get("claimRef", {}).get("name") == name
            ]
            figure = next(each for each in objects(workspace) if node_of(each) == "node-1")
            created = volume["metadata"]["annotations"]["mooring.dev/created-at"]
            asked = figure["metadata"]["annotations"]["mooring.dev/capacity-polled-at"]
            assert stamp(asked) > stamp(created), "the driver was asked after the volume was there"
            delays.append(stamp(asked) - stamp(created))
        assert min(delays) <= 1.0, delays
        workspace("delete", "pods,pvc", "--all", "--wait=false")
        workspace.wait_for(lambda: figures(workspace)["node-1"] == "10Gi")


async def take(socket: Path, size: int, node: str) -> None:
    """Another client of the driver creates a volume."""
    async with CsiClient(socket, deadline=10.0) as client:
        await client.create_volume(a_request("taken", size, preferred=({KEY: node},)), secrets={})


@pytest.mark.req("C17.after-failure")
def test_figure_is_refreshed_before_the_node_is_given_back(tmp_path: Path, start_cluster: Start) -> None:
    """1. Another client takes the capacity of node-1, which no poll notices. 2. CreateVolume fails there once: the new
    figure is published first, then the claim loses its selected node. 3. When the other nodes are full as well, the
    pod waits with the scheduler's reason, and the driver is not called again."""
    with (
        serving(tmp_path / "d", start_cluster) as workspace,
        provisioner(workspace.cluster, tmp_path / "d", *HOURLY, NO_OWNER),
    ):
        workspace.wait_for(lambda: figures(workspace) == dict.fromkeys(NODES, "10Gi"))
        asyncio.run(take(tmp_path / "d" / "csi.sock", 8 * 2**30, "node-1"))
        assert figures(workspace)["node-1"] == "10Gi", "not noticed"
        workspace.apply(claim("data", "disks", "6Gi"), pod("user", "data", node="node-1"))
        workspace.wait_event("pvc/data", "ProvisioningFailed", "code = ResourceExhausted")
        workspace.wait_unscheduled("user", "node(s) did not have enough free storage")
        waiting = workspace.item("pvc", "data")
        assert "volume.kubernetes.io/selected-node" not in waiting["metadata"]["annotations"]
        figure = next(each for each in objects(workspace) if node_of(each) == "node-1")
        assert figure["capacity"] == "2Gi"
        versions = [int(each["metadata"]["resourceVersion"]) for each in (figure, waiting)]
        assert versions == sorted(versions), "the figure was written first"
        assert len(recorded_volumes(tmp_path / "d")) == 1
        log = (tmp_path / "d" / "log").read_text()
        assert log.count("CreateVolume") == 2, "one of the other client, one in vain"
