"""Time from a component's start to its first action in a large cluster, and whether it keeps its lease.

    python -m bench.takeover [--nodes 1000,2000,5000] [--components scheduler,controller,coordinator,provisioner]

Real processes over TLS on loopback against one `mooring apiserver` per size, whose SQLite file is filled beforehand:
ten running pods, a CSINode, one volume provisioned by `mooring provisioner` and three CSIStorageCapacity objects (one
for each class) per node. Leader election is on. Every component has one task:

    scheduler     a pod without a node                   first action: the pod is bound
    controller    a claim of an immediate class          first action: the claim names its volume
    coordinator   two volumes held for one pod           first action: one of them is committed
    provisioner   a claim with a selected node           first action: its PersistentVolume exists

Prints wall and CPU seconds from the start of the process to the first action, the longest time between two renewals of
its lease until six seconds after it, its peak memory, and the CPU seconds of the API server meanwhile.
"""

import argparse
import asyncio
import itertools
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.kube.metering import usage_of
from mooring.api import well_known
from mooring.api.kinds import (
    CLAIM,
    CONFIG_MAP,
    CSI_DRIVER,
    CSI_NODE,
    LEASE,
    NAMESPACE,
    NODE,
    POD,
    STORAGE_CAPACITY,
    STORAGE_CLASS,
    VOLUME,
    Kind,
)
from mooring.api.times import to_micro_time, to_time
from mooring.api.views.meta import ApiObject
from mooring.cli.runtime import run_event_loop
from mooring.client import kubeconfig
from mooring.client.contract import Client
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.hostpath.records import DRIVER_NAME, NODE_KEY
from mooring.provisioner.settings import lease_name
from mooring.server.encoding import stored_form
from mooring.store.contract import ABSENT
from mooring.store.sqlite import SqliteStore
from mooring.volumes.binding import held_reference
from mooring.volumes.holds import objects
from mooring.volumes.holds.transitions import Intent, IntentPhase, to_data

Body = dict[str, Any]

CLASSES: Final = ("fast", "slow", "mirrored")
CONTROLLERS: Final = "persistentvolume-binder-controller,persistentvolume-protection-controller"
PODS_PER_NODE: Final = 10
HOLDS: Final = "kube-system"
FIRST: Final = "node-00000"
#: Timeout of a component in seconds, and how long its lease is watched after the first action.
TIMEOUT_SECONDS: Final = 90.0
AFTERWARDS: Final = 6.0


class Component(NamedTuple):
    command: tuple[str, ...]
    #: Of its Lease in kube-system.
    lease: str
    kind: Kind[Any]
    #: Whether an object shows the first action.
    acted: Callable[[Any], bool]


COMPONENTS: Final = {
    "scheduler": Component(
        ("scheduler", "--leader-elect=true", "--http-port=0"),
        "mooring-scheduler",
        POD,
        lambda pod: pod.name == "pending" and bool(pod.spec.node_name),
    ),
    "controller": Component(
        ("controller", "--leader-elect=true", "--http-port=0", f"--controllers={CONTROLLERS}"),
        "mooring-controller",
        CLAIM,
        lambda claim: claim.name == "immediate" and bool(claim.spec.volume_name),
    ),
    "coordinator": Component(
        ("coordinator", "--leader-elect=true", "--http-port=0"),
        "mooring-coordinator",
        VOLUME,
        lambda volume: volume.name.startswith("held-") and bool(volume.spec.claim_ref and volume.spec.claim_ref.uid),
    ),
    "provisioner": Component(
        (
            "provisioner",
            "--leader-election=true",
            f"--leader-election-namespace={HOLDS}",
            "--leader-election-retry-period=2s",
            "--enable-capacity=true",
            "--capacity-ownerref-level=-1",
            "--enable-rollback=true",
        ),
        lease_name(DRIVER_NAME),
        VOLUME,
        lambda volume: volume.name == "pvc-uid-of-asked",
    ),
}


class Took(NamedTuple):
    wall: float
    cpu: float
    gap: float
    server_cpu: float
    peak_bytes: int


def meta(name: str, namespace: str = "", **more: Any) -> Body:  # noqa: ANN401
    given = {"namespace": namespace} if namespace else {}
    stamp = {"uid": f"uid-of-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"name": name, **given, **stamp, **more}


def a_node(name: str, number: int) -> Body:
    labels = {
        well_known.HOSTNAME: name,
        well_known.ZONE: f"zone-{number % 3}",
        "topology.kubernetes.io/region": "region-1",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "large",
        NODE_KEY: name,
    }
    offers = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    conditions = [
        {"type": kind, "status": "True" if kind == "Ready" else "False", "reason": "KubeletHasIt", "message": "well"}
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    images = [{"names": [f"registry.example/app-{image}:1.0"], "sizeBytes": 10**8} for image in range(10)]
    info = {"kubeletVersion": "v1.37.1", "osImage": "Linux", "architecture": "amd64", "operatingSystem": "linux"}
    status = {"capacity": offers, "allocatable": offers, "conditions": conditions, "images": images, "nodeInfo": info}
    return {"metadata": meta(name, labels=labels), "spec": {"providerID": f"bench://{name}"}, "status": status}


def a_pod(name: str, *, node: str = "", claims: tuple[str, ...] = ()) -> Body:
    container = {
        "name": "main",
        "image": "registry.example/app-1:1.0",
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "env": [{"name": f"VARIABLE_{n}", "value": "x" * 20} for n in range(8)],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    tolerations = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ]
    spec = {"containers": [container], "volumes": volumes, "schedulerName": "default-scheduler", "priority": 0}
    spec |= {"restartPolicy": "Always", "serviceAccountName": "default", "tolerations": tolerations}
    spec |= {"nodeName": node} if node else {}
    status = {"phase": "Running" if node else "Pending"}
    return {"metadata": meta(name, "default", labels={"app": f"app-{hash(node) % 7}"}), "spec": spec, "status": status}


def a_claim(name: str, storage_class: str, *, volume: str = "", node: str = "") -> Body:
    notes = {well_known.SELECTED_NODE: node, well_known.STORAGE_PROVISIONER: DRIVER_NAME} if node else {}
    notes |= {well_known.BIND_COMPLETED: well_known.ANNOTATION_SET} if volume else {}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem"}
    spec |= {"storageClassName": storage_class} | ({"volumeName": volume} if volume else {})
    metadata = meta(name, "default", annotations=notes, finalizers=[well_known.PVC_PROTECTION])
    has = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}} if volume else {}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Bound" if volume else "Pending"} | has}


def a_volume(name: str, claim_ref: Body, storage_class: str, node: str, made: float, **notes: str) -> Body:
    stamps = {well_known.PROVISIONED_BY: DRIVER_NAME, well_known.VOLUME_CREATED_AT: to_micro_time(made)} | notes
    where = {"matchExpressions": [{"key": NODE_KEY, "operator": "In", "values": [node]}]}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "claimRef": claim_ref,
        "csi": {"driver": DRIVER_NAME, "volumeHandle": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [where]}},
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": storage_class,
        "volumeMode": "Filesystem",
    }
    metadata = meta(name, annotations=stamps, finalizers=[well_known.PV_PROTECTION])
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Bound" if "uid" in claim_ref else "Available"}}


def reference(claim: str) -> Body:
    named = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": claim}
    return named | {"uid": f"uid-of-{claim}"}


def a_capacity(storage_class: str, node: str, polled: float) -> Body:
    notes = {well_known.CAPACITY_POLLED_AT: to_micro_time(polled)}
    labels = {
        "csi.storage.k8s.io/drivername": DRIVER_NAME,
        "csi.storage.k8s.io/managed-by": "external-provisioner",
    }
    metadata = meta(f"csisc-{storage_class}-{node}", HOLDS, annotations=notes, labels=labels)
    where = {"matchLabels": {NODE_KEY: node}}
    figures = {"capacity": "100Gi", "maximumVolumeSize": "100Gi"}
    return {"metadata": metadata, "nodeTopology": where, "storageClassName": storage_class} | figures


def a_class(name: str, *, provisioner: str = DRIVER_NAME, mode: str = "WaitForFirstConsumer") -> Body:
    pool = {"parameters": {"pool": "fast" if name == "fast" else "slow"}} if provisioner == DRIVER_NAME else {}
    rest = {"reclaimPolicy": "Delete", "volumeBindingMode": mode}
    return {"metadata": meta(name), "provisioner": provisioner} | pool | rest


def things(nodes: int, now: float, *, pods: int = PODS_PER_NODE) -> Iterator[tuple[Kind[Any], Body]]:
    """All objects of a cluster of this size, with this many pods on every node, except those of `tasks`."""
    for namespace in ("default", HOLDS):
        yield NAMESPACE, {"metadata": meta(namespace), "spec": {}, "status": {"phase": "Active"}}
    driver = {"attachRequired": False, "podInfoOnMount": True, "storageCapacity": True}
    yield CSI_DRIVER, {"metadata": meta(DRIVER_NAME), "spec": driver | {"volumeLifecycleModes": ["Persistent"]}}
    for name in CLASSES:
        yield STORAGE_CLASS, a_class(name)
    yield STORAGE_CLASS, a_class("immediate", provisioner=well_known.NO_PROVISIONER, mode="Immediate")
    for number in range(nodes):
        node = f"node-{number:05}"
        storage_class = CLASSES[number % len(CLASSES)]
        yield NODE, a_node(node, number)
        listed = {"name": DRIVER_NAME, "nodeID": node, "topologyKeys": [NODE_KEY], "allocatable": {"count": 100}}
        yield CSI_NODE, {"metadata": meta(node), "spec": {"drivers": [listed]}}
        for name in CLASSES:
            yield STORAGE_CAPACITY, a_capacity(name, node, now - 60)
        claim = f"data-{number:05}"
        # Made after the driver was last asked: the scheduler has to count it.
        yield VOLUME, a_volume(f"pvc-{number:05}", reference(claim), storage_class, node, now - 30)
        yield CLAIM, a_claim(claim, storage_class, volume=f"pvc-{number:05}", node=node)
        for pod in range(pods):
            yield POD, a_pod(f"app-{number:05}-{pod}", node=node, claims=(claim,) if pod == 0 else ())


def tasks(now: float) -> Iterator[tuple[Kind[Any], Body]]:
    """The task of each component."""
    yield POD, a_pod("pending")
    yield CLAIM, a_claim("immediate", "immediate")
    free = a_volume("static", {"namespace": "default", "name": "immediate"}, "immediate", FIRST, now)
    del free["spec"]["csi"], free["metadata"]["annotations"], free["spec"]["claimRef"]
    free["spec"] |= {"hostPath": {"path": "/mnt/static", "type": ""}}
    yield VOLUME, free
    yield CLAIM, a_claim("asked", "fast", node=FIRST)
    pair = ("left", "right")
    # Of another scheduler, so that only the coordinator has something to do with it.
    waiting = a_pod("waiting", claims=pair)
    waiting["spec"]["schedulerName"] = "elsewhere"
    yield POD, waiting
    for claim in pair:
        uid = f"uid-of-{claim}"
        yield CLAIM, a_claim(claim, "slow", node=FIRST)
        notes = {
            objects.ATTEMPT: "1",
            objects.CLAIM: f"default/{claim}",
            objects.NODE: FIRST,
            objects.SINCE: to_time(now),
        }
        held = held_reference(uid, hold_namespace=HOLDS).body()
        yield VOLUME, a_volume(f"held-{claim}", held, "slow", FIRST, now, **notes)
        record = to_data(Intent(1, FIRST, IntentPhase.CREATED)) | {"driver": DRIVER_NAME}
        yield CONFIG_MAP, {"metadata": meta(objects.intent_name(uid), HOLDS), "data": record}


async def fill(file: Path, nodes: int) -> int:
    """Write all objects; return their number."""
    store = await SqliteStore.open(file, "normal")
    now = time.time()
    waiting = itertools.chain(things(nodes, now), tasks(now))
    written = 0

    async def write() -> None:
        nonlocal written
        for kind, body in waiting:
            where = body["metadata"]
            key = kind.store_key(where.get("namespace", ""), where["name"])
            await store.write(key, stored_form(kind, body), expect=ABSENT)
            written += 1

    await asyncio.gather(*(write() for _ in range(512)))
    await store.close()
    return written


@asynccontextmanager
async def process(*arguments: str, ready: bool = False) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE if ready else asyncio.subprocess.DEVNULL
    command = (sys.executable, "-m", "mooring", *arguments)
    # The namespace in which the provisioner publishes capacity.
    started = await asyncio.create_subprocess_exec(*command, stdout=pipe, env=os.environ | {"NAMESPACE": HOLDS})
    try:
        if started.stdout is not None:
            while (line := await started.stdout.readline()) != b"ready\n":
                if not line:
                    raise SystemExit(f"mooring {arguments[0]} did not start")
        yield started
    finally:
        if started.returncode is None:
            started.send_signal(signal.SIGTERM)
            await started.wait()


async def seen(client: Client, kind: Kind[Any], wanted: Callable[[Any], bool]) -> None:
    """Wait until an object satisfies the predicate."""
    listing = await client.list(kind)
    if any(map(wanted, listing.items)):
        raise SystemExit(f"the first action on {kind.plural} was done before")
    async with aclosing(client.watch(kind, after=listing.resource_version)) as events:
        async for event in events:
            if wanted(event.object):
                return


async def renewals(client: Client, lease: str, moments: list[float]) -> None:
    """Record the times of lease renewals."""
    async with aclosing(client.watch(LEASE, after=None, namespace=HOLDS)) as events:
        async for event in events:
            item: ApiObject = event.object
            if item.name == lease and event.object.spec.holder_identity:
                moments.append(time.monotonic())


async def measured(component: Component, client: Client, server: int, extra: tuple[str, ...]) -> Took:
    moments: list[float] = []
    renewing = asyncio.create_task(renewals(client, component.lease, moments))
    acting = asyncio.create_task(seen(client, component.kind, component.acted))
    await asyncio.sleep(0.5)
    began, server_before = time.monotonic(), usage_of(server).cpu_seconds
    async with process(*component.command, *extra, "--log-level=error") as started:
        ending = asyncio.create_task(started.wait())
        done, _ = await asyncio.wait((acting, ending), timeout=TIMEOUT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if acting not in done:
            raise SystemExit(f"mooring {component.command[0]}: no first action (exit code {started.returncode})")
        acting.result()
        wall, cpu = time.monotonic() - began, usage_of(started.pid).cpu_seconds
        server_cpu = usage_of(server).cpu_seconds - server_before
        await asyncio.wait((ending,), timeout=AFTERWARDS)
        if ending.done():
            raise SystemExit(f"mooring {component.command[0]} ended with {started.returncode}")
        peak = usage_of(started.pid).peak_bytes
    renewing.cancel()
    gaps = [later - earlier for earlier, later in itertools.pairwise(moments)]
    return Took(wall, cpu, max(gaps, default=0.0), server_cpu, peak)


async def at_size(nodes: int, names: list[str], folder: Path) -> None:
    began = time.monotonic()
    written = await fill(folder / "state.db", nodes)
    print(f"{nodes} nodes, {written} objects, filled in {time.monotonic() - began:.1f} s", flush=True)
    socket = folder / "csi.sock"
    sites = [f"--serve=node-{number:05}:{NODE_KEY}=node-{number:05}" for number in range(1, nodes)]
    driver = (
        *("csi-hostpath", f"--endpoint=unix://{socket}", f"--node-id={FIRST}", f"--state-dir={folder / 'csi'}"),
        *("--pool=fast=100Gi", "--pool=slow=100Gi", "--log-level=error", *sites),
    )
    arguments = ("apiserver", "--data-dir", str(folder), "--secure-port=0", "--log-level=error")
    async with process(*arguments, ready=True) as server:
        access = kubeconfig.from_files([folder / "kubeconfig"])
        client = HttpClient(access, component="takeover", clock=SystemClock())
        try:
            for name in names:
                if name == "provisioner":
                    async with process(*driver, ready=True):
                        extra = (f"--csi-address={socket}", f"--kubeconfig={folder / 'kubeconfig'}")
                        tell(name, await measured(COMPONENTS[name], client, server.pid, extra))
                else:
                    extra = (f"--kubeconfig={folder / 'kubeconfig'}",)
                    tell(name, await measured(COMPONENTS[name], client, server.pid, extra))
        finally:
            await client.close()


def tell(name: str, took: Took) -> None:
    figures = (
        f"{took.wall:8.2f} s   CPU {took.cpu:6.2f} s   {took.peak_bytes / 1e6:5.0f} MB   longest gap {took.gap:5.2f} s"
    )
    print(f"  {name:12} first action after {figures}   (API server: CPU {took.server_cpu:.2f} s)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="1000,2000,5000")
    parser.add_argument("--components", default=",".join(COMPONENTS))
    options = parser.parse_args()
    random.seed(1)
    for size in options.nodes.split(","):
        with tempfile.TemporaryDirectory(prefix="mooring-takeover-") as folder:
            run_event_loop(at_size(int(size), options.components.split(","), Path(folder)))


if __name__ == "__main__":
    main()
