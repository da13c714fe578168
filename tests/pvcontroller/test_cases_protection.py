"""Kubernetes' tables for protection: volumes, claims, the condition `Unused`, and pods that come and go."""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from mooring.api import well_known
from mooring.api.errors import ServerTimeout
from mooring.api.kinds import CLAIM, NAMESPACE, POD, VOLUME, Kind
from mooring.api.patches.contract import MergePatch, Patch
from mooring.api.views.meta import ApiObject, Condition
from mooring.api.views.storage import Claim
from mooring.client.contract import ObjectList, V
from mooring.cluster.local_client import LocalClient
from mooring.control.component import Context
from mooring.control.feature_gates import parse_feature_gates
from mooring.pvcontroller import protection
from mooring.pvcontroller.protection import VolumeProtection
from mooring.volumes.claim_rollback import CLEAN
from support.builders import Body, a_claim, a_pod, claim_body, pod_body, volume_body
from support.partial_control_plane import Plane, run_plane

BARE = MergePatch({"metadata": {"finalizers": None}})
PROTECTION = [VolumeProtection]


class Counting(LocalClient):
    """Counts lists of pods and patches, and refuses the first so many of both."""

    patches_to_fail = 0
    lists_to_fail = 0
    lists = 0
    patched = 0

    async def patch(self, kind: Kind[V], name: str, patch: Patch, *, namespace: str = "", subresource: str = "") -> V:
        if type(self).patches_to_fail:
            type(self).patches_to_fail -= 1
            raise ServerTimeout("not now")
        type(self).patched += 1
        return await super().patch(kind, name, patch, namespace=namespace, subresource=subresource)

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> ObjectList[V]:
        if kind is POD and namespace:
            type(self).lists += 1
            if type(self).lists_to_fail:
                type(self).lists_to_fail -= 1
                raise ServerTimeout("not now")
        return await super().list(kind, namespace=namespace, labels=labels, fields=fields)


def counting(*, patches: int = 0, lists: int = 0) -> type[Counting]:
    """A client of its own for one test."""
    return type("Counting", (Counting,), {"patches_to_fail": patches, "lists_to_fail": lists, "lists": 0, "patched": 0})


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
        assert await _finalizers(plane, VOLUME, "bare") == (well_known.PV_PROTECTION,)
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
            assert found.metadata.finalizers == (well_known.PVC_PROTECTION,)
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


# The condition.


def without_gate(context: Context) -> VolumeProtection:
    return VolumeProtection(
        dataclasses.replace(context, gates=parse_feature_gates("PersistentVolumeClaimUnusedSinceTime=false"))
    )


async def _bind(plane: Plane, name: str = "claim-1", *more: Body) -> None:
    """What the PV controller writes last, with other conditions."""
    status = MergePatch({"status": {"phase": "Bound", "conditions": list(more) or None}})
    await plane.client.patch(CLAIM, name, status, namespace="default", subresource="status")


async def _bound_claim(plane: Plane, name: str = "claim-1") -> None:
    await plane.create(CLAIM, claim_body(name=name))
    await _bind(plane, name)


async def _condition(plane: Plane, kind: str = protection.UNUSED_CONDITION) -> Condition | None:
    conditions = (await plane.get(CLAIM, "claim-1")).status.conditions
    return next((one for one in conditions if one.type == kind), None)


async def _unused(plane: Plane) -> str | None:
    condition = await _condition(plane)
    return None if condition is None else condition.status


USER = partial(pod_body, claims=["claim-1"])


@pytest.mark.parametrize(
    ("pod", "unused"),
    [
        pytest.param(None, "True", id="no pod"),
        pytest.param(USER(node="n", phase="Running"), "False", id="a running pod"),
        pytest.param(USER(), "False", id="a pod without a node"),
        pytest.param(USER(node="n", phase="Succeeded"), "True", id="only a pod that succeeded"),
        pytest.param(USER(node="n", phase="Failed"), "True", id="only a pod that failed"),
        pytest.param(
            pod_body(name="claim", ephemeral=["1"]), "True", id="an ephemeral volume of that name, of another owner"
        ),
    ],
)
@pytest.mark.parametrize("failures", [pytest.param(0, id="at once"), pytest.param(2, id="fails twice")])
@pytest.mark.req("T42.PC37")
def test_unused(pod: Body | None, unused: str, failures: int) -> None:
    async def scenario(plane: Plane) -> None:
        if pod is not None:
            await _start(plane, pod)
        await _bound_claim(plane)
        client.patches_to_fail = failures
        await plane.pass_time(5.0)
        assert await _unused(plane) == unused
        before = await plane.get(CLAIM, "claim-1")
        await plane.pass_time()
        assert await plane.get(CLAIM, "claim-1") == before, "said once"

    client = counting()
    run_plane([VolumeProtection], scenario, client=client)


@pytest.mark.req("T42.PC37")
def test_unused_has_the_words_of_kube_controller_manager() -> None:
    async def scenario(plane: Plane) -> None:
        await _bound_claim(plane)
        await plane.pass_time(1.0)
        first = await _condition(plane)
        assert first is not None
        assert (first.reason, first.message) == ("NoPodsUsingPVC", "No pods are currently referencing this PVC")
        await plane.pass_time(60.0)
        await _start(plane, USER())
        await plane.pass_time(1.0)
        second = await _condition(plane)
        assert second is not None
        assert (second.reason, second.message) == ("PodUsingPVC", "A pod is currently referencing this PVC")
        assert str(first.last_transition_time) < str(second.last_transition_time)

    run_plane([VolumeProtection], scenario)


@pytest.mark.req("T42.PC37")
def test_unused_of_a_claim_with_a_pending_pod() -> None:
    """Absent while the claim is Pending, False at the first look after Bound, True after the pod; `Clean` stays."""
    clean = {"type": CLEAN, "status": "True", "reason": "NeverUsed", "message": "", "lastTransitionTime": None}

    async def scenario(plane: Plane) -> None:
        await plane.create(CLAIM, claim_body())
        await _start(plane, USER())
        await plane.pass_time(5.0)
        assert await _condition(plane) is None
        await _bind(plane, "claim-1", clean)
        await plane.pass_time(1.0)
        assert await _unused(plane) == "False"
        assert await _condition(plane, CLEAN) is not None
        await plane.client.delete(POD, "pod-1", namespace="default", grace_seconds=0)
        await plane.pass_time(1.0)
        assert await _unused(plane) == "True"
        assert await _condition(plane, CLEAN) is not None

    run_plane([VolumeProtection], scenario)


@pytest.mark.req("T42.PC37")
def test_unused_follows_the_pods() -> None:
    async def scenario(plane: Plane) -> None:
        await _bound_claim(plane)
        await plane.pass_time(1.0)
        assert await _unused(plane) == "True"
        for name in ("one", "two"):
            await _start(plane, USER(name=name, node="n", phase="Running"))
        await plane.pass_time(1.0)
        assert await _unused(plane) == "False"
        await plane.client.delete(POD, "one", namespace="default", grace_seconds=0)
        await plane.pass_time(1.0)
        assert await _unused(plane) == "False", "the other uses it still"
        await plane.client.delete(POD, "two", namespace="default", grace_seconds=0)
        await plane.pass_time(1.0)
        assert await _unused(plane) == "True"

    run_plane([VolumeProtection], scenario)


@pytest.mark.req("T42.PC37")
def test_unused_costs_one_write_per_change_and_one_list_for_many_claims() -> None:
    client = counting()

    async def scenario(plane: Plane) -> None:
        for number in range(20):
            await plane.create(CLAIM, claim_body(name=f"claim-{number}"))
            await _bind(plane, f"claim-{number}")
        client.lists = client.patched = 0
        await plane.pass_time(5.0)
        assert (client.patched, client.lists) == (20, 1)
        await _start(plane, USER(node="n", phase="Running"))
        await plane.pass_time(5.0)
        for value in "ab":
            label = MergePatch({"metadata": {"labels": {"a": value}}})
            await plane.client.patch(POD, "pod-1", label, namespace="default")
        client.lists = client.patched = 0
        await plane.pass_time(60.0)
        assert (client.patched, client.lists) == (0, 0), "pods that change in other ways cost nothing"

    run_plane([VolumeProtection], scenario, client=client)


@pytest.mark.req("T42.PC37")
def test_unused_asks_the_server_before_it_says_so() -> None:
    async def scenario(plane: Plane) -> None:
        await _start(plane, USER(node="n", phase="Running"))
        await _bound_claim(plane)
        await plane.pass_time(5.0)
        assert await _unused(plane) == "False"

    run_plane([VolumeProtection], scenario, client=_Blind)


@pytest.mark.req("T42.PC37")
def test_condition_is_not_written_without_the_gate() -> None:
    async def scenario(plane: Plane) -> None:
        await _bound_claim(plane)
        await plane.pass_time(5.0)
        assert await _condition(plane) is None

    run_plane([without_gate], scenario)


@pytest.mark.req("T42.PC37")
def test_used_claim_without_protection_gets_both() -> None:
    async def scenario(plane: Plane) -> None:
        await _bound_claim(plane)
        await _start(plane, USER(node="n", phase="Running"))
        await plane.client.patch(CLAIM, "claim-1", BARE, namespace="default")
        await plane.pass_time(5.0)
        assert await _unused(plane) == "False"
        assert await _finalizers(plane, CLAIM, "claim-1") == (well_known.PVC_PROTECTION,)
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        await plane.pass_time(5.0)
        assert (await plane.get(CLAIM, "claim-1")).deleting, "it is used still"

    run_plane([VolumeProtection], scenario)


RUNNING = {"state": {"running": {}}}


@pytest.mark.parametrize(
    ("statuses", "used"),
    [
        pytest.param([RUNNING], True, id="a container still runs"),
        pytest.param([{"state": {"terminated": {"exitCode": 0}}}, {"state": {"waiting": {}}}], False, id="none runs"),
        pytest.param([], False, id="none ever ran"),
    ],
)
@pytest.mark.req("T42.PC37")
def test_a_pod_that_is_being_deleted_uses_its_claims_while_a_container_runs(statuses: list[Body], used: bool) -> None:
    pod = a_pod(claims=["claim-1"], node="n", deleting=True, more_status={"containerStatuses": statuses})
    assert protection.is_used(a_claim(), [pod]) is used


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.req("T42.PC37")
def test_deleted_claim_keeps_its_condition(used: bool) -> None:
    claim: Claim = a_claim(volume="v", bound=True, deleting=True)
    assert protection.is_reported(claim, used=used)
    assert not protection.is_reported(a_claim(volume="v", bound=True), used=used)
