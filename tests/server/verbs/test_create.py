import random
import re

import pytest

from mooring.api.errors import AlreadyExists, ApiError, BadRequest, Forbidden, Invalid, NotFound
from mooring.api.kinds import CONFIG_MAP, KINDS, NAMESPACE, NODE, POD, STORAGE_CLASS, VOLUME, Kind
from support.builders import Body, class_body, node_body, pod_body, volume_body
from support.server.harness import DRY_RUN, Harness, altered, causes, fields


def config(name: str = "a", **metadata: object) -> Body:
    return {"metadata": {"name": name, **metadata}, "data": {"k": "v"}}


async def test_create_sets_uid_and_creation_timestamp(server: Harness) -> None:
    written = await server.created(CONFIG_MAP, config())
    obj = await server.get(CONFIG_MAP, "a")
    uid = obj["metadata"].pop("uid")
    assert written.code == 201
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", uid)
    assert obj == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {
            "resourceVersion": str(server.revision),
            "name": "a",
            "namespace": "default",
            "creationTimestamp": "2026-01-02T03:04:05Z",
        },
        "data": {"k": "v"},
    }


async def test_the_same_seed_gives_the_same_identities(server: Harness) -> None:
    again = await Harness().start()
    assert await server.create(CONFIG_MAP, config()) == await again.create(CONFIG_MAP, config())


@pytest.mark.parametrize(
    "field",
    [
        pytest.param({"uid": "mine"}, id="uid"),
        pytest.param({"creationTimestamp": "2020-01-01T00:00:00Z"}, id="creation time"),
        pytest.param({"deletionTimestamp": "2020-01-01T00:00:00Z"}, id="deletion time"),
        pytest.param({"deletionGracePeriodSeconds": 5}, id="grace"),
        pytest.param({"generation": 7}, id="generation"),
        pytest.param({"managedFields": [{"manager": "me"}]}, id="managed fields"),
        pytest.param({"selfLink": "/x"}, id="self link"),
    ],
)
async def test_server_owned_metadata_is_ignored(server: Harness, field: Body) -> None:
    metadata = (await server.create(CONFIG_MAP, config(**field)))["metadata"]
    assert {key: metadata.get(key) for key in field} != field


@pytest.mark.parametrize("kind", [k for k in KINDS if k.has_generation], ids=lambda k: k.kind)
async def test_kinds_that_count_begin_at_one(server: Harness, kind: Kind) -> None:
    workloads = ("StatefulSet", "Deployment", "ReplicaSet", "DaemonSet")
    replicated = altered(STATEFUL, ("spec.selector", {"app": "a"}))
    template = {"metadata": {"name": "a"}, "template": STATEFUL["spec"]["template"]}
    others = {"ReplicationController": replicated, "PodTemplate": template}
    bodies = {"Pod": pod_body(name="a"), **others, **dict.fromkeys(workloads, STATEFUL)}
    body = bodies.get(kind.kind, {"metadata": {"name": "a"}})
    assert (await server.create(kind, body))["metadata"]["generation"] == 1


STATEFUL: Body = {
    "metadata": {"name": "a"},
    "spec": {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    },
}


async def test_the_namespace_comes_from_the_request(server: Harness) -> None:
    await server.create(CONFIG_MAP, config(), namespace="other")
    assert (await server.get(CONFIG_MAP, "a", namespace="other"))["metadata"]["namespace"] == "other"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param(CONFIG_MAP, config(namespace="other"), id="another namespace"),
        pytest.param(
            STORAGE_CLASS, class_body() | {"metadata": {"name": "c", "namespace": "x"}}, id="cluster-wide kind"
        ),
    ],
)
async def test_namespace_must_match_the_request(server: Harness, kind: Kind, body: Body) -> None:
    with pytest.raises(BadRequest, match="does not match the namespace sent on the request"):
        await server.create(kind, body)


async def test_a_namespaced_object_needs_a_namespace(server: Harness) -> None:
    with pytest.raises(BadRequest, match="an empty namespace may not be set during creation"):
        await server.create(CONFIG_MAP, config(), namespace="")


async def test_create_in_a_missing_namespace_is_rejected(server: Harness) -> None:
    with pytest.raises(NotFound) as refusal:
        await server.create(CONFIG_MAP, config(), namespace="nons")
    assert refusal.value.message == 'namespaces "nons" not found'
    assert refusal.value.details is not None
    assert (refusal.value.details.kind, refusal.value.details.name) == ("namespaces", "nons")


async def test_create_in_a_terminating_namespace_is_rejected(server: Harness) -> None:
    await server.delete(NAMESPACE, "other")
    with pytest.raises(Forbidden) as refusal:
        await server.create(CONFIG_MAP, config(), namespace="other")
    assert refusal.value.message == (
        'configmaps "a" is forbidden: unable to create new content in namespace other because it is being terminated'
    )
    assert [(c.reason, c.field) for c in causes(refusal.value)] == [("NamespaceTerminating", "metadata.namespace")]


async def test_a_name_is_given_once(server: Harness) -> None:
    await server.create(CONFIG_MAP, config())
    with pytest.raises(AlreadyExists, match=r'^configmaps "a" already exists$'):
        await server.create(CONFIG_MAP, config())


async def test_name_of_a_terminating_object_is_in_use(server: Harness) -> None:
    await server.create(CONFIG_MAP, config(finalizers=["a.io/x"]))
    await server.delete(CONFIG_MAP, "a")
    with pytest.raises(AlreadyExists, match=r'^object is being deleted: configmaps "a" already exists$'):
        await server.create(CONFIG_MAP, config())


async def test_create_with_resource_version_is_rejected(server: Harness) -> None:
    with pytest.raises(ApiError, match="resourceVersion should not be set on objects to be created") as refusal:
        await server.create(CONFIG_MAP, config(resourceVersion="5"))
    assert refusal.value.code == 500


@pytest.mark.parametrize("version", ["0", "00", "-1", "abc", "9" * 30, "9" * 5000])
async def test_invalid_resource_version_is_ignored(server: Harness, version: str) -> None:
    made = await server.create(CONFIG_MAP, config(resourceVersion=version))
    assert made["metadata"]["resourceVersion"] == str(server.revision)


async def test_generated_names_have_five_letters_after_the_prefix(server: Harness) -> None:
    name = (await server.create(CONFIG_MAP, {"metadata": {"generateName": "gen-"}}))["metadata"]["name"]
    assert re.fullmatch(r"gen-[bcdfghjklmnpqrstvwxz2456789]{5}", name)


async def test_long_generate_name_prefix_is_cut(server: Harness) -> None:
    name = (await server.create(CONFIG_MAP, {"metadata": {"generateName": "x" * 70}}))["metadata"]["name"]
    assert (len(name), name[:58]) == (63, "x" * 58)


async def test_a_name_that_is_given_is_kept_beside_a_prefix(server: Harness) -> None:
    body = {"metadata": {"name": "a", "generateName": "gen-"}}
    await server.create(CONFIG_MAP, body)
    with pytest.raises(AlreadyExists):
        await server.create(CONFIG_MAP, body)


class Monotonous(random.Random):
    """Makes the same choice for a while."""

    def __init__(self, times: int) -> None:
        super().__init__(0)
        self._choices = iter(["bbbbb"] * times + ["ccccc"])

    def choices(self, *_: object, **__: object) -> list[str]:  # type: ignore[override]
        return list(next(self._choices))


async def test_a_generated_name_that_is_taken_is_made_again() -> None:
    server = await Harness(rng=Monotonous(8)).start()
    names = [(await server.create(CONFIG_MAP, {"metadata": {"generateName": "g-"}}))["metadata"]["name"] for _ in "ab"]
    assert names == ["g-bbbbb", "g-ccccc"]


async def test_generating_names_ends_after_eight_attempts() -> None:
    server = await Harness(rng=Monotonous(10)).start()
    await server.create(CONFIG_MAP, {"metadata": {"generateName": "g-"}})
    with pytest.raises(AlreadyExists, match="the server was not able to generate a unique name for the object"):
        await server.create(CONFIG_MAP, {"metadata": {"generateName": "g-"}})


@pytest.mark.parametrize(
    ("kind", "metadata", "wrong"),
    [
        pytest.param(CONFIG_MAP, {}, ["metadata.name"], id="no name at all"),
        pytest.param(CONFIG_MAP, {"name": "A"}, ["metadata.name"], id="upper case"),
        pytest.param(CONFIG_MAP, {"name": "#%123-invalid-name"}, ["metadata.name"], id="the provisioner's probe"),
        pytest.param(CONFIG_MAP, {"name": "a.b"}, [], id="dots are fine"),
        pytest.param(NAMESPACE, {"name": "a.b"}, ["metadata.name"], id="dots are not fine in a namespace"),
        pytest.param(CONFIG_MAP, {"generateName": "A-"}, ["metadata.generateName", "metadata.name"], id="bad prefix"),
    ],
)
async def test_names_follow_the_kind(server: Harness, kind: Kind, metadata: Body, wrong: list[str]) -> None:
    if not wrong:
        await server.create(kind, {"metadata": metadata})
        return
    with pytest.raises(Invalid) as refusal:
        await server.create(kind, {"metadata": metadata})
    assert fields(refusal.value) == wrong


async def test_create_without_name_is_rejected(server: Harness) -> None:
    with pytest.raises(Invalid) as refusal:
        await server.create(CONFIG_MAP, {})
    assert refusal.value.message == (
        'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'
    )


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        pytest.param(
            POD, pod_body(name="a", phase="Running"), {"phase": "Pending", "qosClass": "BestEffort"}, id="a pod waits"
        ),
        pytest.param(
            VOLUME,
            volume_body(name="a", node="n", phase="Bound"),
            {"phase": "Pending", "lastPhaseTransitionTime": "2026-01-02T03:04:05Z"},
            id="a volume waits",
        ),
        pytest.param(
            NAMESPACE, {"metadata": {"name": "a"}, "status": {"phase": "X"}}, {"phase": "Active"}, id="active"
        ),
        pytest.param(
            NODE,
            node_body(name="a"),
            node_body(name="a")["status"],
            id="a node brings its status along",
        ),
    ],
)
async def test_status_of_a_new_object_is_reset(server: Harness, kind: Kind, body: Body, status: Body) -> None:
    assert (await server.create(kind, body))["status"] == status


async def test_a_dry_run_answers_like_a_create_and_stores_nothing(server: Harness) -> None:
    before = server.revision
    written = await server.created(CONFIG_MAP, config(), DRY_RUN)
    assert written.code == 201
    assert b"resourceVersion" not in written.body
    assert (server.revision, await server.listed(CONFIG_MAP)) == (before, [])


@pytest.mark.parametrize(
    ("body", "error"),
    [
        pytest.param({"metadata": {"name": "A"}}, Invalid, id="validation"),
        pytest.param({"metadata": {"name": "taken"}}, AlreadyExists, id="names"),
        pytest.param({"metadata": {"name": "b", "resourceVersion": "1"}}, ApiError, id="versions"),
    ],
)
async def test_a_dry_run_is_refused_like_a_create(server: Harness, body: Body, error: type[ApiError]) -> None:
    await server.create(CONFIG_MAP, config("taken"))
    with pytest.raises(error):
        await server.create(CONFIG_MAP, body, DRY_RUN)


async def test_warnings_come_with_the_answer(server: Harness) -> None:
    written = await server.created(CONFIG_MAP, config() | {"foo": 1})
    assert written.warnings == ('unknown field "foo"',)
    assert "foo" not in await server.get(CONFIG_MAP, "a")


async def test_a_namespace_gets_its_label_and_its_finalizer(server: Harness) -> None:
    obj = await server.create(NAMESPACE, {"metadata": {"generateName": "team-"}})
    assert obj["metadata"]["labels"] == {"kubernetes.io/metadata.name": obj["metadata"]["name"]}
    assert obj["spec"] == {"finalizers": ["kubernetes"]}
