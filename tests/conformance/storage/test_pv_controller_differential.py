"""Random claims and volumes on kube-controller-manager and on ours converge to equal objects.

Two servers with the same objects, one controller each. About half a minute; `MOORING_ISLANDS` and `MOORING_SEED` select
more or other groups. A difference names its group, and the seed reproduces it.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from mooring.api import well_known
from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, EVENT, POD, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.storage import Claim, Volume
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.pvcontroller.protection import VolumeProtection
from support.conformance.control_plane import ControlPlane
from support.conformance.random_claims import ClaimGroup, draw_groups, reference
from support.conformance.running import running

COUNT: Final = int(os.environ.get("MOORING_ISLANDS", "150"))
SEED: Final = int(os.environ.get("MOORING_SEED", "1"))
TIMEOUT_SECONDS: Final = 120.0
#: Resync interval of kube-controller-manager. It repeats its events each time, and writes them one by one: more
#: groups need a longer interval.
PERIOD: Final = max(1, COUNT // 150)
#: Without changes for this long, the state has converged.
QUIET: Final = PERIOD + 2.0
THEIRS: Final = (
    "persistentvolume-binder-controller",
    "persistentvolume-expander-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
)
UNLIMITED: Final = (f"--pvclaimbinder-sync-period={PERIOD}s", "--kube-api-qps=5000", "--kube-api-burst=10000")
#: Annotations that the controllers write; others are the user's.
MARKS: Final = (
    well_known.BIND_COMPLETED,
    well_known.BOUND_BY_CONTROLLER,
    well_known.MIGRATED_TO,
    well_known.STORAGE_PROVISIONER,
    well_known.STORAGE_PROVISIONER_BETA,
    well_known.SELECTED_NODE,
)


State = dict[str, dict[str, Any]]


async def create(client: HttpClient, group: ClaimGroup) -> None:
    if group.storage_class is not None:
        await client.create(STORAGE_CLASS, group.storage_class)
    uid = ""
    if group.claim is not None:
        made = await client.create(CLAIM, group.claim, namespace="default")
        uid = made.uid
        phase = MergePatch({"status": {"phase": group.claim["status"]["phase"]}})
        await client.patch(CLAIM, made.name, phase, namespace="default", subresource="status")
    for plan in group.volumes:
        body = plan.body
        if points := reference(plan, group.name, uid):
            body = body | {"spec": body["spec"] | {"claimRef": points}}
        volume = await client.create(VOLUME, body)
        status = MergePatch({"status": {"phase": body["status"]["phase"]}})
        await client.patch(VOLUME, volume.name, status, subresource="status")
    if group.pod is not None:
        pod = await client.create(POD, group.pod, namespace="default")
        running = MergePatch({"status": {"phase": group.pod["status"]["phase"]}})
        await client.patch(POD, pod.name, running, namespace="default", subresource="status")
    for thing in group.terminating:
        await delete(client, group, thing)


async def delete(client: HttpClient, group: ClaimGroup, thing: str) -> None:
    """Delete the group's claim, or a volume of this name, if it exists, as a user."""
    with contextlib.suppress(NotFound):
        if thing == "claim":
            await client.delete(CLAIM, group.name, namespace="default")
        elif thing:
            await client.delete(VOLUME, thing)


def compared(item: Claim | Volume, uids: dict[str, str]) -> dict[str, Any]:
    """An object without what differs between any two servers."""
    notes = item.metadata.annotations
    fields: dict[str, Any] = {
        "phase": item.status.phase,
        "marks": {key: notes[key] for key in MARKS if key in notes},
        "finalizers": sorted(item.metadata.finalizers),
        "deleting": item.deleting,
    }
    if isinstance(item, Claim):
        return fields | {
            "volume": item.spec.volume_name,
            "capacity": item.status.capacity,
            "modes": item.status.access_modes,
        }
    points = item.spec.claim_ref
    claim_of = None if points is None else (points.name, uids.get(points.uid, points.uid))
    return fields | {"claim": claim_of, "message": item.status.message}


async def state(client: HttpClient, uids: dict[str, str]) -> State:
    """All objects; `uids` records the claim of every uid, also after its deletion."""
    claims = (await client.list(CLAIM)).items
    uids |= {claim.uid: f"uid of {claim.name}" for claim in claims}
    volumes = (await client.list(VOLUME)).items
    found = {f"{item.name} (claim)": compared(item, uids) for item in claims}
    return found | {item.name: compared(item, uids) for item in volumes}


async def settled(client: HttpClient, uids: dict[str, str]) -> State:
    """The state, once it has not changed for some time."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        before = await state(client, uids)
        while True:
            await asyncio.sleep(QUIET)
            now = await state(client, uids)
            if now == before:
                return now
            before = now


async def reasons(client: HttpClient, first: State, groups: list[ClaimGroup]) -> State:
    """Types and reasons of the events of each object.

    Without objects that were terminating at first: they may be deleted before they are observed. An event about a
    volume of the wrong mode depends on whether it is synced before the claim is bound to another one. A bound claim
    without a capacity in its status looks like an expanded one to the expand controller until it is synced; whether
    that controller warns depends on when it looks, so the type of its event is not compared.
    """
    fields: State = {}
    bound_at_first = {
        each.name for each in groups if each.claim and each.claim.get("status", {}).get("phase") == "Bound"
    }
    terminating = {group.name for group in groups if group.terminating}
    for event in (await client.list(EVENT)).items:
        kind, name = event.involved_object.kind, event.involved_object.name
        group = name.partition("-")[0]
        if kind not in (CLAIM.kind, VOLUME.kind):
            # kube-apiserver may emit events about its own Service.
            continue
        claim = first.get(f"{group} (claim)")
        chosen_before = event.reason == "VolumeMismatch" and claim is not None and claim["phase"] == "Bound"
        without_capacity = event.reason == "ExternalExpanding" and group in bound_at_first
        if group in terminating or chosen_before or without_capacity:
            continue
        label = event.reason if event.reason == "ExternalExpanding" else f"{event.type} {event.reason}"
        fields.setdefault(f"{kind} {name}", {})[label] = True
    return fields


async def outcome(client: HttpClient, groups: list[ClaimGroup]) -> list[State]:
    """The state after convergence, the state after users deleted some objects, and the events."""
    uids: dict[str, str] = {}
    first = await settled(client, uids)
    await asyncio.gather(*(delete(client, group, group.deleted) for group in groups))
    return [first, await settled(client, uids), await reasons(client, first, groups)]


@pytest.mark.req("T42.differential")
async def test_controllers_converge_to_equal_objects(start_kube: Callable[[], ControlPlane]) -> None:
    groups = draw_groups(SEED, COUNT)
    results = []
    for side in ("kube", "mooring"):
        kube = start_kube()
        client = HttpClient(kube.access, component="differential", clock=SystemClock())
        try:
            for some in range(0, COUNT, 16):
                await asyncio.gather(*(create(client, group) for group in groups[some : some + 16]))
            if side == "kube":
                with kube.controllers(*THEIRS, options=UNLIMITED):
                    results.append(await outcome(client, groups))
            else:
                async with running(client, (PersistentVolumeController, VolumeProtection)):
                    results.append(await outcome(client, groups))
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
