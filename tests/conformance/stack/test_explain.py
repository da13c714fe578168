"""`mooring explain` on a Kubernetes cluster without any Mooring component, as a user with read access."""

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

from conformance.stack.test_commands import seen, unschedulable
from mooring.api import well_known
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.client.contract import Client
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from support.builders import claim_body, class_body, node_body, pod_body, reachable_from, volume_body
from support.conformance.control_plane import ControlPlane
from support.conformance.waiting import TIMEOUT_SECONDS

PAGE = Path(__file__).parents[3] / "docs" / "explain.md"


def reading(kube: ControlPlane, folder: Path) -> Path:
    """A kubeconfig with only the role that the page documents."""
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
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


async def create_objects(client: Client) -> None:
    """A claim with a volume in zone b, where the only node is cordoned; one without a pod; one without a class."""
    for zone in "abc":
        await client.create(NODE, node_body(name=f"{zone}1", zone=zone, unschedulable=zone == "b"))
    await client.create(STORAGE_CLASS, class_body(name="zonal"))
    await client.create(STORAGE_CLASS, class_body(name="now", binding_mode="Immediate"))
    in_b = reachable_from(well_known.ZONE, "b")
    await client.create(VOLUME, volume_body(name="pv-b", storage_class="now", affinity=in_b))
    for name, storage_class in (("data", "now"), ("idle", "zonal"), ("typo", "fasst")):
        await client.create(CLAIM, claim_body(name=name, storage_class=storage_class), namespace="default")
    await client.create(POD, pod_body(name="db-0", claims=["data"]), namespace="default")


@pytest.mark.level("k")
@pytest.mark.version_matrix("kube-apiserver", "mooring explain", "without components of Mooring")
async def test_explain_on_real_cluster(start_kube: Callable[[], ControlPlane], tmp_path: Path) -> None:
    kube = start_kube()
    client = HttpClient(kube.access, component="tester", clock=SystemClock())
    await create_objects(client)
    kubeconfig = reading(kube, tmp_path)
    with kube.controllers("persistentvolume-binder-controller"), kube.scheduler():
        pod = await seen(client, "db-0", lambda pod: "node affinity" in unschedulable(pod))
        code, explanation = await asyncio.to_thread(explain, kubeconfig, "pod/db-0")
        # kube-scheduler has also tried to preempt.
        why = unschedulable(pod).partition(" preemption: ")[0]
        assert (code, explanation["verdict"]) == (1, f"default/db-0 would not fit: {why}")
        [bound] = explanation["nodes"]["a1"]["volumes"]
        place = f"can only be used from {well_known.ZONE}=b: b1"
        assert (bound["claim"], bound["volume"], bound["detail"]) == ("default/data", "pv-b", place)
        assert explanation["helps"] == ["kubectl uncordon b1", f"a new node with {well_known.ZONE}=b"]
        async with asyncio.timeout(TIMEOUT_SECONDS):
            # Events are written shortly after their cause.
            while not any("default-scheduler reported at" in note for note in explanation["notes"]):
                _, explanation = await asyncio.to_thread(explain, kubeconfig, "pod/db-0")

        code, explanation = await asyncio.to_thread(explain, kubeconfig, "pvc/idle")
        assert (code, explanation["state"]) == (0, "NoConsumer")
        code, explanation = await asyncio.to_thread(explain, kubeconfig, "pvc/typo")
        assert (code, explanation["state"]) == (1, "ClassMissing")
        assert explanation["helps"][0].startswith(
            "create claim default/typo, which has no volume and no data yet, again"
        )
        assert any(each.startswith("create StorageClass fasst") for each in explanation["helps"])
        code, explanation = await asyncio.to_thread(explain, kubeconfig, "-A")
        assert code == 1
        assert [(line["what"], line["ok"]) for line in explanation["lines"]] == [
            ("pod/db-0", False),
            ("pvc/idle", True),
            ("pvc/typo", False),
        ]
        assert explanation["notes"] == []
    await client.close()
