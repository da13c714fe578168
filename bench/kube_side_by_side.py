"""Late-bound local volumes on the real kube-apiserver: our scheduler beside kube-scheduler, one after the other.

    python bench/kube_side_by_side.py [nodes [pods]]

Needs the binaries of `make conformance`. One etcd and one kube-apiserver; the real PV controller, with its rate limits
lifted, binds for both sides. Each side has its own storage class with two volumes per node. Prints pods per second from
the first pod created to the last one bound, and the ratio.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from builders import claim_body, class_body, node_body, pod_body, volume_body  # noqa: E402
from conformance.control_plane import ControlPlane  # noqa: E402
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME, Kind  # noqa: E402
from mooring.client.http import HttpClient  # noqa: E402
from mooring.clock import SystemClock  # noqa: E402

#: Neither side is to be held back by a client's own rate limit.
UNLIMITED = ("--kube-api-qps=5000", "--kube-api-burst=10000")
#: Longer than this says enough.
PATIENCE = 600.0


@contextmanager
def ours(kube: ControlPlane) -> Iterator[None]:
    command = [sys.executable, "-m", "mooring", "scheduler", "--scheduler-name", "mooring", "--no-http"]
    options = ["--kubeconfig", str(kube.kubeconfig), "--leader-elect", "false", "--log-level", "error"]
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()  # it has said for whom it schedules: it is up
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


async def create_all(client: HttpClient, kind: Kind[Any], bodies: list[dict[str, Any]], namespace: str = "") -> None:
    limit = asyncio.Semaphore(32)

    async def create(body: dict[str, Any]) -> None:
        async with limit:
            await client.create(kind, body, namespace=namespace)

    await asyncio.gather(*(create(body) for body in bodies))


async def prepare(client: HttpClient, nodes: int) -> None:
    offered = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    bodies = [node_body(name=f"node-{i}", labels={"kubernetes.io/hostname": f"node-{i}"}) for i in range(nodes)]
    for body in bodies:
        body["status"] = {
            "capacity": offered,
            "allocatable": offered,
            "conditions": [{"type": "Ready", "status": "True"}],
        }
    await create_all(client, NODE, bodies)
    for side in ("kube", "mooring"):
        await client.create(STORAGE_CLASS, class_body(name=side, binding_mode="WaitForFirstConsumer"))
        volumes = [
            volume_body(name=f"{side}-{i}-{k}", storage_class=side, node=f"node-{i}")
            for i in range(nodes)
            for k in (0, 1)
        ]
        await create_all(client, VOLUME, volumes)


async def place(client: HttpClient, side: str, scheduler: str, pods: int) -> float:
    """Pods per second."""
    names = [f"{side}-{i}" for i in range(pods)]
    await create_all(client, CLAIM, [claim_body(name=n, storage_class=side, size="1Gi") for n in names], "default")
    bodies = []
    for name in names:
        body = pod_body(name=name, claims=[name])
        body["spec"]["schedulerName"] = scheduler
        bodies.append(body)
    began = time.monotonic()
    await create_all(client, POD, bodies, "default")
    while time.monotonic() - began < PATIENCE:
        placed = [
            p for p in (await client.list(POD, namespace="default")).items if p.name in names and p.spec.node_name
        ]
        if len(placed) == pods:
            return pods / (time.monotonic() - began)
        await asyncio.sleep(0.25)
    return len(placed) / PATIENCE


def find_binaries() -> Path:
    driver = [sys.executable, str(ROOT / "conformance" / "build.py"), "--check"]
    return Path(subprocess.run(driver, check=True, capture_output=True, text=True).stdout.strip())


async def main(binaries: Path, nodes: int, pods: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        kube = ControlPlane(binaries, Path(folder))
        kube.start()
        client = HttpClient(kube.access, component="bench", clock=SystemClock())
        try:
            await prepare(client, nodes)
            with kube.controllers("persistentvolume-binder-controller", options=UNLIMITED):
                await asyncio.sleep(5)
                with kube.scheduler(*UNLIMITED):
                    theirs = await place(client, "kube", "default-scheduler", pods)
                with ours(kube):
                    mine = await place(client, "mooring", "mooring", pods)
        finally:
            await client.close()
            kube.stop()
    print(f"{nodes} nodes x 2 local volumes, {pods} pods with one late-bound claim each")
    print(f"kube-scheduler {theirs:8.2f} pods/s")
    print(f"mooring        {mine:8.2f} pods/s   {mine / theirs:.1f} x")


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    nodes, pods = given + [200, 50][len(given) :]
    asyncio.run(main(find_binaries(), nodes, pods))
