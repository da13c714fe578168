import pytest

from builders import Body, node_body, pod_body
from mooring.api.errors import ApiError, BadRequest, Conflict, Invalid, NotFound
from mooring.api.kinds import NODE, POD
from mooring.api.patches.contract import MergePatch
from mooring.server.contract import DeleteOptions
from server.harness import DRY_RUN, Harness, decoded


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


async def test_binding_replaces_what_was_said_of_scheduling(server: Harness) -> None:
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


async def test_a_pod_that_goes_gets_no_node(server: Harness) -> None:
    await server.create(POD, pod_body(name="a", finalizers=["a.io/x"]))
    await server.delete(POD, "a", DeleteOptions())
    with pytest.raises(Conflict, match="pod a is being deleted, cannot be assigned to a host"):
        await server.bind("a", binding())


@pytest.mark.parametrize("other", [{"uid": "other"}, {"resourceVersion": "1"}], ids=["uid", "version"])
async def test_a_binding_may_say_which_pod_it_means(server: Harness, other: Body) -> None:
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
async def test_bindings_that_make_no_sense(server: Harness, body: Body, error: type[ApiError], message: str) -> None:
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
