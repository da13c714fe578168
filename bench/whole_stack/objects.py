"""The cluster before the measurement: nodes, classes and volumes at rest; and the pods of the measurement."""

import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, Final

from bench.kube.cluster import NAMESPACE, each
from bench.takeover import CLASSES, NODE_KEY, a_claim, a_class, a_node, a_pod, a_volume
from mooring.api import well_known
from mooring.api.kinds import CLAIM, CSI_DRIVER, CSI_NODE, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.views.storage import Volume
from mooring.client.http import HttpClient
from mooring.csi.client import CsiClient
from mooring.csi.contract import (
    AccessibilityRequirements,
    AccessMode,
    CreateVolume,
    Topology,
    VolumeCapability,
)
from mooring.hostpath.records import DRIVER_NAME

Body = dict[str, Any]
GIB: Final = 1 << 30


def node_name(number: int) -> str:
    return f"node-{number:05}"


def fresh(body: Body) -> Body:
    """As a client sends it: without what the API server sets."""
    metadata = {key: value for key, value in body["metadata"].items() if key not in ("uid", "creationTimestamp")}
    return body | {"metadata": metadata}


async def create_nodes(client: HttpClient, nodes: int) -> None:
    driver = {"attachRequired": False, "podInfoOnMount": True, "storageCapacity": True}
    await client.create(CSI_DRIVER, {"metadata": {"name": DRIVER_NAME}, "spec": driver})
    for name in CLASSES:
        await client.create(STORAGE_CLASS, fresh(a_class(name)))

    async def create(number: int) -> None:
        name = node_name(number)
        listed = {"name": DRIVER_NAME, "nodeID": name, "topologyKeys": [NODE_KEY], "allocatable": {"count": 100}}
        await client.create(NODE, fresh(a_node(name, number)))
        await client.create(CSI_NODE, {"metadata": {"name": name}, "spec": {"drivers": [listed]}})

    await each(range(nodes), create)


async def create_volumes_at_rest(client: HttpClient, socket: Path, count: int, nodes: int) -> None:
    """Bound volumes of the driver: with storage, claim and PersistentVolume."""
    capability = VolumeCapability(AccessMode.SINGLE_NODE_WRITER)

    async with CsiClient(socket, deadline=60.0) as driver:

        async def create(number: int) -> None:
            name, node, storage_class = f"rest-{number:05}", node_name(number % nodes), CLASSES[number % len(CLASSES)]
            body = fresh(a_claim(name, storage_class, volume=name, node=node))
            claim = await client.create(CLAIM, body, namespace=NAMESPACE)
            topology = (Topology({NODE_KEY: node}),)
            parameters = a_class(storage_class)["parameters"]
            accessible = AccessibilityRequirements(topology, topology)
            request = CreateVolume(name, GIB, 0, (capability,), parameters, accessible)
            made = await driver.create_volume(request, secrets={})
            claim_ref = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": NAMESPACE, "name": name}
            volume = a_volume(name, claim_ref | {"uid": claim.uid}, storage_class, node, time.time())
            volume["spec"]["csi"]["volumeHandle"] = made.volume_id
            volume["metadata"]["annotations"] |= {well_known.BOUND_BY_CONTROLLER: well_known.ANNOTATION_SET}
            await client.create(VOLUME, fresh(volume))

        await each(range(count), create)


def pods(count: int) -> Iterable[tuple[list[Body], Body]]:
    """Pods with one and with two volumes in turns, of all classes, each with its claims."""
    classes = itertools.cycle(CLASSES)
    for number in range(count):
        names = [f"data-{number:05}-{claim}" for claim in range(1 + number % 2)]
        pod = fresh(a_pod(f"app-{number:05}", claims=tuple(names)))
        pod["metadata"]["labels"] = {"bench": "measured"}
        yield [fresh(a_claim(name, next(classes))) for name in names], pod


async def create_pods(client: HttpClient, count: int) -> None:
    async def create(bodies: tuple[list[Body], Body]) -> None:
        claims, pod = bodies
        for claim in claims:
            await client.create(CLAIM, claim, namespace=NAMESPACE)
        await client.create(POD, pod, namespace=NAMESPACE)

    await each(pods(count), create)


async def mismatches(client: HttpClient, socket: Path) -> AsyncIterator[str]:
    """Volumes in the wrong place, claims without one, storage without an object and objects without storage."""
    volumes = {volume.name: volume for volume in (await client.list(VOLUME)).items}
    claims = {claim.name: claim for claim in (await client.list(CLAIM, namespace=NAMESPACE)).items}
    pods = (await client.list(POD, namespace=NAMESPACE)).items
    async with CsiClient(socket, deadline=60.0) as driver:
        listed = {volume.volume_id for volume in await driver.list_volumes()}
    named = {volume.spec.csi.volume_handle for volume in volumes.values() if volume.spec.csi is not None}
    for handle in sorted(listed - named):
        yield f"leaked: storage {handle} has no PersistentVolume"
    for handle in sorted(named - listed):
        yield f"lost: PersistentVolume of {handle} has no storage"
    owners = [volume.spec.claim_ref.uid for volume in volumes.values() if volume.spec.claim_ref is not None]
    for uid in (uid for uid, count in Counter(owners).items() if count > 1):
        yield f"wrong: claim {uid} has several volumes"
    for pod in pods:
        for key in pod.claim_keys:
            claim = claims.get(name := key.partition("/")[2])
            volume = volumes.get(claim.spec.volume_name or "") if claim is not None else None
            if pod.spec.node_name and (volume is None or volume.spec.claim_ref is None):
                yield f"wrong: pod {pod.name} is on {pod.spec.node_name}, its claim {name} has no volume"
            elif pod.spec.node_name and volume is not None and pod.spec.node_name not in _reached_from(volume):
                yield f"wrong: pod {pod.name} is on {pod.spec.node_name}, volume {volume.name} is elsewhere"


def _reached_from(volume: Volume) -> set[str]:
    """Names of the nodes that the volume's affinity lists."""
    required = volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None
    terms = required.node_selector_terms if required is not None else ()
    return {value for term in terms for expression in term.match_expressions for value in expression.values}
