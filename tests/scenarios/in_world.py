"""The simulated world as scenarios use it: manifests in, plain objects out, as with kubectl."""

from pathlib import Path
from typing import Any

import msgspec
import yaml

from mooring.api.kinds import BY_KIND, CLAIM, EVENT, POD, VOLUME, Kind
from mooring.api.views.meta import ApiObject
from mooring.sim.world import World
from scenarios.placements import Objects, Placed, placements

NAMESPACE = "default"


async def apply(world: World, manifest: Path) -> None:
    """Create everything in the file."""
    await create(world, *_documents(manifest))


async def create(world: World, *bodies: dict[str, Any]) -> None:
    for document in bodies:
        kind = BY_KIND[document["apiVersion"], document["kind"]]
        await world.client.create(kind, document, namespace=NAMESPACE if kind.namespaced else "")


async def objects(world: World, kind: Kind[ApiObject]) -> Objects:
    return [_plain(item) for item in (await world.client.list(kind)).items]


async def placed(world: World) -> list[Placed]:
    return placements(await objects(world, POD), await objects(world, CLAIM), await objects(world, VOLUME))


async def all_run(world: World, count: int) -> bool:
    """Whether there are that many pods, and all of them run."""
    pods = (await world.client.list(POD)).items
    return len(pods) == count and all(pod.status.phase == "Running" for pod in pods)


async def refusals(world: World, pod: str) -> set[str]:
    """What the scheduler said about a pod it could not place."""
    events = (await world.client.list(EVENT, namespace=NAMESPACE)).items
    return {e.message for e in events if e.involved_object.name == pod and e.reason == "FailedScheduling"}


def _documents(manifest: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(manifest.read_text()))


def _plain(item: msgspec.Struct) -> dict[str, Any]:
    body = msgspec.json.decode(msgspec.json.encode(item))
    assert isinstance(body, dict)
    return body
