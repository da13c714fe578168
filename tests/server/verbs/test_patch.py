import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.errors import ApiError, BadRequest, Conflict, Invalid, NotFound, TooLarge
from mooring.api.kinds import CONFIG_MAP, NODE, POD, STORAGE_CLASS, Kind
from mooring.api.patches.contract import JsonPatch, MergePatch, Patch, StrategicPatch
from mooring.server.contract import WriteOptions
from mooring.server.encoding import opening
from server.verbs.test_write import BusyStore
from support.builders import Body, node_body, pod_body
from support.server.harness import DRY_RUN, TEST_USER, Harness, decoded

CONFIG: Body = {"metadata": {"name": "a", "labels": {"app": "a"}}, "data": {"x": "", "y": "1"}}


@pytest.fixture
async def config(server: Harness) -> Body:
    return await server.create(CONFIG_MAP, CONFIG)


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param(MergePatch({"data": {"y": "2", "x": None}}), id="merge"),
        pytest.param(StrategicPatch({"data": {"y": "2", "x": None}}), id="strategic"),
        pytest.param(
            JsonPatch([{"op": "replace", "path": "/data/y", "value": "2"}, {"op": "remove", "path": "/data/x"}]),
            id="json",
        ),
    ],
)
async def test_all_patch_types(server: Harness, config: Body, patch: Patch) -> None:
    new = await server.patch(CONFIG_MAP, "a", patch)
    assert new == config | {
        "data": {"y": "2"},
        "metadata": config["metadata"] | {"resourceVersion": str(server.revision)},
    }


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param(MergePatch({}), id="nothing"),
        pytest.param(MergePatch({"data": {"y": "1"}}), id="the same value"),
        pytest.param(MergePatch({"data": {"z": None}}), id="removing what is not there"),
        pytest.param(StrategicPatch({"metadata": {"labels": {"app": "a"}}}), id="the same label"),
        pytest.param(JsonPatch([]), id="no operation"),
    ],
)
async def test_a_patch_that_changes_nothing_writes_nothing(server: Harness, config: Body, patch: Patch) -> None:
    revision = server.revision
    assert await server.patch(CONFIG_MAP, "a", patch) == config
    assert server.revision == revision


async def test_lists_are_merged_by_their_keys(server: Harness) -> None:
    await server.create(POD, pod_body(name="a"))
    image = StrategicPatch({"spec": {"containers": [{"name": "main", "image": "example.com/main:2"}]}})
    new = await server.patch(POD, "a", image)
    assert new["spec"]["containers"][0]["terminationMessagePolicy"] == "File"
    assert new["spec"]["containers"][0]["image"] == "example.com/main:2"
    assert new["metadata"]["generation"] == 2


async def test_a_json_patch_can_add_to_an_empty_spec(server: Harness) -> None:
    await server.create(NODE, node_body(name="a"))
    cordon = JsonPatch([{"op": "add", "path": "/spec/unschedulable", "value": True}])
    assert (await server.patch(NODE, "a", cordon))["spec"] == {"unschedulable": True}


async def test_a_patch_of_the_status(server: Harness) -> None:
    old = await server.create(POD, pod_body(name="a"))
    patch = StrategicPatch({"status": {"phase": "Running"}, "spec": {"nodeName": "n"}})
    new = await server.patch(POD, "a", patch, subresource="status")
    assert new["status"] == old["status"] | {"phase": "Running"}
    assert new["spec"] == old["spec"]


async def test_the_main_endpoint_leaves_the_status_alone(server: Harness) -> None:
    old = await server.create(POD, pod_body(name="a"))
    assert await server.patch(POD, "a", MergePatch({"status": {"phase": "Running"}})) == old


async def test_a_version_in_the_patch_is_a_precondition(server: Harness, config: Body) -> None:
    version = config["metadata"]["resourceVersion"]
    patch = MergePatch({"metadata": {"resourceVersion": version}, "data": {"y": "2"}})
    await server.patch(CONFIG_MAP, "a", patch)
    with pytest.raises(Conflict, match="the object has been modified"):
        await server.patch(CONFIG_MAP, "a", patch)


async def test_patch_without_version_is_retried() -> None:
    server = await Harness(BusyStore()).start()
    await server.create(CONFIG_MAP, CONFIG)
    server.store.interruptions = 4  # type: ignore[attr-defined]
    new = await server.patch(CONFIG_MAP, "a", MergePatch({"data": {"y": "2"}}))
    assert new["data"] == {"x": "iiii", "y": "2"}


async def test_a_patch_with_a_version_is_not_applied_again() -> None:
    server = await Harness(BusyStore()).start()
    config = await server.create(CONFIG_MAP, CONFIG)
    server.store.interruptions = 1  # type: ignore[attr-defined]
    version = config["metadata"]["resourceVersion"]
    with pytest.raises(Conflict):
        await server.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"resourceVersion": version}, "data": {"y": "2"}}))
    assert (await server.get(CONFIG_MAP, "a"))["data"] == {"x": "i", "y": "1"}


REJECTED = "the server rejected our request due to an error in our request"


@pytest.mark.parametrize(
    ("patch", "error", "message"),
    [
        pytest.param(
            JsonPatch([{"op": "test", "path": "/data/y", "value": "9"}]), Invalid, REJECTED, id="a test that fails"
        ),
        pytest.param(JsonPatch([{"op": "remove", "path": "/data/z"}]), Invalid, REJECTED, id="a path that is missing"),
        pytest.param(JsonPatch([{"op": "add", "path": "", "value": 5}]), Invalid, REJECTED, id="no object any more"),
        pytest.param(
            JsonPatch([{"op": "test", "path": "/x", "value": None}] * 10_001),
            TooLarge,
            "10000",
            id="too many operations",
        ),
        pytest.param(StrategicPatch({"$patch": "nonsense"}), BadRequest, "unknown patch type", id="no such directive"),
        pytest.param(
            MergePatch({"metadata": {"name": "b"}}),
            BadRequest,
            "the name of the object (b) does not match the name on the URL (a)",
            id="another name",
        ),
        pytest.param(
            MergePatch({"metadata": {"namespace": "other"}}),
            BadRequest,
            "does not match the namespace sent on the request",
            id="another namespace",
        ),
        pytest.param(MergePatch({"kind": "Secret"}), BadRequest, "cannot be handled as a ConfigMap", id="another kind"),
        pytest.param(
            MergePatch({"data": {"y": 5}}),
            Invalid,
            ' "" is invalid: patch: Invalid value: "{\\"data\\":{\\"y\\":5}}": json: cannot unmarshal number',
            id="a wrong type",
        ),
        pytest.param(
            MergePatch({"metadata": {"uid": "other"}}),
            Invalid,
            'metadata.uid: Invalid value: "other": field is immutable',
            id="another uid",
        ),
        pytest.param(MergePatch({"metadata": {"labels": {"app": "c d"}}}), Invalid, "metadata.labels", id="invalid"),
    ],
)
async def test_patches_that_are_refused(
    server: Harness, config: Body, patch: Patch, error: type[ApiError], message: str
) -> None:
    with pytest.raises(error) as refusal:
        await server.patch(CONFIG_MAP, "a", patch)
    assert message in refusal.value.message
    assert await server.get(CONFIG_MAP, "a") == config


async def test_json_patch_error_contains_the_problem(server: Harness, config: Body) -> None:
    with pytest.raises(Invalid) as refusal:
        await server.patch(CONFIG_MAP, "a", JsonPatch([{"op": "remove", "path": "/data/z"}]))
    assert refusal.value.message == (
        'the server rejected our request due to an error in our request: the document has no path "/data/z"'
    )


@pytest.mark.parametrize(
    ("kind", "subresource"),
    [pytest.param(CONFIG_MAP, "", id="object"), pytest.param(STORAGE_CLASS, "status", id="endpoint")],
)
async def test_what_is_not_there_cannot_be_patched(server: Harness, kind: Kind, subresource: str) -> None:
    with pytest.raises(NotFound):
        await server.patch(kind, "b", MergePatch({}), subresource=subresource)


async def test_unknown_fields_in_a_patch(server: Harness, config: Body) -> None:
    patch = MergePatch({"foo": 1})
    with pytest.raises(Invalid, match='strict decoding error: unknown field "foo"'):
        await server.patch(CONFIG_MAP, "a", patch, WriteOptions(field_validation="Strict"))
    written = await server.patched(CONFIG_MAP, "a", patch)
    assert (decoded(written.body), written.warnings) == (config, ('unknown field "foo"',))


async def test_a_dry_run(server: Harness, config: Body) -> None:
    shown = await server.patch(CONFIG_MAP, "a", MergePatch({"data": {"y": "2"}}), DRY_RUN)
    assert shown["data"]["y"] == "2"
    assert await server.get(CONFIG_MAP, "a") == config


keys = st.sampled_from(
    ["metadata", "labels", "annotations", "data", "kind", "resourceVersion", "name", "spec", "a.b/c"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.dictionaries(keys, inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=8,
)


@settings(max_examples=50)
@given(st.lists(st.dictionaries(keys, values, max_size=3), max_size=5))
async def test_patched_object_stays_an_object(patches: list[Body]) -> None:
    server = await Harness().start()
    await server.create(CONFIG_MAP, CONFIG)
    for body in patches:
        try:
            written = await server.patched(CONFIG_MAP, "a", MergePatch(body))
        except ApiError:
            continue
        raw = await server.api.get(TEST_USER, server.target(CONFIG_MAP, "a"))
        assert raw == written.body
        assert raw.startswith(opening(CONFIG_MAP) + b"%d" % server.revision)
        assert decoded(raw)["metadata"]["name"] == "a"
