"""What is there and what is to come: how documents are sorted, and which are refused."""

import pytest

from mooring.api.kinds import NAMESPACE, NODE, POD, STATEFUL_SET, STORAGE_CLASS
from mooring.whatif.inventory import BadQuestion, Inventory
from support.builders import Body, claim_body, class_body, node_body, pod_body
from support.whatif.questions import asked, inventory, stateful_set


def written(**more: object) -> Body:
    pod = pod_body(name="web", **more)
    del pod["status"]
    return pod


@pytest.mark.parametrize(
    ("document", "there", "new"),
    [
        pytest.param(written(), False, True, id="a written pod is to be created"),
        pytest.param(written(uid="u"), True, False, id="one with a uid is there"),
        pytest.param(pod_body(name="web", phase="Running"), True, False, id="one with a status is there"),
    ],
)
def test_pods_are_there_or_to_come(document: Body, there: bool, new: bool) -> None:
    known = inventory([document])
    assert (known.is_there(POD, "default/web"), known.is_new(POD, "default/web")) == (there, new)


def test_nodes_and_classes_that_people_write_are_there_and_whole() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "x",
    }
    known = inventory([node, storage_class])
    assert known.get(NODE, "n1") is not None
    assert known.body(STORAGE_CLASS, "fast")["volumeBindingMode"] == "Immediate"


def test_missing_uids_follow_from_names() -> None:
    first, second = (inventory([node_body(name="n1")]).get(NODE, "n1") for _ in range(2))
    assert first is not None
    assert first == second
    assert first.uid


def test_lists_of_one_kind_and_of_several_are_taken_apart() -> None:
    nodes = [node_body(name=f"n{number}") for number in (1, 2)]
    bare = [{field: value for field, value in node.items() if field not in ("kind", "apiVersion")} for node in nodes]
    of_kind = {"apiVersion": "v1", "kind": "NodeList", "items": bare}
    mixed = {"apiVersion": "v1", "kind": "List", "items": [class_body(), node_body(name="n3")]}
    known = inventory([of_kind, mixed])
    assert [node.name for node in known.of(NODE)] == ["n1", "n2", "n3"]
    assert len(known.of(STORAGE_CLASS)) == 1


def test_what_takes_no_part_is_counted_and_left_out() -> None:
    known = inventory(
        [
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}},
            {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}},
        ]
    )
    assert known.skipped == {"Secret": 1, "Gadget (example.com/v1)": 1}


def test_managed_fields_are_dropped_and_unknown_fields_are_kept() -> None:
    document = node_body(name="n1")
    document["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{"manager": "x"}]}
    document["spec"]["fromTomorrow"] = 1
    body = inventory([document]).body(NODE, "n1")
    assert "managedFields" not in body["metadata"]
    assert body["spec"]["fromTomorrow"] == 1


def test_the_last_of_one_name_counts() -> None:
    known = inventory([node_body(name="n1", zone="a"), node_body(name="n1", zone="b")])
    [node] = known.of(NODE)
    assert "b" in node.metadata.labels.values()


def test_what_is_stored_comes_in_the_order_of_keys() -> None:
    known = inventory([node_body(name="b"), node_body(name="a"), pod_body(name="web", uid="u")])
    keys = [key for key, _ in known.stored()]
    assert keys == sorted(keys)
    assert len(known) == len(keys) == 3


def test_owners_are_made_before_what_they_own() -> None:
    known = inventory([written(), stateful_set()])
    assert [kind for kind, _, _ in known.coming()] == [STATEFUL_SET, POD]


@pytest.mark.parametrize(
    ("document", "want"),
    [
        pytest.param("text", "not a Kubernetes object: expected a mapping", id="no mapping"),
        pytest.param({"kind": "Pod"}, "not a Kubernetes object: kind and apiVersion are missing", id="no apiVersion"),
        pytest.param({"apiVersion": "v1", "kind": "Pod", "metadata": {}}, "Pod without a name", id="no name"),
        pytest.param({"apiVersion": "v1", "kind": "Pod"}, "Pod without a name", id="no metadata"),
        pytest.param({"apiVersion": "v1", "kind": "List", "items": 3}, "items of List must be a list", id="no items"),
        pytest.param(
            {"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "List", "items": []}]},
            "a list within a list: List in List",
            id="a list within a list",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"unschedulabel": True}},
            'Node n: .*unknown field "spec.unschedulabel"',
            id="a misspelt field of what people wrote",
        ),
        pytest.param(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"nodeName": 3},
            },
            "Pod p: Expected `str`, got `int`",
            id="a wrong type in what was listed",
        ),
    ],
)
def test_what_is_no_object_is_refused(document: object, want: str) -> None:
    with pytest.raises(BadQuestion, match=want):
        Inventory().add(document)


def test_namespaces_are_kinds_without_a_namespace() -> None:
    known = inventory([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}])
    assert known.get(NAMESPACE, "x") is not None


def test_size_in_another_spelling_is_no_change_of_an_immutable_field() -> None:
    there = claim_body(name="data", size="1024Mi", storage_class="fast", uid="u")
    there["metadata"]["creationTimestamp"] = "2026-01-02T03:04:05Z"
    written = claim_body(name="data", size="1Gi", storage_class="fast")
    del written["status"]
    assert asked(node_body(), class_body(name="fast"), there, written).ok
