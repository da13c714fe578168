"""The controller that replaces unused claims: when it acts, why it does not, crashes and pods at every write."""

import itertools
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, CONFIG_MAP, EVENT, NAMESPACE, POD, STORAGE_CLASS, VOLUME, VOLUME_ATTACHMENT, Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.times import to_time
from mooring.client.contract import ObjectList
from mooring.client.live_reads import get_or_none
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.pvcontroller.protection import VolumeProtection
from mooring.pvcontroller.unused_claim_controller import UnusedClaimController
from mooring.volumes.unused.record import FINALIZER, UNUSED
from support.builders import claim_body, claim_ref, class_body, pod_body, volume_body
from support.partial_control_plane import Plane, run_plane
from support.provisioner.crashing_process import CrashingClient, T, V, alive

OTHERS: Final = [PersistentVolumeController, VolumeProtection]
DELAY: Final = 60.0
#: More writes than a replacement makes: record, volume, finalizer, deletion, volume, finalizer, claim, record.
ENOUGH: Final = 9
OWNER: Final = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "set-1"}


async def furnish(
    plane: Plane,
    policy: str | None = "1m",
    *,
    binding: str = "WaitForFirstConsumer",
    **claim: Any,  # noqa: ANN401  the builder's
) -> str:
    """A claim without a volume, whose class allows the replacement; returns its uid."""
    notes = {} if policy is None else {well_known.UNUSED_CLAIMS: policy}
    await plane.create(NAMESPACE, {"metadata": {"name": "kube-system"}})
    await plane.create(
        STORAGE_CLASS, class_body(provisioner="csi.example.com", binding_mode=binding, annotations=notes)
    )
    kept = {"labels": {"app": "db"}, "annotations": {"team": "blue"}, "owners": [OWNER]} | claim
    return (await plane.create(CLAIM, claim_body(name="data", selected_node="n1", **kept))).uid


async def bind(plane: Plane, uid: str, *, reclaim: str = "Delete", name: str = "", claim: str = "data") -> str:
    """Provision the claim's volume on n1; returns the volume's name."""
    notes = {well_known.PROVISIONED_BY: "csi.example.com"}
    reference = claim_ref(name=claim, uid=uid)
    body = volume_body(name=name or f"pvc-{uid}", node="n1", reclaim=reclaim, claim_ref=reference, annotations=notes)
    volume = await plane.create(VOLUME, body)
    await plane.until(lambda: is_bound(plane, claim))
    return volume.name


async def is_bound(plane: Plane, name: str) -> bool:
    claim = await plane.get(CLAIM, name)
    return claim.status.phase == "Bound" and claim.fully_bound


async def block(plane: Plane, name: str = "db-0", claim: str = "data") -> None:
    """A pod that a scheduler rejects."""
    await plane.create(POD, pod_body(name=name, claims=[claim]))
    rejected = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "lastTransitionTime": to_time(plane.clock.now()),
    }
    status = MergePatch({"status": {"conditions": [rejected]}})
    await plane.client.patch(POD, name, status, namespace="default", subresource="status")


async def run_pod(plane: Plane, name: str = "other") -> None:
    await plane.create(POD, pod_body(name=name, claims=["data"], node="n1"))


async def end_pod(plane: Plane, name: str = "other") -> None:
    await plane.client.delete(POD, name, namespace="default", grace_seconds=0)


async def uid_of(plane: Plane) -> str:
    found = await get_or_none(plane.client, CLAIM, "data", namespace="default")
    return found.uid if found is not None else ""


async def reasons(plane: Plane) -> list[str]:
    return [each for each in await plane.events_about("data") if each.startswith(("Unused", "Used"))]


@pytest.mark.parametrize("reclaim", ["Delete", "Retain"])
@pytest.mark.req("R8.released")
def test_unused_claim_is_replaced_after_the_delay(reclaim: str) -> None:
    async def scenario(plane: Plane) -> None:
        async with alive(plane, UnusedClaimController):
            old = await furnish(plane)
            volume = await bind(plane, old, reclaim=reclaim)
            await block(plane)
            await plane.pass_time(DELAY - 5)
            assert await uid_of(plane) == old
            await plane.pass_time(200)
            claim = await plane.get(CLAIM, "data")
            assert claim.uid not in ("", old)
            assert (claim.spec.volume_name, claim.metadata.labels) == ("", {"app": "db"})
            assert claim.metadata.annotations == {"team": "blue", well_known.TIMES_REPLACED: "1"}
            assert [owner.name for owner in claim.metadata.owner_references] == ["db"]
            freed = await plane.get(VOLUME, volume)
            assert (freed.status.phase, freed.spec.persistent_volume_reclaim_policy) == ("Released", reclaim)
            assert freed.metadata.annotations[UNUSED] == old
            assert await plane.names(CONFIG_MAP) == []
            assert any(each.startswith("UnusedClaimReplaced") for each in await reasons(plane))

    run_plane(OTHERS, scenario)


@pytest.mark.req("R8.released")
def test_delay_doubles_with_each_replacement() -> None:
    async def scenario(plane: Plane) -> None:
        async with alive(plane, UnusedClaimController):
            old = await furnish(plane, annotations={well_known.TIMES_REPLACED: "2"})
            await bind(plane, old)
            await block(plane)
            await plane.pass_time(4 * DELAY - 5)
            assert await uid_of(plane) == old
            await plane.pass_time(200)
            assert await uid_of(plane) not in ("", old)

    run_plane(OTHERS, scenario)


Do = Callable[[Plane, str], Awaitable[object]]


async def attach(plane: Plane, uid: str) -> None:
    await bind(plane, uid)
    await plane.create(VOLUME_ATTACHMENT, attachment_body("a", f"pvc-{uid}"))


def attachment_body(name: str, volume: str) -> dict[str, Any]:
    spec = {"attacher": "csi.example.com", "nodeName": "n1", "source": {"persistentVolumeName": volume}}
    return {"metadata": {"name": name}, "spec": spec}


async def come_and_go(plane: Plane, uid: str) -> None:
    await bind(plane, uid)
    await run_pod(plane)
    await end_pod(plane)


async def finish(plane: Plane, uid: str) -> None:
    await bind(plane, uid)
    await run_pod(plane)
    status = MergePatch({"status": {"phase": "Succeeded"}})
    await plane.client.patch(POD, "other", status, namespace="default", subresource="status")


REFUSED: Final[dict[str, tuple[str, dict[str, Any], Do]]] = {
    "a pod has a node": ("PodHadNode", {}, lambda plane, uid: finish(plane, uid)),
    "a pod had a node": ("PodHadNode", {}, come_and_go),
    "attached": ("Attached", {}, attach),
    "static volume": ("NotMadeForClaim", {}, lambda plane, uid: bind(plane, uid, name="disk")),
    "bound at once": ("ImmediateBinding", {"binding": "Immediate"}, bind),
    "made from a snapshot": ("HasDataSource", {"source": "snapshot"}, bind),
    "malformed policy": ("BadPolicy", {"policy": "soon"}, bind),
}


@pytest.mark.parametrize(("code", "setting", "prepare"), [pytest.param(*row, id=name) for name, row in REFUSED.items()])
@pytest.mark.req("R8.released")
def test_refusal_is_explained_and_writes_nothing(code: str, setting: dict[str, Any], prepare: Do) -> None:
    async def scenario(plane: Plane) -> None:
        given = dict(setting)
        source = given.pop("source", None)
        async with alive(plane, UnusedClaimController, client := CrashingClient(plane.client, 1)):
            old = await furnish(plane, **given) if source is None else await with_source(plane)
            await prepare(plane, old)
            await block(plane)
            await plane.pass_time(400)
            assert not client.dead.is_set(), "it wrote"
            assert await uid_of(plane) == old
            assert any(f": {code}: " in each for each in await reasons(plane)), await reasons(plane)

    run_plane(OTHERS, scenario)


async def with_source(plane: Plane) -> str:
    await furnish(plane)
    body = claim_body(name="data", selected_node="n1")
    body["spec"]["dataSource"] = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
    await plane.client.delete(CLAIM, "data", namespace="default")
    await plane.until(lambda: gone(plane))
    return (await plane.create(CLAIM, body)).uid


async def gone(plane: Plane) -> bool:
    return await uid_of(plane) == ""


@pytest.mark.req("R8.released")
def test_claim_that_was_bound_before_the_watch_is_refused() -> None:
    """Whatever the condition `Unused` says: no process has seen that no pod had the volume."""

    async def scenario(plane: Plane) -> None:
        old = await furnish(plane)
        await bind(plane, old)
        await plane.pass_time(5)
        conditions = (await plane.get(CLAIM, "data")).status.conditions
        assert [(one.type, one.status) for one in conditions] == [("Unused", "True")]
        await block(plane)
        async with alive(plane, UnusedClaimController):
            await plane.pass_time(400)
            assert await uid_of(plane) == old
            assert any(": HistoryUnknown: " in each for each in await reasons(plane))

    run_plane(OTHERS, scenario)


@pytest.mark.parametrize("policy", [None, "10h"])
@pytest.mark.req("R8.released")
def test_nothing_is_done_without_opt_in_or_before_the_delay(policy: str | None) -> None:
    async def scenario(plane: Plane) -> None:
        async with alive(plane, UnusedClaimController):
            old = await furnish(plane, policy)
            await bind(plane, old)
            await block(plane)
            await plane.pass_time(20 * DELAY)
            assert await uid_of(plane) == old
            assert await reasons(plane) == []

    run_plane(OTHERS, scenario)


@pytest.mark.parametrize("reclaim", ["Delete", "Retain"])
@pytest.mark.parametrize("writes", range(1, ENOUGH))
@pytest.mark.req("R8.released")
def test_crash_after_any_write_loses_no_claim(writes: int, reclaim: str) -> None:
    async def scenario(plane: Plane) -> None:
        async with alive(plane, UnusedClaimController, client := CrashingClient(plane.client, writes)):
            old = await furnish(plane)
            volume = await bind(plane, old, reclaim=reclaim)
            await block(plane)
            await plane.pass_time(300)
        assert client.dead.is_set()
        async with alive(plane, UnusedClaimController):
            await plane.pass_time(300)
            claim = await plane.get(CLAIM, "data")
            kept = await plane.get(VOLUME, volume)
            assert FINALIZER not in claim.metadata.finalizers
            assert not claim.deleting
            assert kept.spec.persistent_volume_reclaim_policy == reclaim
            assert await plane.names(CONFIG_MAP) == []
            if claim.uid == old or UNUSED not in kept.metadata.annotations:
                assert claim.spec.volume_name == volume, (
                    "the next process knows nothing: the volume stays with its claim"
                )
            else:
                assert claim.spec.volume_name == ""

    run_plane(OTHERS, scenario)


class Interrupting(CrashingClient):
    """Does something after the n-th write."""

    def __init__(self, plane: Plane, number: int, act: Callable[[Plane], Awaitable[None]]) -> None:
        super().__init__(plane.client)
        self._plane, self._number, self._act = plane, number, act
        self._counted = itertools.count(1)

    async def _write(self, kind: Kind[V], call: Awaitable[T]) -> T:
        answer = await super()._write(kind, call)
        if kind is not EVENT and next(self._counted) == self._number:
            await self._act(self._plane)
        return answer


@pytest.mark.parametrize("ends", [True, False], ids=["and ends", "and runs on"])
@pytest.mark.parametrize("writes", [1, 2, 3, 4])
@pytest.mark.req("R8.released")
def test_pod_that_gets_a_node_in_between_keeps_its_volume(writes: int, ends: bool) -> None:
    """After the record, the policy or the finalizer; after the deletion, its node would not mount the volume."""

    async def use(plane: Plane) -> None:
        await run_pod(plane)
        if ends:
            await end_pod(plane)

    async def scenario(plane: Plane) -> None:
        async with alive(plane, UnusedClaimController, Interrupting(plane, writes, use)):
            old = await furnish(plane)
            volume = await bind(plane, old)
            await block(plane)
            await plane.pass_time(300)
            assert not (await plane.get(VOLUME, volume)).metadata.annotations.get(UNUSED)
            if not ends:
                assert (await plane.get(VOLUME, volume)).status.phase == "Bound"
                await end_pod(plane)
            await plane.pass_time(300)
            claim, kept = await plane.get(CLAIM, "data"), await plane.get(VOLUME, volume)
            assert claim.spec.volume_name == volume
            assert (kept.status.phase, kept.spec.persistent_volume_reclaim_policy) == ("Bound", "Delete")
            assert await plane.names(CONFIG_MAP) == []
            if writes < 4 and not ends:
                assert claim.uid == old, "the pod was seen before the deletion"

    run_plane(OTHERS, scenario)


class CountingReads(CrashingClient):
    """Counts requests, and objects in their responses. Events do not count, nor what watches deliver."""

    requests = 0
    objects = 0

    async def get(self, kind: Kind[V], name: str, *, namespace: str = "") -> V:
        self.requests += 1
        self.objects += 1
        return await super().get(kind, name, namespace=namespace)

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> ObjectList[V]:
        found = await super().list(kind, namespace=namespace, labels=labels, fields=fields)
        self.requests += 1
        self.objects += len(found.items)
        return found

    async def _write(self, kind: Kind[V], call: Awaitable[T]) -> T:
        self.requests += kind is not EVENT
        return await super()._write(kind, call)


def replacement_cost(claims: int) -> tuple[int, int]:
    """Requests and objects read until so many claims of one namespace are replaced, each with a pod and attachment."""

    async def scenario(plane: Plane) -> tuple[int, int]:
        async with alive(plane, UnusedClaimController, client := CountingReads(plane.client)):
            old = {"data": await furnish(plane)}
            for number in range(1, claims):
                name = f"data-{number}"
                old[name] = (await plane.create(CLAIM, claim_body(name=name, selected_node="n1"))).uid
            for number, (name, uid) in enumerate(old.items()):
                await bind(plane, uid, claim=name)
                await plane.create(VOLUME_ATTACHMENT, attachment_body(f"a{number}", f"of-another-{number}"))
                await block(plane, f"db-{number}", name)
            await plane.pass_time(400)
            for name, uid in old.items():
                assert (await plane.get(CLAIM, name)).uid != uid
            assert await plane.names(CONFIG_MAP) == []
            return client.requests, client.objects

    return run_plane(OTHERS, scenario)


def test_cost_of_a_claim_does_not_grow_with_its_namespace() -> None:
    """Twice the claims, pods and attachments: twice the requests, and twice the objects that are read."""
    few, many = replacement_cost(6), replacement_cost(12)
    assert many[0] <= 2.05 * few[0], f"requests: {few[0]} for 6 claims, {many[0]} for 12"
    assert many[1] <= 2.05 * few[1], f"objects read: {few[1]} for 6 claims, {many[1]} for 12"


def test_finalizer_without_a_record_is_removed() -> None:
    async def scenario(plane: Plane) -> None:
        await furnish(plane, finalizers=[FINALIZER])
        async with alive(plane, UnusedClaimController):
            await plane.pass_time(5)
            assert FINALIZER not in (await plane.get(CLAIM, "data")).metadata.finalizers

    run_plane(OTHERS, scenario)
