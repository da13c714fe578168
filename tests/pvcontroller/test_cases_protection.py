"""Kubernetes' tables for protection: volumes, claims, the condition `Unused`, and pods that come and go."""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from builders import Body, a_claim, a_pod, claim_body, pod_body, volume_body
from mooring.api import keys
from mooring.api.errors import ServerTimeout
from mooring.api.kinds import CLAIM, NAMESPACE, POD, VOLUME, Kind
from mooring.api.patches.contract import MergePatch, Patch
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Listing, V
from mooring.cluster.local_client import LocalClient
from mooring.control.component import Context
from mooring.control.feature_gates import parse
from mooring.pvcontroller import unused
from mooring.pvcontroller.protection import VolumeProtection
from partial_plane import Plane, run_plane

BARE = MergePatch({"metadata": {"finalizers": None}})
PROTECTION = [VolumeProtection]


class Counting(LocalClient):
    """Counts lists of pods, and refuses the first so many patches and lists."""

    patches_to_fail = 0
    lists_to_fail = 0
    lists = 0

    async def patch(self, kind: Kind[V], name: str, patch: Patch, *, namespace: str = "", subresource: str = "") -> V:
        if type(self).patches_to_fail:
            type(self).patches_to_fail -= 1
            raise ServerTimeout("not now")
        return await super().patch(kind, name, patch, namespace=namespace, subresource=subresource)

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> Listing[V]:
        if kind is POD and namespace:
            type(self).lists += 1
            if type(self).lists_to_fail:
                type(self).lists_to_fail -= 1
                raise ServerTimeout("not now")
        return await super().list(kind, namespace=namespace, labels=labels, fields=fields)


def counting(*, patches: int = 0, lists: int = 0) -> type[Counting]:
    """A client of its own for one test."""
    return type("Counting", (Counting,), {"patches_to_fail": patches, "lists_to_fail": lists, "lists": 0})


async def _start(plane: Plane, body: Body) -> None:
    """Create a pod and bring it into the phase it has; a server gives new pods their own."""
    await plane.create(POD, body)
    phase = MergePatch({"status": {"phase": body["status"]["phase"]}})
    await plane.client.patch(POD, body["metadata"]["name"], phase, namespace="default", subresource="status")


async def _finalizers(plane: Plane, kind: Kind[ApiObject], name: str) -> tuple[str, ...]:
    return (await plane.get(kind, name)).metadata.finalizers


@pytest.mark.parametrize("failures", [pytest.param(0, id="at once"), pytest.param(2, id="fails twice")])
@pytest.mark.req("T42.PC34", "T42.PC35")
def test_volumes(failures: int) -> None:
    """Without the finalizer: added. Deleted: removed, but not from a bound one."""
    client = counting()

    async def scenario(plane: Plane) -> None:
        for name in ("bare", "deleted", "bound"):
            await plane.create(VOLUME, volume_body(name=name, node="node-1"))
        bound = MergePatch({"status": {"phase": "Bound"}})
        await plane.client.patch(VOLUME, "bound", bound, subresource="status")
        client.patches_to_fail = failures
        await plane.client.patch(VOLUME, "bare", BARE)
        await plane.pass_time(5.0)
        assert await _finalizers(plane, VOLUME, "bare") == (keys.PV_PROTECTION,)
        client.patches_to_fail = failures
        for name in ("deleted", "bound"):
            await plane.client.delete(VOLUME, name)
        await plane.pass_time(5.0)
        assert await plane.names(VOLUME) == ["bare", "bound"]

    run_plane(PROTECTION, scenario, client=client)


@pytest.mark.parametrize("failures", [pytest.param(0, id="at once"), pytest.param(2, id="fails twice")])
@pytest.mark.req("T42.PC34", "T42.PC36")
def test_claims_of_two_namespaces(failures: int) -> None:
    """Without the finalizer: added to each. Deleted and unused: one list of pods and one removal in each."""
    client = counting()

    async def scenario(plane: Plane) -> None:
        await plane.create(NAMESPACE, {"metadata": {"name": "other"}})
        for namespace in ("default", "other"):
            await plane.create(CLAIM, claim_body(namespace=namespace))
            client.patches_to_fail = failures
            await plane.client.patch(CLAIM, "claim-1", BARE, namespace=namespace)
        await plane.pass_time(5.0)
        for namespace in ("default", "other"):
            found = await plane.get(CLAIM, "claim-1", namespace=namespace)
            assert found.metadata.finalizers == (keys.PVC_PROTECTION,)
        client.lists_to_fail = failures
        for namespace in ("default", "other"):
            await plane.client.delete(CLAIM, "claim-1", namespace=namespace)
        await plane.pass_time(5.0)
        assert await plane.names(CLAIM) == []
        assert client.lists == 2 + failures

    run_plane(PROTECTION, scenario, client=client)


@pytest.mark.req("T42.PC36")
def test_removals_that_fail_are_tried_again_for_each_claim() -> None:
    client = counting()

    async def scenario(plane: Plane) -> None:
        for number in range(3):
            await plane.create(CLAIM, claim_body(name=f"claim-{number}"))
        await plane.pass_time(1.0)
        client.patches_to_fail = 4
        for number in range(3):
            await plane.client.delete(CLAIM, f"claim-{number}", namespace="default")
        await plane.pass_time(5.0)
        assert await plane.names(CLAIM) == []

    run_plane(PROTECTION, scenario, client=client)


@pytest.mark.req("T42.PC36")
def test_one_list_of_pods_serves_all_claims_of_a_namespace() -> None:
    client = counting()

    async def scenario(plane: Plane) -> None:
        for number in range(40):
            await plane.create(CLAIM, claim_body(name=f"claim-{number}"))
        for number in range(40):
            await plane.client.delete(CLAIM, f"claim-{number}", namespace="default")
        await plane.pass_time(5.0)
        assert await plane.names(CLAIM) == []
        assert client.lists < 10, "as many as there were batches"

    run_plane(PROTECTION, scenario, client=client)


class _Blind(LocalClient):
    """Its watches show no pods; asked, it knows them."""

    def watch(self, kind: Kind[V], **options: Any) -> Any:  # noqa: ANN401  # passes on what the contract says
        return super().watch(kind, **options | ({"labels": "shown=never"} if kind is POD else {}))


@pytest.mark.parametrize(
    ("pod", "blind", "kept", "lists"),
    [
        pytest.param({"claims": ["claim-1"], "node": "n"}, False, True, 0, id="a scheduled pod uses it: no list"),
        pytest.param({"claims": ["other"], "node": "n"}, False, False, 1, id="a pod uses another"),
        pytest.param(
            {"claims": ["claim-1"], "node": "n", "phase": "Failed"}, False, True, 0, id="a failed pod used it"
        ),
        pytest.param({"claims": ["claim-1"], "node": "n"}, True, True, None, id="only the server knows the pod"),
        pytest.param({"claims": ["claim-1"]}, False, False, 1, id="a pod without a node wants it"),
    ],
)
@pytest.mark.req("T42.PC36")
def test_deleted_claim(pod: Mapping[str, Any], blind: bool, kept: bool, lists: int | None) -> None:
    client = counting()
    kind: type[LocalClient] = type("Blind", (_Blind, client), {}) if blind else client

    async def scenario(plane: Plane) -> None:
        await plane.create(CLAIM, claim_body())
        await _start(plane, pod_body(**pod))
        await plane.pass_time(1.0)
        client.lists = 0
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        await plane.pass_time(5.0)
        assert (await plane.names(CLAIM) == ["claim-1"]) == kept
        assert lists is None or client.lists == lists

    run_plane(PROTECTION, scenario, client=kind)


@pytest.mark.parametrize(
    ("created", "change", "kept"),
    [
        pytest.param({"node": "n", "phase": "Running"}, "label", True, id="a running pod changes"),
        pytest.param({"node": "n", "phase": "Succeeded"}, "label", True, id="a finished pod changes"),
        pytest.param({}, "label", False, id="a pod without a node changes"),
        pytest.param({"node": "n", "phase": "Running"}, "delete", False, id="a running pod goes"),
        pytest.param({}, "bind", True, id="a pod gets its node"),
        pytest.param({"node": "n", "phase": "Running"}, "replace", False, id="replaced by one that does not use it"),
        pytest.param({"node": "n", "phase": "Running"}, "replace alike", True, id="replaced by one that uses it"),
    ],
)
@pytest.mark.req("T42.PC37")
def test_pods_that_come_and_go(created: Mapping[str, Any], change: str, kept: bool) -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(CLAIM, claim_body())
        body = pod_body(claims=["claim-1"], **created)
        await _start(plane, body)
        if change == "bind":
            await plane.client.bind("pod-1", namespace="default", uid="", node="n")
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        if change == "label":
            label = MergePatch({"metadata": {"labels": {"a": "b"}}})
            await plane.client.patch(POD, "pod-1", label, namespace="default")
        if change in ("delete", "replace", "replace alike"):
            await plane.client.delete(POD, "pod-1", namespace="default", grace_seconds=0)
        if change == "replace":
            await plane.create(POD, pod_body(node="n"))
        if change == "replace alike":
            await plane.create(POD, body)
        await plane.pass_time(5.0)
        assert (await plane.names(CLAIM) == ["claim-1"]) == kept

    run_plane(PROTECTION, scenario)


# The condition, with its gate.


def with_gate(context: Context) -> VolumeProtection:
    return VolumeProtection(dataclasses.replace(context, gates=parse("PersistentVolumeClaimUnusedSinceTime=true")))


async def _told(plane: Plane) -> str | None:
    conditions = (await plane.get(CLAIM, "claim-1")).status.conditions
    return next((one.status for one in conditions if one.type == unused.TYPE), None)


USER = partial(pod_body, claims=["claim-1"])


@pytest.mark.parametrize(
    ("pod", "told"),
    [
        pytest.param(None, "True", id="unused"),
        pytest.param(USER(node="n", phase="Running"), "False", id="a running pod"),
        pytest.param(USER(), "False", id="a pod without a node"),
        pytest.param(USER(node="n", phase="Succeeded"), "True", id="only a pod that succeeded"),
        pytest.param(USER(node="n", phase="Failed"), "True", id="only a pod that failed"),
    ],
)
@pytest.mark.parametrize("failures", [pytest.param(0, id="at once"), pytest.param(2, id="fails twice")])
@pytest.mark.req("T42.PC37")
def test_unused(pod: Body | None, told: str, failures: int) -> None:
    client = counting(patches=failures)

    async def scenario(plane: Plane) -> None:
        if pod is not None:
            await _start(plane, pod)
        await plane.create(CLAIM, claim_body())
        await plane.pass_time(5.0)
        assert await _told(plane) == told
        before = await plane.get(CLAIM, "claim-1")
        await plane.pass_time()
        assert await plane.get(CLAIM, "claim-1") == before, "said once"

    run_plane([with_gate], scenario, client=client)


@pytest.mark.req("T42.PC37")
def test_unused_follows_the_pods() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(CLAIM, claim_body())
        await plane.pass_time(1.0)
        assert await _told(plane) == "True"
        for name in ("one", "two"):
            await _start(plane, USER(name=name, node="n", phase="Running"))
        await plane.pass_time(1.0)
        assert await _told(plane) == "False"
        await plane.client.delete(POD, "one", namespace="default", grace_seconds=0)
        await plane.pass_time(1.0)
        assert await _told(plane) == "False", "the other uses it still"
        await plane.client.delete(POD, "two", namespace="default", grace_seconds=0)
        await plane.pass_time(1.0)
        assert await _told(plane) == "True"

    run_plane([with_gate], scenario)


@pytest.mark.req("T42.PC37")
def test_unused_asks_the_server_before_it_says_so() -> None:
    async def scenario(plane: Plane) -> None:
        await _start(plane, USER(node="n", phase="Running"))
        await plane.create(CLAIM, claim_body())
        await plane.pass_time(5.0)
        assert await _told(plane) == "False"

    run_plane([with_gate], scenario, client=_Blind)


@pytest.mark.req("T42.PC37")
def test_without_the_gate_nothing_is_said() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(CLAIM, claim_body())
        await plane.pass_time(5.0)
        assert await _told(plane) is None

    run_plane(PROTECTION, scenario)


@pytest.mark.req("T42.PC37")
def test_used_claim_without_protection_gets_both() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(CLAIM, claim_body())
        await _start(plane, USER(node="n", phase="Running"))
        await plane.client.patch(CLAIM, "claim-1", BARE, namespace="default")
        await plane.pass_time(5.0)
        assert await _told(plane) == "False"
        assert await _finalizers(plane, CLAIM, "claim-1") == (keys.PVC_PROTECTION,)
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        await plane.pass_time(5.0)
        assert (await plane.get(CLAIM, "claim-1")).deleting, "it is used still"

    run_plane([with_gate], scenario)


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.req("T42.PC37")
def test_deleted_claim_keeps_what_was_said(used: bool) -> None:
    claim: Claim = a_claim(deleting=True)
    assert unused.is_told(claim, used=used)
    assert not unused.is_told(a_claim(), used=used)
    assert unused.is_used([a_pod()]), "for this a pod needs no node"
