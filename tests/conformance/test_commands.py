"""`mooring scheduler` and `mooring explain` beside the real Kubernetes, as an operator would first try them."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from builders import claim_body, class_body, node_body, pod_body, volume_body
from conformance.control_plane import ControlPlane
from conformance.waiting import PATIENCE
from mooring.api.kinds import CLAIM, LEASE, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.views.pod import Pod
from mooring.client.contract import Change, Client
from mooring.client.http import HttpClient
from mooring.clock import SystemClock

#: What explain reads, in kubectl's words.
DECISIVE: Final = "nodes,pods,pvc,pv,sc,csinodes,csidrivers,csistoragecapacities,volumeattachments,namespaces"


async def seen(client: Client, name: str, holds: Callable[[Pod], bool]) -> Pod:
    """The pod of this name, once the condition holds for it."""
    watching = client.watch(POD, after=None, namespace="default", fields=f"metadata.name={name}")
    async with asyncio.timeout(PATIENCE), aclosing(watching) as events:
        async for event in events:
            if event.change is not Change.BOOKMARK and holds(event.object):
                return event.object
    raise AssertionError(f"the server ended the watch of {name}")


def unschedulable(pod: Pod) -> str:
    return next((one.message for one in pod.status.conditions if one.reason == "Unschedulable"), "")


def explain(folder: Path, kube: ControlPlane, pod: str) -> tuple[int, dict[str, Any]]:
    dump = folder / "dump.yaml"
    dump.write_text(kube.kubectl("get", DECISIVE, "-A", "-o", "yaml"))
    command = [sys.executable, "-m", "mooring", "explain", f"pod/{pod}", "-f", str(dump), "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def as_documented(kube: ControlPlane, folder: Path) -> Path:
    """A kubeconfig for who has the permissions that the page gives, and no others."""
    page = (Path(__file__).parents[2] / "docs" / "scheduler.md").read_text()
    [manifest] = re.findall(r"^## Permissions$.*?^```yaml$(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    kube.kubectl("apply", "-f", "-", stdin=manifest)
    config = yaml.safe_load(kube.kubeconfig.read_text())
    config["users"][0]["user"]["as"] = "system:serviceaccount:kube-system:mooring-scheduler"
    file = folder / "as-scheduler"
    file.write_text(yaml.safe_dump(config))
    return file


async def furnish(client: Client) -> None:
    await client.create(NODE, node_body(name="n1"))
    await client.create(NODE, node_body(name="n2", unschedulable=True))
    await client.create(NODE, node_body(name="n3"))
    await client.create(STORAGE_CLASS, class_body())
    await client.create(VOLUME, volume_body(name="v1", node="n1"))
    await client.create(VOLUME, volume_body(name="v2", node="n2", size="1Gi"))
    for name, size in (("data", "5Gi"), ("huge", "1Ti")):
        await client.create(CLAIM, claim_body(name=name, size=size), namespace="default")


@pytest.mark.level("k")
async def test_a_second_scheduler_beside_the_first(start_kube: Callable[[], ControlPlane], tmp_path: Path) -> None:
    kube = start_kube()
    client = HttpClient(kube.access, component="tester", clock=SystemClock())
    await furnish(client)
    with kube.controllers("persistentvolume-binder-controller"), kube.scheduler():
        options = ("--scheduler-name", "second", "--kubeconfig", str(as_documented(kube, tmp_path)), "--http-port", "0")
        command = (sys.executable, "-m", "mooring", "scheduler", *options)
        ours = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        try:
            for name, scheduler in (("theirs", "default-scheduler"), ("ours", "second")):
                body = pod_body(name=f"waits-for-{name}", claims=["huge"], scheduler=scheduler)
                await client.create(POD, body, namespace="default")
            theirs = await seen(client, "waits-for-theirs", lambda pod: bool(unschedulable(pod)))
            mine = await seen(client, "waits-for-ours", lambda pod: bool(unschedulable(pod)))
            # kube-scheduler has looked for devices as well.
            assert unschedulable(theirs).replace("no new claims to deallocate, ", "") == unschedulable(mine)

            code, told = await asyncio.to_thread(explain, tmp_path, kube, "waits-for-theirs")
            assert code == 1
            why, _, _ = unschedulable(mine).partition(" preemption: ")
            assert told["verdict"] == f"default/waits-for-theirs would not fit: {why}"

            await client.create(POD, pod_body(name="goes", claims=["data"], scheduler="second"), namespace="default")
            placed = await seen(client, "goes", lambda pod: bool(pod.spec.node_name))
            assert placed.spec.node_name == "n1"
            code, told = await asyncio.to_thread(explain, tmp_path, kube, "goes")
            assert (code, told["verdict"]) == (0, "default/goes is on n1, and its volumes can be used there.")
        finally:
            ours.send_signal(signal.SIGTERM)
            async with asyncio.timeout(PATIENCE):
                _, errors = await ours.communicate()
    assert ours.returncode == 0, errors.decode()
    assert "forbidden" not in errors.decode().lower()
    lease = await client.get(LEASE, "mooring-scheduler", namespace="kube-system")
    assert lease.spec.holder_identity == ""
    await client.close()
