"""The server's own guard: a claim loses its volume only if it is clean, marked, and the one who asks may unbind it."""

import random
from typing import Any

import pytest

from builders import claim_body, pod_body
from mooring.api import keys
from mooring.api.errors import ApiError, Forbidden, Invalid
from mooring.api.kinds import CLAIM, POD
from mooring.api.patches.contract import JsonPatch, MergePatch, Patch
from mooring.server.api import ApiServer
from mooring.server.authorization.policy import rule
from mooring.server.contract import Target, User, WriteOptions
from mooring.server.security import Security
from mooring.volumes.clean_claims import CLEAN, ROLLBACK, clean, dirty
from server.harness import Harness, decoded
from server.policies import Policy

NOW = "2026-01-02T03:04:05Z"
CONTROLLER = User("controller", ("system:authenticated",))
IMMUTABLE = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
TARGET = Target(CLAIM, "default", "claim-1")
STATUS = Target(CLAIM, "default", "claim-1", "status")
CLEARED = MergePatch({"spec": {"volumeName": None}})
MARKED = MergePatch({"metadata": {"annotations": {ROLLBACK: keys.YES}}})


class Guarded:
    """A claim, and a controller that may do with claims what the test says."""

    def __init__(self, server: Harness, *, gate: bool = True, verbs: str = "patch unbind") -> None:
        self._server = server
        policy = Policy(defaults=False)
        policy.grant("controller", rule(verbs, "persistentvolumeclaims persistentvolumeclaims/status"))
        self.api = ApiServer(server.store, server.clock, random.Random(1), Security(policy), claim_rollback=gate)

    async def bound(self, *, is_clean: bool = True, is_marked: bool = True) -> "Guarded":
        await self._server.create(CLAIM, claim_body())
        if is_clean:
            await self.patch(MergePatch({"status": {"conditions": [clean(now=NOW)]}}), STATUS)
        await self.patch(MergePatch({"spec": {"volumeName": "volume-1"}}))
        await self.patch(MergePatch({"status": {"phase": "Bound"}}), STATUS)
        if is_marked:
            await self.patch(MARKED)
        return self

    async def patch(self, patch: Patch, target: Target = TARGET) -> dict[str, Any]:
        return decoded((await self.api.patch(CONTROLLER, target, patch, WriteOptions())).body)

    async def refused(self, kind: type[ApiError], patch: Patch = CLEARED, target: Target = TARGET) -> str:
        with pytest.raises(kind) as refusal:
            await self.patch(patch, target)
        return refusal.value.message


@pytest.mark.req("T40")
async def test_a_clean_claim_that_is_marked_may_lose_its_volume(server: Harness) -> None:
    claim = await (await Guarded(server).bound()).patch(CLEARED)
    assert "volumeName" not in claim["spec"]


@pytest.mark.req("T40")
@pytest.mark.parametrize(
    ("is_clean", "is_marked"),
    [
        pytest.param(False, True, id="not clean"),
        pytest.param(True, False, id="not marked"),
        pytest.param(False, False, id="neither"),
    ],
)
async def test_all_others_keep_it_in_upstreams_words(server: Harness, is_clean: bool, is_marked: bool) -> None:
    guarded = await Guarded(server).bound(is_clean=is_clean, is_marked=is_marked)
    assert IMMUTABLE in await guarded.refused(Invalid)


@pytest.mark.req("T40")
async def test_a_claim_that_became_dirty_meanwhile_keeps_it(server: Harness) -> None:
    guarded = await Guarded(server).bound()
    await guarded.patch(MergePatch({"status": {"conditions": [dirty("default/p", "n1", now=NOW)]}}), STATUS)
    assert IMMUTABLE in await guarded.refused(Invalid)


@pytest.mark.req("T40")
async def test_a_claim_that_is_marked_by_the_very_write_keeps_it(server: Harness) -> None:
    guarded = await Guarded(server).bound(is_marked=False)
    both = MergePatch({"metadata": {"annotations": {ROLLBACK: keys.YES}}, "spec": {"volumeName": None}})
    assert IMMUTABLE in await guarded.refused(Invalid, both)


@pytest.mark.req("T40", "T31")
async def test_without_the_gate_nobody_may(server: Harness) -> None:
    assert IMMUTABLE in await (await Guarded(server, gate=False).bound()).refused(Invalid)


@pytest.mark.req("T40", "T32")
async def test_the_right_to_write_claims_is_not_enough(server: Harness) -> None:
    guarded = await Guarded(server, verbs="patch update").bound()
    assert await guarded.refused(Forbidden) == (
        'persistentvolumeclaims "claim-1" is forbidden: user "controller" may not unbind claims'
    )


@pytest.mark.req("T40")
@pytest.mark.parametrize(
    "patch",
    [
        pytest.param(MergePatch({"spec": {"volumeName": "volume-2"}}), id="another volume"),
        pytest.param(
            MergePatch({"spec": {"volumeName": None, "storageClassName": "other"}}), id="another class as well"
        ),
        pytest.param(
            JsonPatch([{"op": "replace", "path": "/spec/accessModes", "value": ["ReadOnlyMany"]}]), id="access modes"
        ),
    ],
)
async def test_nothing_else_of_the_spec_becomes_mutable(server: Harness, patch: Patch) -> None:
    assert IMMUTABLE in await (await Guarded(server).bound()).refused(Invalid, patch)


@pytest.mark.req("T40")
@pytest.mark.parametrize(
    ("status", "allowed"),
    [
        pytest.param({}, False, id="a pod its node has not looked at"),
        pytest.param({"phase": "Running"}, False, id="a running pod"),
        pytest.param({"phase": "Failed", "reason": "OutOfcpu"}, True, id="a pod that its node refused"),
        pytest.param(
            {"phase": "Succeeded", "containerStatuses": [{"name": "main"}]}, False, id="a pod that ran to its end"
        ),
    ],
)
async def test_a_pod_that_may_have_used_it_keeps_it(server: Harness, status: dict[str, Any], allowed: bool) -> None:
    guarded = await Guarded(server).bound()
    await server.create(POD, pod_body(claims=["claim-1"], node="n1"))
    target = Target(POD, "default", "pod-1", "status")
    await server.api.patch(User("n1", ("system:masters",)), target, MergePatch({"status": status}), WriteOptions())
    if allowed:
        await guarded.patch(CLEARED)
    else:
        said = await guarded.refused(Forbidden)
        assert said.endswith('pod "pod-1" on node "n1" may have used its volume')


async def test_a_pod_without_a_node_is_not_in_the_way(server: Harness) -> None:
    guarded = await Guarded(server).bound()
    await server.create(POD, pod_body(claims=["claim-1"]))
    await guarded.patch(CLEARED)


@pytest.mark.req("T39", "T40")
@pytest.mark.parametrize("before", [pytest.param(True, id="used before"), pytest.param(False, id="never counted")])
async def test_a_claim_with_a_volume_does_not_become_clean(server: Harness, before: bool) -> None:
    guarded = await Guarded(server).bound(is_clean=False)
    if before:
        await guarded.patch(MergePatch({"status": {"conditions": [dirty("default/p", "n1", now=NOW)]}}), STATUS)
    forged = MergePatch({"status": {"conditions": [clean(now=NOW)]}})
    assert f"{CLEAN} cannot become True on a claim that has a volume" in await guarded.refused(Invalid, forged, STATUS)
    await guarded.patch(MergePatch({"status": {"conditions": [dirty("default/q", "n1", now=NOW)]}}), STATUS)


@pytest.mark.req("T40")
@pytest.mark.parametrize("value", [pytest.param(None, id="taken off"), pytest.param("yes", id="changed")])
async def test_the_mark_of_a_claim_in_rollback_is_not_anybodys(server: Harness, value: str | None) -> None:
    guarded = await Guarded(server).bound()
    unbound = MergePatch({"metadata": {"annotations": {ROLLBACK: "volume-1"}}, "spec": {"volumeName": None}})
    await guarded.patch(unbound)
    changed = MergePatch({"metadata": {"annotations": {ROLLBACK: value}}})
    somebody = Guarded(server, verbs="patch update")
    assert await somebody.refused(Forbidden, changed) == (
        'persistentvolumeclaims "claim-1" is forbidden: user "controller" may not unbind claims'
    )
    await somebody.patch(MergePatch({"metadata": {"annotations": {"own": "note"}}}))
    await Guarded(server, gate=False, verbs="patch").patch(MergePatch({"metadata": {"labels": {"a": "b"}}}))
    await guarded.patch(changed)


async def test_before_that_and_without_the_gate_anybody_may_take_the_mark_off(server: Harness) -> None:
    guarded = await Guarded(server, verbs="patch").bound()
    await guarded.patch(MergePatch({"metadata": {"annotations": {ROLLBACK: None}}}))
    await guarded.patch(MARKED)
    await Guarded(server, gate=False, verbs="patch").patch(MergePatch({"metadata": {"annotations": {ROLLBACK: None}}}))
