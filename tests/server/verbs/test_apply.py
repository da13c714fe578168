"""Server-side apply through the verbs: creating, merging, conflicts, and owners after other writes."""

from collections.abc import Mapping
from typing import Any

import pytest

from mooring.api.errors import BadRequest, Conflict, NotFound
from mooring.api.kinds import CLUSTER_ROLE_BINDING, CONFIG_MAP, POD, STATEFUL_SET, Kind
from mooring.api.patches.contract import MergePatch
from mooring.server.contract import WriteOptions
from support.builders import Body
from support.server.harness import TEST_USER, Harness, decoded


def config(**data: str) -> Body:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}


async def applied(
    server: Harness,
    body: Mapping[str, Any],
    manager: str = "m1",
    *,
    kind: Kind[Any] = CONFIG_MAP,
    name: str = "a",
    subresource: str = "",
    force: bool = False,
    dry_run: bool = False,
) -> tuple[int, Body]:
    target = server.target(kind, name, subresource=subresource)
    options = WriteOptions(field_manager=manager, dry_run=dry_run)
    written = await server.api.apply(TEST_USER, target, body, options, force=force)
    return written.code, decoded(written.body)


def managers(obj: Body) -> dict[str, object]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", ())}


async def test_creates_what_is_not_there(server: Harness) -> None:
    code, obj = await applied(server, config(a="1"))
    assert (code, obj["data"], managers(obj)) == (201, {"a": "1"}, {"m1": {"f:data": {"f:a": {}}}})


async def test_merges_into_what_is_there(server: Harness) -> None:
    await server.create(CONFIG_MAP, config(b="2"))
    code, obj = await applied(server, config(a="1"))
    assert (code, obj["data"]) == (200, {"a": "1", "b": "2"})
    assert managers(obj) == {"m1": {"f:data": {"f:a": {}}}, "before-first-apply": {"f:data": {"f:b": {}}}}


async def test_applying_the_same_again_writes_nothing(server: Harness) -> None:
    _, first = await applied(server, config(a="1"))
    server.clock.seconds += 60
    code, again = await applied(server, config(a="1"))
    assert (code, again) == (200, first)


async def test_a_conflict_names_owner_and_field(server: Harness) -> None:
    await applied(server, config(a="1", b="1"))
    with pytest.raises(Conflict) as one:
        await applied(server, config(a="2"), "m2")
    assert one.value.message == 'Apply failed with 1 conflict: conflict with "m1": .data.a'
    with pytest.raises(Conflict) as two:
        await applied(server, config(a="2", b="2"), "m2")
    assert two.value.message == 'Apply failed with 2 conflicts: conflicts with "m1":\n- .data.a\n- .data.b'
    assert two.value.details is not None
    assert [cause.reason for cause in two.value.details.causes] == ["FieldManagerConflict"] * 2


async def test_defaults_have_no_owner(server: Harness) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]},
    }
    _, obj = await applied(server, pod, kind=POD)
    assert obj["spec"]["restartPolicy"] == "Always"
    port = 'k:{"containerPort":80,"protocol":"TCP"}'
    item = {".": {}, "f:name": {}, "f:image": {}, "f:ports": {port: {".": {}, "f:containerPort": {}}}}
    assert managers(obj) == {"m1": {"f:spec": {"f:containers": {'k:{"name":"c"}': item}}}}
    _, again = await applied(server, pod, kind=POD)
    assert again == obj


async def test_an_update_takes_over_what_it_changes(server: Harness) -> None:
    await applied(server, config(a="1", b="1"))
    obj = await server.patch(CONFIG_MAP, "a", MergePatch({"data": {"a": "2"}}), WriteOptions(field_manager="u"))
    assert managers(obj) == {"m1": {"f:data": {"f:b": {}}}, "u": {"f:data": {"f:a": {}}}}


async def test_update_before_first_apply_is_not_tracked(server: Harness) -> None:
    await server.create(CONFIG_MAP, config(a="1"))
    obj = await server.patch(CONFIG_MAP, "a", MergePatch({"data": {"a": "2"}}), WriteOptions(field_manager="u"))
    assert "managedFields" not in obj["metadata"]


async def test_owners_can_be_cleared(server: Harness) -> None:
    await applied(server, config(a="1"))
    obj = await server.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"managedFields": [{}]}}))
    assert "managedFields" not in obj["metadata"]


async def test_a_replacement_without_owners_keeps_them(server: Harness) -> None:
    await applied(server, config(a="1"))
    obj = await server.update(CONFIG_MAP, config(a="1"), WriteOptions(field_manager="u"))
    assert managers(obj) == {"m1": {"f:data": {"f:a": {}}}}


async def test_scaling_is_an_update_through_its_own_endpoint(server: Harness, stateful_set: Body) -> None:
    await applied(server, stateful_set, kind=STATEFUL_SET, name="web")
    await server.patch(
        STATEFUL_SET,
        "web",
        MergePatch({"spec": {"replicas": 7}}),
        WriteOptions(field_manager="scaler"),
        subresource="scale",
    )
    with pytest.raises(Conflict) as refused:
        await applied(server, stateful_set, kind=STATEFUL_SET, name="web")
    assert refused.value.message == (
        'Apply failed with 1 conflict: conflict with "scaler" with subresource "scale" using apps/v1: .spec.replicas'
    )


async def test_the_status_endpoint_owns_status_alone(server: Harness, stateful_set: Body) -> None:
    await applied(server, stateful_set, kind=STATEFUL_SET, name="web")
    statement = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "web"},
        "spec": {"replicas": 9},
        "status": {"replicas": 1},
    }
    _, obj = await applied(server, statement, "s", kind=STATEFUL_SET, name="web", subresource="status")
    assert (obj["spec"]["replicas"], obj["status"]["replicas"]) == (3, 1)
    assert managers(obj)["s"] == {"f:status": {"f:replicas": {}}}


async def test_a_dry_run_leaves_no_trace(server: Harness) -> None:
    code, obj = await applied(server, config(a="1"), dry_run=True)
    assert (code, obj["data"]) == (201, {"a": "1"})
    with pytest.raises(NotFound):
        await server.get(CONFIG_MAP, "a")


@pytest.fixture
def stateful_set() -> Body:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param({"metadata": {"name": "a"}}, "invalid object type: /, Kind=", id="no kind"),
        pytest.param(config() | {"kind": "Secret"}, "invalid object type: /v1, Kind=Secret", id="another kind"),
        pytest.param(
            config() | {"metadata": {"name": "b"}},
            "the name of the object (b) does not match the name on the URL (a)",
            id="another name",
        ),
        pytest.param(
            config() | {"metadata": {}},
            "the name of the object (a based on URL) was undeterminable: name must be provided",
            id="no name",
        ),
        pytest.param(
            config() | {"metadata": {"name": "a", "managedFields": [{"manager": "x"}]}},
            "metadata.managedFields must be nil",
            id="owners of its own making",
        ),
        pytest.param(
            config() | {"foo": "1"},
            "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .foo: field not declared in schema",
            id="unknown field",
        ),
    ],
)
async def test_refuses_and_writes_nothing(server: Harness, body: Body, message: str) -> None:
    before = server.revision
    with pytest.raises(BadRequest) as refused:
        await applied(server, body)
    assert (refused.value.message, server.revision) == (message, before)


async def test_apply_to_missing_object_is_rejected(server: Harness) -> None:
    with pytest.raises(Conflict, match="no existing object was found"):
        await applied(server, config() | {"metadata": {"name": "a", "uid": "x"}})
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    with pytest.raises(NotFound):
        await applied(server, body, kind=POD, subresource="status")


async def test_applied_resource_version_is_a_precondition(server: Harness) -> None:
    await applied(server, config(a="1"))
    with pytest.raises(Conflict, match="the object has been modified"):
        await applied(server, config(a="2") | {"metadata": {"name": "a", "resourceVersion": "1"}})


async def test_apply_works_after_repeated_keys_of_other_writers(server: Harness, stateful_set: Body) -> None:
    """Kubernetes allows `env` to repeat a name; a patch answered 500 and every later apply 400, also with force."""
    own = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s", "labels": {"l": "1"}}}
    await server.create(STATEFUL_SET, stateful_set | {"metadata": {"name": "s"}})
    await applied(server, own, kind=STATEFUL_SET, name="s")
    twice = [{"name": "X", "value": "1"}, {"name": "X", "value": "2"}]
    [container] = stateful_set["spec"]["template"]["spec"]["containers"]
    patch = {"spec": {"template": {"spec": {"containers": [container | {"env": twice}]}}}}
    await server.patch(STATEFUL_SET, "s", MergePatch(patch))
    own["metadata"] = {"name": "s", "labels": {"l": "2"}}
    code, obj = await applied(server, own, kind=STATEFUL_SET, name="s")
    assert code == 200
    assert obj["spec"]["template"]["spec"]["containers"][0]["env"] == twice


async def test_number_of_listed_conflicts_is_bounded(server: Harness) -> None:
    await applied(server, config(**{f"k{number}": "1" for number in range(300)}))
    with pytest.raises(Conflict, match=r"Apply failed with 300 conflicts: (?s:.*)\nand 200 more$") as refused:
        await applied(server, config(**{f"k{number}": "2" for number in range(300)}), "m2")
    assert refused.value.details is not None
    assert len(refused.value.details.causes) == 100


async def test_applied_empty_list_becomes_empty(server: Harness) -> None:
    """Who applies a binding without subjects means to take the role from those it had."""
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}
    body: Body = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "a"},
        "roleRef": ref,
    }
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "u"}]
    await server.create(CLUSTER_ROLE_BINDING, body | {"subjects": subjects})
    _, kept = await applied(server, body, kind=CLUSTER_ROLE_BINDING, force=True)
    assert kept["subjects"] == subjects
    _, emptied = await applied(server, body | {"subjects": []}, kind=CLUSTER_ROLE_BINDING, force=True)
    assert "subjects" not in emptied
    assert "subjects" not in await server.get(CLUSTER_ROLE_BINDING, "a")
