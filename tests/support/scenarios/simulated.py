"""The simulated cluster as scenarios use it: manifests in, plain objects out, as with kubectl."""

from pathlib import Path
from typing import Any

import msgspec
import yaml

from mooring.api.kinds import BY_KIND, CLAIM, EVENT, POD, VOLUME, Kind
from mooring.api.views.meta import ApiObject
from support.scenarios.placements import Objects, Placed, placements
from support.simulation.cluster import SimulatedCluster

NAMESPACE = "default"


async def apply(cluster: SimulatedCluster, manifest: Path) -> None:
    """Create all objects of the file."""
    await create(cluster, *_documents(manifest))


async def create(cluster: SimulatedCluster, *bodies: dict[str, Any]) -> None:
    for document in bodies:
        kind = BY_KIND[document["apiVersion"], document["kind"]]
        await cluster.client.create(kind, document, namespace=NAMESPACE if kind.namespaced else "")


async def objects(cluster: SimulatedCluster, kind: Kind[ApiObject]) -> Objects:
    return [_plain(item) for item in (await cluster.client.list(kind)).items]


async def placed(cluster: SimulatedCluster) -> list[Placed]:
    return placements(await objects(cluster, POD), await objects(cluster, CLAIM), await objects(cluster, VOLUME))


async def all_run(cluster: SimulatedCluster, count: int) -> bool:
    """Whether there are this many pods, and all run."""
    pods = (await cluster.client.list(POD)).items
    return len(pods) == count and all(pod.status.phase == "Running" for pod in pods)


async def refusals(cluster: SimulatedCluster, pod: str) -> set[str]:
    """The scheduler's messages about an unschedulable pod."""
    events = (await cluster.client.list(EVENT, namespace=NAMESPACE)).items
    return {e.message for e in events if e.involved_object.name == pod and e.reason == "FailedScheduling"}


def _documents(manifest: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(manifest.read_text()))


def _plain(item: msgspec.Struct) -> dict[str, Any]:
    body = msgspec.json.decode(msgspec.json.encode(item))
    assert isinstance(body, dict)
    return body
