"""The PV controller against the real API server in memory, in virtual time: what takes effect, when, and how often."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import TypeVar

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, POD, STORAGE_CLASS, VOLUME, Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import ApiObject
from mooring.client.contract import WatchEvent
from mooring.cluster.local_client import LocalClient
from mooring.pvcontroller.component import RESYNC_SECONDS, PersistentVolumeController
from support.builders import Body, claim_body, claim_ref, class_body, pod_body, volume_body
from support.partial_control_plane import Plane, flaky, run_plane

V = TypeVar("V", bound=ApiObject)

#: Well before the periodic look would have found it.
SOON = RESYNC_SECONDS / 3
HOUR = 3600.0

CONTROLLER = [PersistentVolumeController]

claim = partial(claim_body, storage_class="now")
volume = partial(volume_body, storage_class="now", node="node-1")
NOW = class_body(name="now", binding_mode="Immediate")
WAIT = class_body(name="wait")


async def _bound(plane: Plane, *names: str) -> bool:
    return all([(await plane.get(CLAIM, name)).status.phase == "Bound" for name in names])


async def _phase(plane: Plane, kind: Kind[ApiObject], name: str) -> str:
    found = await plane.get(kind, name)
    return str(found.status.phase)  # type: ignore[attr-defined]  # only asked of kinds with a phase


@pytest.mark.parametrize(
    "bodies",
    [
        pytest.param([NOW, volume(), claim()], id="the volume is there first"),
        pytest.param([NOW, claim(), volume()], id="the claim is there first"),
        pytest.param([claim(), volume(), NOW], id="the class comes last"),
        pytest.param([volume(claim_ref=claim_ref()), claim()], id="the volume is reserved by name"),
        pytest.param([claim(volume="volume-1"), volume()], id="the claim names the volume"),
    ],
)
@pytest.mark.req("T5.static", "T42.PC1")
def test_pair_is_bound_at_once(bodies: list[Body]) -> None:
    async def scenario(plane: Plane) -> None:
        for body in bodies:
            kind = {"PersistentVolume": VOLUME, "StorageClass": STORAGE_CLASS}.get(body["kind"], CLAIM)
            await plane.create(kind, body)
            await plane.pass_time(0.1)
        await plane.until(lambda: _bound(plane, "claim-1"), within=SOON)
        bound = await plane.get(CLAIM, "claim-1")
        assert bound.spec.volume_name == "volume-1"
        assert bound.status.capacity == {"storage": "10Gi"}
        assert await _phase(plane, VOLUME, "volume-1") == "Bound"

    run_plane(CONTROLLER, scenario)


@pytest.mark.req("T5.at-once")
def test_many_waiting_claims_are_served_as_volumes_come() -> None:
    names = [f"claim-{number}" for number in range(30)]

    async def scenario(plane: Plane) -> None:
        await plane.create(STORAGE_CLASS, NOW)
        for name in names:
            await plane.create(CLAIM, claim(name=name))
        await plane.pass_time(0.1)
        for name in names:
            await plane.create(VOLUME, volume(name=name.replace("claim", "volume")))
        await plane.until(lambda: _bound(plane, *names), within=SOON)
        used = [(await plane.get(CLAIM, name)).spec.volume_name for name in names]
        assert len(set(used)) == len(names)

    run_plane(CONTROLLER, scenario)


@pytest.mark.req("T5.at-once")
def test_claim_that_was_served_can_be_called_again() -> None:
    async def scenario(plane: Plane) -> None:
        for number in (1, 2):
            await plane.create(CLAIM, claim())
            await plane.pass_time(0.1)
            await plane.create(VOLUME, volume(name=f"volume-{number}"))
            await plane.until(lambda: _bound(plane, "claim-1"), within=SOON)
            assert (await plane.get(CLAIM, "claim-1")).spec.volume_name == f"volume-{number}"
            await _really_delete(plane, CLAIM, "claim-1")

    run_plane(CONTROLLER, scenario)


@pytest.mark.req("T6.event", "T46.first-consumer")
def test_delayed_claim_says_what_it_waits_for() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(STORAGE_CLASS, WAIT)
        await plane.create(VOLUME, volume(storage_class="wait"))
        await plane.create(CLAIM, claim(storage_class="wait"))
        await plane.pass_time(1.0)
        first = "WaitForFirstConsumer: waiting for first consumer to be created before binding"
        assert await plane.events_about("claim-1") == [first]
        await plane.create(POD, pod_body(claims=["claim-1"]))
        await plane.pass_time(1.0)
        assert await plane.events_about("claim-1") == [
            first,
            "WaitForPodScheduled: waiting for pod pod-1 to be scheduled",
        ]
        await plane.pass_time(HOUR)
        assert await _phase(plane, CLAIM, "claim-1") == "Pending"
        assert await _phase(plane, VOLUME, "volume-1") == "Available"

    run_plane(CONTROLLER, scenario)


@pytest.mark.req("T42.PC9")
def test_default_class_that_comes_later_is_assigned_at_once() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(CLAIM, claim(storage_class=None))
        await plane.pass_time(1.0)
        await plane.create(STORAGE_CLASS, class_body(name="gold", default=True))
        await plane.pass_time(1.0)
        assert (await plane.get(CLAIM, "claim-1")).storage_class == "gold"

    run_plane(CONTROLLER, scenario)


@pytest.mark.req("T42.PC3", "T42.PC11", "T42.PC16")
def test_halves_of_a_pair_that_go_away() -> None:
    async def scenario(plane: Plane) -> None:
        for number in (1, 2):
            await plane.create(CLAIM, claim(name=f"claim-{number}"))
            await plane.create(VOLUME, volume(name=f"volume-{number}", claim_ref=claim_ref(name=f"claim-{number}")))
        await plane.until(lambda: _bound(plane, "claim-1", "claim-2"))
        await _really_delete(plane, CLAIM, "claim-1")
        await _really_delete(plane, VOLUME, "volume-2")
        await plane.pass_time(1.0)
        assert await _phase(plane, VOLUME, "volume-1") == "Released"
        assert await _phase(plane, CLAIM, "claim-2") == "Lost"
        assert (await plane.events_about("claim-2"))[-1].startswith(
            "ClaimLost: Bound claim has lost its PersistentVolume"
        )

    run_plane(CONTROLLER, scenario)


@pytest.mark.req("T42.PC16")
def test_volume_reserved_for_a_claim_that_vanished_half_way_is_released() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(VOLUME, volume(claim_ref=claim_ref(uid="never-there")))
        await plane.pass_time(1.0)
        assert await _phase(plane, VOLUME, "volume-1") == "Released"

    run_plane(CONTROLLER, scenario)


async def _really_delete(plane: Plane, kind: Kind[ApiObject], name: str) -> None:
    """Without protection, which another component takes off."""
    namespace = "default" if kind.namespaced else ""
    await plane.client.delete(kind, name, namespace=namespace)
    await plane.client.patch(kind, name, MergePatch({"metadata": {"finalizers": None}}), namespace=namespace)


class _SlowVolumes(LocalClient):
    """Shows claims at once and volumes only after a minute: two watches that are not equally far."""

    async def watch(
        self, kind: Kind[V], *, after: str | None, namespace: str = "", labels: str = "", fields: str = ""
    ) -> AsyncGenerator[WatchEvent[V], None]:
        stream = super().watch(kind, after=after, namespace=namespace, labels=labels, fields=fields)
        async with aclosing(stream) as events:
            async for event in events:
                if kind is VOLUME and not event.initial_end:
                    await asyncio.sleep(60.0)
                yield event


@pytest.mark.req("T42.PC11")
def test_a_late_watch_causes_no_claim_lost_event() -> None:
    restored = claim(volume="volume-1", annotations={well_known.BIND_COMPLETED: well_known.ANNOTATION_SET})

    async def scenario(plane: Plane) -> None:
        await plane.create(VOLUME, volume())
        await plane.create(CLAIM, restored)
        await plane.pass_time(30.0)
        assert await _phase(plane, CLAIM, "claim-1") == "Pending"
        await plane.until(lambda: _bound(plane, "claim-1"), within=300.0)
        assert await plane.events_about("claim-1") == []

    run_plane(CONTROLLER, scenario, client=_SlowVolumes)


@pytest.mark.req("T42.PC12")
def test_lost_answers_do_no_harm() -> None:
    names = [f"claim-{number}" for number in range(12)]

    async def scenario(plane: Plane) -> None:
        await plane.create(STORAGE_CLASS, NOW)
        for name in names:
            await plane.create(CLAIM, claim(name=name))
            await plane.create(VOLUME, volume(name=name.replace("claim", "volume")))
        await plane.until(lambda: _bound(plane, *names))
        listing = await plane.client.list(VOLUME)
        owners = [v.spec.claim_ref.uid for v in listing.items if v.spec.claim_ref is not None]
        assert len(set(owners)) == len(names)
        assert {v.status.phase for v in listing.items} == {"Bound"}

    run_plane(CONTROLLER, scenario, client=flaky(0.4))


@pytest.mark.req("T42.PC1")
def test_cluster_at_rest_is_left_alone() -> None:
    """Claims that wait, a pair, a volume without a deleter: after an hour every one has the version it had before."""

    async def scenario(plane: Plane) -> None:
        await plane.create(STORAGE_CLASS, NOW)
        await plane.create(STORAGE_CLASS, WAIT)
        await plane.create(CLAIM, claim(name="pair"))
        await plane.create(VOLUME, volume())
        await plane.create(CLAIM, claim(name="delayed", storage_class="wait"))
        await plane.create(CLAIM, claim(name="too-large", size="900Gi"))
        await plane.create(CLAIM, claim(name="elsewhere", volume="volume-1"))
        await plane.create(VOLUME, volume(name="doomed", reclaim="Delete", claim_ref=claim_ref(uid="gone")))
        await plane.pass_time(1.0)
        before = [await plane.client.list(VOLUME), await plane.client.list(CLAIM)]
        assert await _phase(plane, VOLUME, "doomed") == "Failed"
        await plane.pass_time(HOUR)
        after = [await plane.client.list(VOLUME), await plane.client.list(CLAIM)]
        assert [listing.items for listing in after] == [listing.items for listing in before]

    run_plane(CONTROLLER, scenario)


class _WithoutClaims(LocalClient):
    """The watch of claims stands still: the server has claims that the controller has not seen."""

    async def watch(
        self, kind: Kind[V], *, after: str | None, namespace: str = "", labels: str = "", fields: str = ""
    ) -> AsyncGenerator[WatchEvent[V], None]:
        stream = super().watch(kind, after=after, namespace=namespace, labels=labels, fields=fields)
        async with aclosing(stream) as events:
            async for event in events:
                if kind is not CLAIM or event.initial_end:
                    yield event


async def _bound_pair(plane: Plane) -> None:
    await plane.create(STORAGE_CLASS, NOW)
    found = await plane.create(CLAIM, claim(volume="volume-1", bound=True))
    made_for = {well_known.PROVISIONED_BY: "csi.example.com"}
    reference = claim_ref(uid=found.uid)
    await plane.create(VOLUME, volume(reclaim="Delete", claim_ref=reference, annotations=made_for))
    await plane.client.patch(VOLUME, "volume-1", MergePatch({"status": {"phase": "Bound"}}), subresource="status")


@pytest.mark.req("T42.PC15", "T42.PC38")
def test_volume_of_a_claim_that_only_the_server_knows_is_not_released() -> None:
    async def scenario(plane: Plane) -> None:
        await _bound_pair(plane)
        await plane.pass_time(2 * RESYNC_SECONDS)
        assert await _phase(plane, VOLUME, "volume-1") == "Bound"

    run_plane(CONTROLLER, scenario, client=_WithoutClaims)
