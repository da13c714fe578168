"""Random states of claims and volumes, given to kube-controller-manager and to ours: both must settle alike.

Two servers with the same objects, one controller each. About half a minute; `MOORING_ISLANDS` and `MOORING_SEED` make
it longer or another one. A difference names its island, and the seed makes the same one again.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from conformance.control_plane import ControlPlane
from conformance.islands import Island, islands, reference
from conformance.running import running
from mooring.api import keys
from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, EVENT, POD, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.claim import Claim
from mooring.api.views.volume import Volume
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.pvcontroller.protection import VolumeProtection

COUNT: Final = int(os.environ.get("MOORING_ISLANDS", "150"))
SEED: Final = int(os.environ.get("MOORING_SEED", "1"))
PATIENCE: Final = 120.0
#: How often kube-controller-manager looks at everything. It says the same again each time, and writes events one by
#: one: with more islands it needs longer.
PERIOD: Final = max(1, COUNT // 150)
#: When nothing has changed for so long, everything has settled.
QUIET: Final = PERIOD + 2.0
THEIRS: Final = (
    "persistentvolume-binder-controller",
    "persistentvolume-expander-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
)
UNLIMITED: Final = (f"--pvclaimbinder-sync-period={PERIOD}s", "--kube-api-qps=5000", "--kube-api-burst=10000")
#: What both controllers decide about; other annotations are the user's.
MARKS: Final = (
    keys.BIND_COMPLETED,
    keys.BOUND_BY_CONTROLLER,
    keys.MIGRATED_TO,
    keys.STORAGE_PROVISIONER,
    keys.STORAGE_PROVISIONER_BETA,
    keys.SELECTED_NODE,
)


State = dict[str, dict[str, Any]]


async def create(client: HttpClient, island: Island) -> None:
    if island.storage_class is not None:
        await client.create(STORAGE_CLASS, island.storage_class)
    uid = ""
    if island.claim is not None:
        made = await client.create(CLAIM, island.claim, namespace="default")
        uid = made.uid
        phase = MergePatch({"status": {"phase": island.claim["status"]["phase"]}})
        await client.patch(CLAIM, made.name, phase, namespace="default", subresource="status")
    for plan in island.volumes:
        body = plan.body
        if points := reference(plan, island.name, uid):
            body = body | {"spec": body["spec"] | {"claimRef": points}}
        volume = await client.create(VOLUME, body)
        status = MergePatch({"status": {"phase": body["status"]["phase"]}})
        await client.patch(VOLUME, volume.name, status, subresource="status")
    if island.pod is not None:
        pod = await client.create(POD, island.pod, namespace="default")
        running = MergePatch({"status": {"phase": island.pod["status"]["phase"]}})
        await client.patch(POD, pod.name, running, namespace="default", subresource="status")
    for thing in island.dying:
        await delete(client, island, thing)


async def delete(client: HttpClient, island: Island, thing: str) -> None:
    """What a user does: to the island's claim, or to a volume of this name, if it is there."""
    with contextlib.suppress(NotFound):
        if thing == "claim":
            await client.delete(CLAIM, island.name, namespace="default")
        elif thing:
            await client.delete(VOLUME, thing)


def told(item: Claim | Volume, uids: dict[str, str]) -> dict[str, Any]:
    """An object without what differs between any two servers."""
    notes = item.metadata.annotations
    said: dict[str, Any] = {
        "phase": item.status.phase,
        "marks": {key: notes[key] for key in MARKS if key in notes},
        "finalizers": sorted(item.metadata.finalizers),
        "deleting": item.deleting,
    }
    if isinstance(item, Claim):
        return said | {
            "volume": item.spec.volume_name,
            "capacity": item.status.capacity,
            "modes": item.status.access_modes,
        }
    points = item.spec.claim_ref
    whose = None if points is None else (points.name, uids.get(points.uid, points.uid))
    return said | {"claim": whose, "message": item.status.message}


async def state(client: HttpClient, uids: dict[str, str]) -> State:
    """All objects; `uids` learns what every claim's uid stands for, and keeps it when the claim is gone."""
    claims = (await client.list(CLAIM)).items
    uids |= {claim.uid: f"uid of {claim.name}" for claim in claims}
    volumes = (await client.list(VOLUME)).items
    found = {f"{item.name} (claim)": told(item, uids) for item in claims}
    return found | {item.name: told(item, uids) for item in volumes}


async def settled(client: HttpClient, uids: dict[str, str]) -> State:
    """The state, once it has been the same for a while."""
    async with asyncio.timeout(PATIENCE):
        before = await state(client, uids)
        while True:
            await asyncio.sleep(QUIET)
            now = await state(client, uids)
            if now == before:
                return now
            before = now


async def reasons(client: HttpClient, first: State, world: list[Island]) -> State:
    """What was said about each object, as the types and reasons of its events.

    Not of what was dying at first: it may be gone before anybody looks at it. And a volume of the wrong mode that
    another one was chosen before is only spoken of if it is looked at first. A claim that begins as bound, without a
    capacity in its status, looks to the expand controller as if it had outgrown its volume until it is filled in.
    """
    said: State = {}
    begin_bound = {each.name for each in world if each.claim and each.claim.get("status", {}).get("phase") == "Bound"}
    dying = {island.name for island in world if island.dying}
    for event in (await client.list(EVENT)).items:
        kind, name = event.involved_object.kind, event.involved_object.name
        island = name.partition("-")[0]
        if kind not in (CLAIM.kind, VOLUME.kind):
            # kube-apiserver may have something to say of its own Service.
            continue
        claim = first.get(f"{island} (claim)")
        chosen_before = event.reason == "VolumeMismatch" and claim is not None and claim["phase"] == "Bound"
        not_filled_in = event.reason == "ExternalExpanding" and island in begin_bound
        if island in dying or chosen_before or not_filled_in:
            continue
        said.setdefault(f"{kind} {name}", {})[f"{event.type} {event.reason}"] = True
    return said


async def outcome(client: HttpClient, world: list[Island]) -> list[State]:
    """How things settle at first, how after users have deleted some of them, and what was said."""
    uids: dict[str, str] = {}
    first = await settled(client, uids)
    await asyncio.gather(*(delete(client, island, island.deleted) for island in world))
    return [first, await settled(client, uids), await reasons(client, first, world)]


@pytest.mark.req("T42.differential")
async def test_both_settle_alike(start_kube: Callable[[], ControlPlane]) -> None:
    world = islands(SEED, COUNT)
    results = []
    for side in ("kube", "mooring"):
        kube = start_kube()
        client = HttpClient(kube.access, component="differential", clock=SystemClock())
        try:
            for some in range(0, COUNT, 16):
                await asyncio.gather(*(create(client, island) for island in world[some : some + 16]))
            if side == "kube":
                with kube.controllers(*THEIRS, options=UNLIMITED):
                    results.append(await outcome(client, world))
            else:
                async with running(client, (PersistentVolumeController, VolumeProtection)):
                    results.append(await outcome(client, world))
        finally:
            await client.close()
            kube.stop()
    differences = [line for when, sides in _moments(*results) for line in _differences(when, *sides)]
    assert not differences, "\n".join([f"seed {SEED}", *differences])


def _moments(theirs: list[State], mine: list[State]) -> Iterator[tuple[str, tuple[State, State]]]:
    return zip(("at first", "after deletions", "events"), zip(theirs, mine, strict=True), strict=True)


def _differences(when: str, theirs: State, mine: State) -> list[str]:
    return [
        f"{name} {when}:\n  kube    {theirs.get(name)}\n  mooring {mine.get(name)}"
        for name in sorted(theirs.keys() | mine.keys())
        if theirs.get(name) != mine.get(name)
    ]
