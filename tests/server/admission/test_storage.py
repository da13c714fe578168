"""Guard of claim rollback, zonal affinity of volumes, and topologies of classes."""

import random
from typing import Any

import pytest

from mooring.api import well_known
from mooring.api.errors import ApiError, Forbidden, Invalid
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import JsonPatch, MergePatch, Patch
from mooring.server.api import ApiServer
from mooring.server.auth.authorizer import Security
from mooring.server.auth.policy import rule
from mooring.server.contract import Target, User, WriteOptions
from mooring.volumes.claim_rollback import CLEAN, ROLLBACK, clean_condition, dirty_condition
from support.builders import Body, claim_body, class_body, node_body, pod_body, volume_body
from support.server.harness import Harness, decoded
from support.server.policies import Policy

NOW = "2026-01-02T03:04:05Z"
CONTROLLER = User("controller", ("system:authenticated",))
IMMUTABLE = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
TARGET = Target(CLAIM, "default", "claim-1")
STATUS = Target(CLAIM, "default", "claim-1", "status")
CLEARED = MergePatch({"spec": {"volumeName": None}})
MARKED = MergePatch({"metadata": {"annotations": {ROLLBACK: well_known.ANNOTATION_SET}}})


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
            await self.patch(MergePatch({"status": {"conditions": [clean_condition(now=NOW)]}}), STATUS)
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


@pytest.mark.req("T40.guarded")
async def test_clean_marked_claim_can_be_unbound(server: Harness) -> None:
    claim = await (await Guarded(server).bound()).patch(CLEARED)
    assert "volumeName" not in claim["spec"]


@pytest.mark.req("T40.guarded")
@pytest.mark.parametrize(
    ("is_clean", "is_marked"),
    [
        pytest.param(False, True, id="not clean"),
        pytest.param(True, False, id="not marked"),
        pytest.param(False, False, id="neither"),
    ],
)
async def test_other_claims_stay_bound(server: Harness, is_clean: bool, is_marked: bool) -> None:
    guarded = await Guarded(server).bound(is_clean=is_clean, is_marked=is_marked)
    assert IMMUTABLE in await guarded.refused(Invalid)


@pytest.mark.req("T40.guarded", "T40.only-clean")
async def test_claim_that_became_dirty_stays_bound(server: Harness) -> None:
    guarded = await Guarded(server).bound()
    await guarded.patch(MergePatch({"status": {"conditions": [dirty_condition("default/p", "n1", now=NOW)]}}), STATUS)
    assert IMMUTABLE in await guarded.refused(Invalid)


@pytest.mark.req("T40.guarded")
async def test_claim_marked_by_the_same_write_stays_bound(server: Harness) -> None:
    guarded = await Guarded(server).bound(is_marked=False)
    both = MergePatch(
        {"metadata": {"annotations": {ROLLBACK: well_known.ANNOTATION_SET}}, "spec": {"volumeName": None}}
    )
    assert IMMUTABLE in await guarded.refused(Invalid, both)


@pytest.mark.req("T40.gate-off", "T31.claim-rollback-off")
async def test_unbinding_requires_the_feature_gate(server: Harness) -> None:
    assert IMMUTABLE in await (await Guarded(server, gate=False).bound()).refused(Invalid)


@pytest.mark.req("T40.guarded", "T32.no-more")
async def test_unbinding_requires_the_unbind_verb(server: Harness) -> None:
    guarded = await Guarded(server, verbs="patch update").bound()
    assert await guarded.refused(Forbidden) == (
        'persistentvolumeclaims "claim-1" is forbidden: user "controller" may not unbind claims'
    )


@pytest.mark.req("T40.guarded")
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


@pytest.mark.req("T40.guarded", "T40.only-clean")
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
async def test_claim_of_an_admitted_pod_stays_bound(server: Harness, status: dict[str, Any], allowed: bool) -> None:
    guarded = await Guarded(server).bound()
    await server.create(POD, pod_body(claims=["claim-1"], node="n1"))
    target = Target(POD, "default", "pod-1", "status")
    await server.api.patch(User("n1", ("system:masters",)), target, MergePatch({"status": status}), WriteOptions())
    if allowed:
        await guarded.patch(CLEARED)
    else:
        said = await guarded.refused(Forbidden)
        assert said.endswith('pod "pod-1" on node "n1" may have used its volume')


async def test_unscheduled_pod_does_not_block_unbinding(server: Harness) -> None:
    guarded = await Guarded(server).bound()
    await server.create(POD, pod_body(claims=["claim-1"]))
    await guarded.patch(CLEARED)


@pytest.mark.req("T39.never-clean-again")
@pytest.mark.parametrize("before", [pytest.param(True, id="used before"), pytest.param(False, id="never counted")])
async def test_a_claim_with_a_volume_does_not_become_clean(server: Harness, before: bool) -> None:
    guarded = await Guarded(server).bound(is_clean=False)
    if before:
        await guarded.patch(
            MergePatch({"status": {"conditions": [dirty_condition("default/p", "n1", now=NOW)]}}), STATUS
        )
    forged = MergePatch({"status": {"conditions": [clean_condition(now=NOW)]}})
    assert f"{CLEAN} cannot become True on a claim that has a volume" in await guarded.refused(Invalid, forged, STATUS)
    await guarded.patch(MergePatch({"status": {"conditions": [dirty_condition("default/q", "n1", now=NOW)]}}), STATUS)


@pytest.mark.req("T40.guarded")
@pytest.mark.parametrize("value", [pytest.param(None, id="taken off"), pytest.param("yes", id="changed")])
async def test_rollback_mark_requires_the_unbind_verb(server: Harness, value: str | None) -> None:
    guarded = await Guarded(server).bound()
    unbound = MergePatch({"metadata": {"annotations": {ROLLBACK: "volume-1"}}, "spec": {"volumeName": None}})
    await guarded.patch(unbound)
    changed = MergePatch({"metadata": {"annotations": {ROLLBACK: value}}})
    other = Guarded(server, verbs="patch update")
    assert await other.refused(Forbidden, changed) == (
        'persistentvolumeclaims "claim-1" is forbidden: user "controller" may not unbind claims'
    )
    await other.patch(MergePatch({"metadata": {"annotations": {"own": "note"}}}))
    await Guarded(server, gate=False, verbs="patch").patch(MergePatch({"metadata": {"labels": {"a": "b"}}}))
    await guarded.patch(changed)


async def test_rollback_mark_can_be_removed_before_rollback(server: Harness) -> None:
    guarded = await Guarded(server, verbs="patch").bound()
    await guarded.patch(MergePatch({"metadata": {"annotations": {ROLLBACK: None}}}))
    await guarded.patch(MARKED)
    await Guarded(server, gate=False, verbs="patch").patch(MergePatch({"metadata": {"annotations": {ROLLBACK: None}}}))


DISK: Body = {"gcePersistentDisk": {"pdName": "my-disk"}}
ZONAL = {well_known.ZONE_BETA: "us-central1-a", well_known.REGION_BETA: "us-central1"}


@pytest.mark.req("T36.admission")
async def test_new_volume_with_zone_labels_gets_its_affinity(server: Harness) -> None:
    created = await server.create(VOLUME, volume_body(source=DISK, labels=ZONAL))
    [term] = created["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": well_known.ZONE_BETA, "operator": "In", "values": ["us-central1-a"]},
        {"key": well_known.REGION_BETA, "operator": "In", "values": ["us-central1"]},
    ]
    assert created["metadata"]["labels"] == ZONAL


@pytest.mark.req("T36.admission")
async def test_affinity_is_spelled_so_that_nodes_match(server: Harness) -> None:
    await server.create(NODE, node_body(zone="us-central1-a"))
    created = await server.create(VOLUME, volume_body(source=DISK, labels={well_known.ZONE_BETA: "us-central1-a"}))
    [term] = created["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert [one["key"] for one in term["matchExpressions"]] == [well_known.ZONE]


async def test_volumes_with_affinity_or_without_zones_are_unchanged(server: Harness) -> None:
    own = volume_body(name="own", node="node-1", labels=ZONAL)
    assert (await server.create(VOLUME, own))["spec"]["nodeAffinity"] == own["spec"]["nodeAffinity"]
    plain = await server.create(VOLUME, volume_body(name="plain", source=DISK))
    assert "nodeAffinity" not in plain["spec"]
    with pytest.raises(Invalid, match="Local volume requires node affinity"):
        await server.create(VOLUME, volume_body(name="local", labels=ZONAL))


ALLOWED = [{well_known.ZONE: ["a"]}]
GCE = "kubernetes.io/gce-pd"


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        pytest.param({"parameters": {"zone": "a"}, "allowed_topologies": ALLOWED}, True, id="zone and topologies"),
        pytest.param({"parameters": {"zones": "a,b"}, "allowed_topologies": ALLOWED}, True, id="zones and topologies"),
        pytest.param({"parameters": {"zones": "a,b"}}, False, id="zones alone"),
        pytest.param({"parameters": {"type": "pd-ssd"}, "allowed_topologies": ALLOWED}, False, id="topologies alone"),
        pytest.param(
            {"parameters": {"zone": "a"}, "allowed_topologies": ALLOWED, "provisioner": "x.io"},
            False,
            id="a parameter of another provisioner",
        ),
    ],
)
@pytest.mark.req("T37.both-rejected")
async def test_class_with_two_topologies_is_rejected(server: Harness, given: dict[str, Any], refused: bool) -> None:
    body = class_body(**({"provisioner": GCE} | given))
    if refused:
        with pytest.raises(Forbidden, match="use allowedTopologies alone"):
            await server.create(STORAGE_CLASS, body)
    else:
        await server.create(STORAGE_CLASS, body)


@pytest.mark.req("T37.both-rejected")
async def test_topologies_cannot_be_added_beside_zones_later(server: Harness) -> None:
    stored = await server.create(STORAGE_CLASS, class_body(provisioner=GCE, parameters={"zone": "a"}))
    topologies = class_body(allowed_topologies=ALLOWED)["allowedTopologies"]
    with pytest.raises(Forbidden, match="use allowedTopologies alone"):
        await server.update(STORAGE_CLASS, stored | {"allowedTopologies": topologies})
