"""`mooring explain` on a real Kubernetes where nothing of Mooring runs, as somebody who may only look."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders import claim_body, class_body, node_body, pod_body, reachable_from, volume_body
from conformance.control_plane import ControlPlane
from conformance.test_commands import PATIENCE, seen, unschedulable
from mooring.api import keys
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.client.contract import Client
from mooring.client.http import HttpClient
from mooring.clock import SystemClock

PAGE = Path(__file__).parents[2] / "docs" / "explain.md"


def reading(kube: ControlPlane, folder: Path) -> Path:
    """A kubeconfig for who has the role that the page gives, and no other."""
    [role] = re.findall(r"^```yaml$(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    kube.kubectl("apply", "-f", "-", stdin=role)
    kube.kubectl("create", "clusterrolebinding", "readers", "--clusterrole=mooring-explain", "--user=reader")
    config = yaml.safe_load(kube.kubeconfig.read_text())
    config["users"][0]["user"]["as"] = "reader"
    file = folder / "as-reader"
    file.write_text(yaml.safe_dump(config))
    return file


def explain(kubeconfig: Path, *arguments: str) -> tuple[int, Any]:
    options = ("--kubeconfig", str(kubeconfig), "-o", "json")
    command = [sys.executable, "-m", "mooring", "explain", *arguments, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


async def furnish(client: Client) -> None:
    """A claim whose volume is in zone b, where the only node is cordoned; one that nobody uses; one of no class."""
    for zone in "abc":
        await client.create(NODE, node_body(name=f"{zone}1", zone=zone, unschedulable=zone == "b"))
    await client.create(STORAGE_CLASS, class_body(name="zonal"))
    await client.create(STORAGE_CLASS, class_body(name="now", binding_mode="Immediate"))
    in_b = reachable_from(keys.ZONE, "b")
    await client.create(VOLUME, volume_body(name="pv-b", storage_class="now", affinity=in_b))
    for name, storage_class in (("data", "now"), ("idle", "zonal"), ("typo", "fasst")):
        await client.create(CLAIM, claim_body(name=name, storage_class=storage_class), namespace="default")
    await client.create(POD, pod_body(name="db-0", claims=["data"]), namespace="default")


@pytest.mark.level("k")
async def test_a_real_cluster_is_explained(start_kube: Callable[[], ControlPlane], tmp_path: Path) -> None:
    kube = start_kube()
    client = HttpClient(kube.access, component="tester", clock=SystemClock())
    await furnish(client)
    kubeconfig = reading(kube, tmp_path)
    with kube.controllers("persistentvolume-binder-controller"), kube.scheduler():
        pod = await seen(client, "db-0", lambda pod: "node affinity" in unschedulable(pod))
        code, told = await asyncio.to_thread(explain, kubeconfig, "pod/db-0")
        # kube-scheduler has looked for devices and for pods to evict as well.
        why = unschedulable(pod).partition(" preemption: ")[0].removesuffix(" no new claims to deallocate,")
        assert (code, told["verdict"]) == (1, f"default/db-0 would not fit: {why}")
        [bound] = told["nodes"]["a1"]["volumes"]
        place = f"can only be used from {keys.ZONE}=b, which b1 can"
        assert (bound["claim"], bound["volume"], bound["detail"]) == ("default/data", "pv-b", place)
        assert told["helps"] == ["kubectl uncordon b1", f"a new node with {keys.ZONE}=b"]
        async with asyncio.timeout(PATIENCE):
            # Events are written a moment after what they are about.
            while not any("default-scheduler said at" in note for note in told["notes"]):
                _, told = await asyncio.to_thread(explain, kubeconfig, "pod/db-0")

        code, told = await asyncio.to_thread(explain, kubeconfig, "pvc/idle")
        assert (code, told["state"]) == (0, "NoConsumer")
        code, told = await asyncio.to_thread(explain, kubeconfig, "pvc/typo")
        assert (code, told["state"]) == (1, "ClassMissing")
        assert told["helps"][0].startswith("create claim default/typo, which has no volume and no data yet, again")
        assert any(each.startswith("create StorageClass fasst") for each in told["helps"])
        code, told = await asyncio.to_thread(explain, kubeconfig, "-A")
        assert code == 1
        assert [(line["what"], line["ok"]) for line in told["lines"]] == [
            ("pod/db-0", False),
            ("pvc/idle", True),
            ("pvc/typo", False),
        ]
        assert told["notes"] == []
    await client.close()
