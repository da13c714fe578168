"""Binding, scale and token requests."""

import random
from typing import Any

import pytest

from mooring.api.errors import ApiError, BadRequest, Conflict, Invalid, NotFound, NotSupported
from mooring.api.kinds import CONFIG_MAP, NODE, POD, SECRET, SERVICE_ACCOUNT, STATEFUL_SET
from mooring.api.patches.contract import JsonPatch, MergePatch, Patch, StrategicPatch
from mooring.server.api import ApiServer
from mooring.server.auth.authorizer import Security
from mooring.server.auth.service_account_tokens import ISSUER, ServiceAccountTokens, SigningKey
from mooring.server.contract import DeleteOptions, Target, WriteOptions
from mooring.server.objects import Objects
from support.builders import Body, node_body, pod_body
from support.server.harness import DRY_RUN, TEST_USER, Harness, decoded


def binding(node: str = "n1", **metadata: object) -> Body:
    return {"metadata": {"name": "a", **metadata}, "target": {"kind": "Node", "name": node}}


async def test_a_pod_gets_its_node(server: Harness) -> None:
    old = await server.create(POD, pod_body(name="a"))
    written = await server.bind("a", binding(uid=old["metadata"]["uid"]))
    new = await server.get(POD, "a")
    assert (written.code, decoded(written.body)["status"]) == (201, "Success")
    assert new["spec"] == old["spec"] | {"nodeName": "n1"}
    assert new["status"]["conditions"] == [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}
    ]
    assert new["metadata"] == old["metadata"] | {"resourceVersion": str(server.revision)}, "no new generation"


async def test_binding_replaces_scheduling_condition(server: Harness) -> None:
    await server.create(POD, pod_body(name="a"))
    status = {
        "nominatedNodeName": "n2",
        "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
            {"type": "Ready", "status": "False"},
        ],
    }
    await server.patch(POD, "a", MergePatch({"status": status}), subresource="status")
    await server.bind("a", binding())
    status = (await server.get(POD, "a"))["status"]
    assert "nominatedNodeName" not in status
    assert [(c["type"], c["status"], c.get("reason")) for c in status["conditions"]] == [
        ("Ready", "False", None),
        ("PodScheduled", "True", None),
    ]


async def test_labels_and_annotations_come_along(server: Harness) -> None:
    zone = {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1", "rack": "5"}
    await server.create(NODE, node_body(name="n1", labels=zone))
    await server.create(POD, pod_body(name="a", labels={"app": "a", "x": "1"}))
    await server.bind("a", binding(labels={"x": "2"}, annotations={"note": "hi"}))
    metadata = (await server.get(POD, "a"))["metadata"]
    assert metadata["labels"] == {
        "app": "a",
        "x": "2",
        "topology.kubernetes.io/zone": "z1",
        "topology.kubernetes.io/region": "r1",
    }
    assert metadata["annotations"] == {"note": "hi"}


async def test_a_pod_gets_a_node_once(server: Harness) -> None:
    await server.create(POD, pod_body(name="a"))
    await server.bind("a", binding("n1"))
    with pytest.raises(Conflict) as refusal:
        await server.bind("a", binding("n2"))
    assert refusal.value.message == (
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"'
    )
    assert (await server.get(POD, "a"))["spec"]["nodeName"] == "n1"


async def test_a_gated_pod_gets_no_node(server: Harness) -> None:
    await server.create(POD, pod_body(name="a", gates=["example.com/wait"]))
    with pytest.raises(Conflict, match=r"pod a has non-empty \.spec\.schedulingGates"):
        await server.bind("a", binding())


async def test_terminating_pod_is_not_bound(server: Harness) -> None:
    await server.create(POD, pod_body(name="a", finalizers=["a.io/x"]))
    await server.delete(POD, "a", DeleteOptions())
    with pytest.raises(Conflict, match="pod a is being deleted, cannot be assigned to a host"):
        await server.bind("a", binding())


@pytest.mark.parametrize("other", [{"uid": "other"}, {"resourceVersion": "1"}], ids=["uid", "version"])
async def test_binding_preconditions(server: Harness, other: Body) -> None:
    await server.create(POD, pod_body(name="a"))
    with pytest.raises(Conflict, match='cannot be fulfilled on pods "a"'):
        await server.bind("a", binding(**other))


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        pytest.param(binding() | {"target": {"kind": "Node"}}, ApiError, "target.name: Required value", id="no node"),
        pytest.param(
            binding() | {"target": {"kind": "Pod", "name": "x"}},
            ApiError,
            'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"',
            id="not a node",
        ),
        pytest.param(
            binding(name="b"), BadRequest, "name in URL does not match name in Binding object", id="other pod"
        ),
        pytest.param(binding() | {"target": "n1"}, BadRequest, "cannot unmarshal string", id="wrong type"),
        pytest.param(binding(labels={"x": "a b"}), Invalid, "metadata.labels", id="a label that is none"),
    ],
)
async def test_invalid_bindings_are_rejected(server: Harness, body: Body, error: type[ApiError], message: str) -> None:
    await server.create(POD, pod_body(name="a"))
    with pytest.raises(error) as refusal:
        await server.bind("a", body)
    assert message in refusal.value.message
    assert refusal.value.code == (500 if error is ApiError else error.code)


async def test_there_must_be_a_pod(server: Harness) -> None:
    with pytest.raises(NotFound, match=r'^pods "a" not found$'):
        await server.bind("a", binding())


async def test_a_dry_run_binds_nothing(server: Harness) -> None:
    pod = await server.create(POD, pod_body(name="a"))
    assert (await server.bind("a", binding(), DRY_RUN)).code == 201
    assert await server.get(POD, "a") == pod


LABELS = {"app": "db"}


@pytest.fixture
async def three(server: Harness) -> Harness:
    """A server with a StatefulSet of three."""
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "db", "image": "db"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": LABELS}, "serviceName": "db", "template": template}
    await server.create(STATEFUL_SET, {"metadata": {"name": "db"}, "spec": spec})
    return server


def replicas(obj: Body) -> int:
    count = obj["spec"]["replicas"]
    assert isinstance(count, int)
    return count


async def test_a_scale_shows_what_all_workloads_share(three: Harness) -> None:
    scale = await three.get(STATEFUL_SET, "db", subresource="scale")
    whole = await three.get(STATEFUL_SET, "db")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["metadata"]["resourceVersion"] == whole["metadata"]["resourceVersion"]
    assert (replicas(scale), scale["status"]) == (3, {"replicas": 0, "selector": "app=db"})


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param(MergePatch({"spec": {"replicas": 5}}), id="merge"),
        pytest.param(StrategicPatch({"spec": {"replicas": 5}}), id="strategic"),
        pytest.param(JsonPatch([{"op": "replace", "path": "/spec/replicas", "value": 5}]), id="json"),
    ],
)
async def test_scale_patch_changes_replicas_and_generation(three: Harness, patch: Patch) -> None:
    before = await three.get(STATEFUL_SET, "db")
    assert replicas(await three.patch(STATEFUL_SET, "db", patch, subresource="scale")) == 5
    after = await three.get(STATEFUL_SET, "db")
    assert replicas(after) == 5
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1
    assert after["spec"] == before["spec"] | {"replicas": 5}


async def test_scale_update_changes_replicas_only(three: Harness) -> None:
    scale = await three.get(STATEFUL_SET, "db", subresource="scale")
    scale["spec"]["replicas"] = 1
    scale["metadata"]["labels"] = {"not": "taken"}
    assert replicas(await three.update(STATEFUL_SET, scale, subresource="scale")) == 1
    after = await three.get(STATEFUL_SET, "db")
    assert replicas(after) == 1
    assert "labels" not in after["metadata"]


async def test_scale_without_replicas_is_zero(three: Harness) -> None:
    await three.update(STATEFUL_SET, {"metadata": {"name": "db"}, "spec": {}}, subresource="scale")
    assert replicas(await three.get(STATEFUL_SET, "db")) == 0


async def test_an_old_version_is_a_conflict(three: Harness) -> None:
    scale = await three.get(STATEFUL_SET, "db", subresource="scale")
    await three.patch(STATEFUL_SET, "db", MergePatch({"spec": {"replicas": 4}}), subresource="scale")
    with pytest.raises(Conflict):
        await three.update(STATEFUL_SET, scale, subresource="scale")
    assert replicas(await three.get(STATEFUL_SET, "db")) == 4


async def test_a_dry_run_only_shows_it(three: Harness) -> None:
    patch = MergePatch({"spec": {"replicas": 5}})
    assert replicas(await three.patch(STATEFUL_SET, "db", patch, DRY_RUN, subresource="scale")) == 5
    assert replicas(await three.get(STATEFUL_SET, "db")) == 3


async def test_negative_replicas_are_rejected(three: Harness) -> None:
    with pytest.raises(Invalid, match="must be greater than or equal to 0"):
        await three.patch(STATEFUL_SET, "db", MergePatch({"spec": {"replicas": -1}}), subresource="scale")
    with pytest.raises(BadRequest):
        await three.updated(STATEFUL_SET, {"metadata": {"name": "other"}, "spec": {}}, name="db", subresource="scale")
    with pytest.raises(BadRequest):
        await three.updated(
            STATEFUL_SET, {"metadata": {"name": "db"}, "spec": {"replicas": "many"}}, name="db", subresource="scale"
        )


async def test_kind_without_replicas_has_no_scale(three: Harness) -> None:
    await three.create(CONFIG_MAP, {"metadata": {"name": "a"}})
    with pytest.raises(NotFound):
        await three.get(CONFIG_MAP, "a", subresource="scale")
    with pytest.raises(NotFound):
        await three.get(STATEFUL_SET, "missing", subresource="scale")


KEY = SigningKey.new()
CI = Target(SERVICE_ACCOUNT, "default", "ci", "token")


class Issuer:
    def __init__(self, server: Harness) -> None:
        self.server = server
        self.tokens = ServiceAccountTokens(KEY, Objects(server.store), server.clock)
        security = Security(tokens=self.tokens, accounts=self.tokens)
        self.api = ApiServer(server.store, server.clock, random.Random(5), security)

    async def request(self, spec: dict[str, Any] | None = None, target: Target = CI, **metadata: str) -> dict[str, Any]:
        body = {"metadata": metadata, "spec": spec or {}}
        written = await self.api.create(TEST_USER, target, body, WriteOptions())
        assert written.code == 201
        return decoded(written.body)

    async def bound(self, kind: str, **more: str) -> dict[str, Any]:
        return await self.request({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": "x"} | more})


@pytest.fixture
async def issuer(server: Harness) -> Issuer:
    await server.create(SERVICE_ACCOUNT, {"metadata": {"name": "ci"}})
    return Issuer(server)


async def test_a_token_for_an_hour(issuer: Issuer) -> None:
    answer = await issuer.request()
    assert (answer["kind"], answer["apiVersion"]) == ("TokenRequest", "authentication.k8s.io/v1")
    assert (answer["metadata"]["name"], answer["metadata"]["namespace"]) == ("ci", "default")
    assert answer["spec"] == {"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": None}
    assert answer["status"]["expirationTimestamp"] == "2026-01-02T04:04:05Z"
    found = await issuer.tokens.identify(answer["status"]["token"], ())
    assert found is not None
    assert found.user.name == "system:serviceaccount:default:ci"


async def test_two_tokens_are_different(issuer: Issuer) -> None:
    tokens = {(await issuer.request())["status"]["token"] for _ in range(2)}
    assert len({KEY.verify(token)["jti"] for token in tokens}) == 2


async def test_time_and_audiences_as_asked(issuer: Issuer) -> None:
    answer = await issuer.request({"audiences": ["vault"], "expirationSeconds": 600})
    claims = KEY.verify(answer["status"]["token"])
    assert (claims["aud"], claims["exp"] - claims["iat"]) == (["vault"], 600)


async def test_bound_to_a_pod_and_its_node(issuer: Issuer) -> None:
    await issuer.server.create(NODE, {"metadata": {"name": "n"}})
    pod = pod_body(name="x", node="n")
    pod["spec"]["serviceAccountName"] = "ci"
    uid = (await issuer.server.create(POD, pod))["metadata"]["uid"]
    answer = await issuer.bound("Pod", uid=uid)
    private = KEY.verify(answer["status"]["token"])["kubernetes.io"]
    assert private["pod"] == {"name": "x", "uid": uid}
    assert private["node"]["name"] == "n"


async def test_bound_to_a_secret(issuer: Issuer) -> None:
    await issuer.server.create(SECRET, {"metadata": {"name": "x"}})
    assert "secret" in KEY.verify((await issuer.bound("Secret"))["status"]["token"])["kubernetes.io"]


REF = {"apiVersion": "v1", "kind": "Pod", "name": "x"}


@pytest.mark.parametrize(
    ("spec", "error", "text"),
    [
        pytest.param(
            {"expirationSeconds": 599}, Invalid, "may not specify a duration less than 10 minutes", id="short"
        ),
        pytest.param({"expirationSeconds": (1 << 32) + 1}, Invalid, r"larger than 2\^32 seconds", id="long"),
        pytest.param({"expirationSeconds": "1h"}, BadRequest, "cannot be handled as a TokenRequest", id="no number"),
        pytest.param({"boundObjectRef": REF}, NotFound, 'pods "x" not found', id="bound to nothing"),
        pytest.param(
            {"boundObjectRef": REF | {"kind": "ConfigMap"}},
            BadRequest,
            "to object of type /v1, Kind=ConfigMap",
            id="kind",
        ),
    ],
)
async def test_refusals(issuer: Issuer, spec: dict[str, Any], error: type[ApiError], text: str) -> None:
    with pytest.raises(error, match=text):
        await issuer.request(spec)


async def test_bound_object_reference_is_validated(issuer: Issuer) -> None:
    await issuer.server.create(POD, pod_body(name="x"))
    with pytest.raises(BadRequest, match="pod running with different serviceaccount name"):
        await issuer.bound("Pod")
    with pytest.raises(Conflict, match=r"the UID in the bound object reference \(other\) does not match"):
        await issuer.bound("Pod", uid="other")


@pytest.mark.parametrize(("field", "value"), [("name", "other"), ("namespace", "other")])
async def test_token_request_must_match_the_url(issuer: Issuer, field: str, value: str) -> None:
    with pytest.raises(Invalid, match=rf"metadata\.{field}: .* must match the service account {field} if specified"):
        await issuer.request(**{field: value})


async def test_an_account_that_is_not_there(issuer: Issuer) -> None:
    with pytest.raises(NotFound, match='serviceaccounts "missing" not found'):
        await issuer.request(target=Target(SERVICE_ACCOUNT, "default", "missing", "token"))


async def test_token_without_signing_key_is_not_supported(server: Harness) -> None:
    await server.create(SERVICE_ACCOUNT, {"metadata": {"name": "ci"}})
    with pytest.raises(NotSupported, match="no key"):
        await server.api.create(TEST_USER, CI, {}, WriteOptions())
