"""A provisioner that is killed during CreateVolume while its claim is deleted: the next one removes the volume."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from support.e2e.cluster import Cluster
from support.e2e.provisioner_process import claim, driver_objects, pod, provisioner, register
from support.e2e.workspace import Workspace
from support.hostpath.command import csi_hostpath, recorded_volumes
from support.network.socket_proxy import socket_proxy

pytestmark = pytest.mark.slow

DRIVER: Final = "disks.example.com"
KEY: Final = "disks.example.com/node"
OPTIONS: Final = ("--enable-capacity", "--capacity-ownerref-level=-1", "--strict-topology", "--timeout=5m")

Start = Callable[..., Cluster]


def records(workspace: Workspace) -> list[dict[str, Any]]:
    found = workspace.items("configmaps")
    return [each for each in found if each["metadata"]["name"].startswith("intent-")]


def volumes(workspace: Workspace) -> list[dict[str, Any]]:
    return [pv for pv in workspace.cluster.items("pv") if pv["spec"].get("csi", {}).get("driver") == DRIVER]


@pytest.mark.req("R4.cut-call")
@pytest.mark.parametrize("kills", [1, 2])
def test_volume_of_a_cut_call_is_removed(kills: int, tmp_path: Path, start_cluster: Start) -> None:
    """1. The driver creates the volume, and the provisioner is killed before the response. 2. Pod and claim are
    deleted. 3. With two kills, the next provisioner is killed as well, when it repeats the call."""
    driver, between = tmp_path / "driver", tmp_path / "between"
    for folder in (driver, between):
        folder.mkdir()
    topology = ("--drivername", DRIVER, "--topology", f"{KEY}=node-1", "--pool", "disk=10Gi")
    with (
        csi_hostpath(driver, *topology),
        socket_proxy(between / "csi.sock", driver / "csi.sock") as proxy,
    ):
        cluster = start_cluster("--in-memory")
        register(cluster, DRIVER, KEY, "node-1")
        workspace = Workspace(cluster, "default")
        workspace.apply(*driver_objects(DRIVER, "disks"))
        with provisioner(cluster, between, *OPTIONS, killed=True) as first:
            workspace.wait_for(lambda: bool(workspace.items("csistoragecapacities")))
            proxy.withhold()
            workspace.apply(claim("data", "disks", "1Gi"), pod("user", "data"))
            workspace.wait_for(lambda: len(recorded_volumes(driver)) == 1)
            first.kill()
            first.wait()
        assert len(records(workspace)) == 1
        assert volumes(workspace) == []
        workspace("delete", "pod/user", "pvc/data", "--wait=false", "--grace-period=0", "--force")
        workspace.wait_for(lambda: not workspace.items("pvc"))
        proxy.resume()
        for _ in range(kills - 1):
            calls = (driver / "log").read_text().count("CreateVolume")
            with provisioner(cluster, between, *OPTIONS, killed=True) as next_one:
                # Probed and serving before responses are withheld: it repeats the call at once.
                workspace.wait_for(lambda: (driver / "log").read_text().count("CreateVolume") > calls)  # noqa: B023
                next_one.kill()
                next_one.wait()
        with provisioner(cluster, between, *OPTIONS):
            workspace.wait_for(lambda: not recorded_volumes(driver))
            workspace.wait_for(lambda: not records(workspace) and not volumes(workspace))
        assert recorded_volumes(driver) == []
