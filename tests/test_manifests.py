"""Conversion of draft manifests to current objects."""

from typing import Any

import pytest
import yaml

from mooring.drafts import DraftResult, modernize, repaired_text
from support import draft_examples

Body = dict[str, Any]


def imported(text: str) -> DraftResult:
    [document] = [one for one in yaml.safe_load_all(repaired_text(text)[0]) if one is not None]
    return modernize(document, namespace="storage")


def changes_of(outcome: DraftResult) -> list[str]:
    return [change.change for change in outcome.changes]


@pytest.mark.req("T2.name", "T2.access-modes")
def test_volume() -> None:
    outcome = imported(draft_examples.ZONAL)
    [volume] = outcome.objects
    assert volume["metadata"] == {"name": "draft-zonal"}
    assert volume["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert volume["spec"]["gcePersistentDisk"] == {"pdName": "disk-one", "fsType": "ext4"}
    assert changes_of(outcome) == [
        "renamed metadata.Name to metadata.name",
        "added spec.accessModes: [ReadWriteOnce], which every volume must have",
        "renamed spec.gcePersistentDisk.diskName to spec.gcePersistentDisk.pdName",
    ]
    assert {change.object for change in outcome.changes} == {"PersistentVolume/draft-zonal"}


@pytest.mark.req("T2.binding-mode", "T3.repaired")
def test_class() -> None:
    outcome = imported(draft_examples.STANDARD)
    [storage_class] = outcome.objects
    assert storage_class["volumeBindingMode"] == "WaitForFirstConsumer"
    assert "bindingMode" not in storage_class
    assert changes_of(outcome) == ["renamed bindingMode to volumeBindingMode"]


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(
            {"kind": "PersistentVolume", "metadata": {"name": "a"}, "spec": {"accessModes": ["x"]}}, id="fine"
        ),
        pytest.param({"kind": "StorageClass", "bindingMode": "a", "volumeBindingMode": "b"}, id="said twice"),
        pytest.param({"kind": "Pod", "metadata": {"name": "a", "Name": "b"}}, id="named twice"),
        pytest.param({"kind": "StorageClass", "spec": {"accessModes": []}}, id="another kind"),
        pytest.param({"kind": "PersistentVolume", "spec": None, "metadata": None}, id="nothing inside"),
        pytest.param({"kind": "CSIDriver", "metadata": {"name": "a"}, "spec": {}}, id="a driver without status"),
        pytest.param({"kind": "CSIStorageCapacity", "capacity": "1Gi"}, id="capacity in today's form"),
        pytest.param({"kind": "Anything", "colour": "blue"}, id="unknown kind"),
        pytest.param({}, id="nothing at all"),
    ],
)
@pytest.mark.req("T2.nothing-else")
def test_everything_else_passes_through(document: Body) -> None:
    assert modernize(document, namespace="storage") == DraftResult((document,))


@pytest.mark.req("C1.converted")
def test_capacity() -> None:
    [text, *_] = draft_examples.CAPACITIES
    documents = [*yaml.safe_load_all(repaired_text(text)[0])]
    outcomes = [modernize(document, namespace="storage") for document in documents]
    assert [one for outcome in outcomes for one in outcome.objects] == [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {"name": f"draft-host-{number}", "namespace": "storage"},
            "nodeTopology": {
                "matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [f"node-{number}"]}]
            },
            "storageClassName": "draft-some",
            "capacity": size,
        }
        for number, size in ((1, "256G"), (2, "512G"))
    ]
    assert "put into namespace storage" in changes_of(outcomes[0])


def capacity(topology: object) -> DraftResult:
    spec: Body = {"driverName": "d", "storageClassName": "c", "capacity": "1Gi"}
    if topology is not None:
        spec["nodeTopology"] = topology
    return modernize(
        {"apiVersion": "x", "kind": "CSIStorageCapacity", "metadata": {"name": "pool"}, "spec": spec}, namespace="ns"
    )


def terms(*rows: Body | None) -> Body:
    """A node selector with a term for each row; None is a term without conditions."""
    return {"nodeSelectorTerms": [{"matchExpressions": [row]} if row else {} for row in rows]}


A = {"key": "zone", "operator": "In", "values": ["a"]}
B = {"key": "zone", "operator": "Exists"}


@pytest.mark.parametrize(
    ("topology", "selectors"),
    [
        pytest.param(None, {"pool": {}}, id="absent meant every node"),
        pytest.param(terms(A), {"pool": {"matchExpressions": [A]}}, id="one term"),
        pytest.param(
            terms(A, B),
            {"pool-1": {"matchExpressions": [A]}, "pool-2": {"matchExpressions": [B]}},
            id="each term is an object",
        ),
        pytest.param(terms(A, None), {"pool": {"matchExpressions": [A]}}, id="an empty term matched nothing"),
        pytest.param(terms(None), {"pool": None}, id="nothing but empty terms: no node"),
        pytest.param(terms(), {"pool": None}, id="no terms: no node"),
    ],
)
@pytest.mark.req("C1.converted")
def test_topology_of_capacity(topology: object, selectors: dict[str, Body | None]) -> None:
    outcome = capacity(topology)
    assert {one["metadata"]["name"]: one.get("nodeTopology") for one in outcome.objects} == selectors


@pytest.mark.parametrize(
    ("topology", "why"),
    [
        pytest.param(terms({"key": "cpus", "operator": "Gt", "values": ["4"]}), "the operator Gt", id="Gt"),
        pytest.param(terms({"key": "cpus", "operator": "Lt", "values": ["4"]}), "the operator Lt", id="Lt"),
        pytest.param(
            {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name"}]}]}, "by matchFields", id="fields"
        ),
        pytest.param({"matchLabels": {"a": "b"}}, "to be a node selector", id="no node selector"),
        pytest.param("node-1", "to be a node selector", id="a word"),
    ],
)
@pytest.mark.req("C1.converted")
def test_unsupported_topology_is_rejected(topology: object, why: str) -> None:
    outcome = capacity(topology)
    assert outcome.objects == ()
    [refusal] = outcome.refusals
    assert refusal.object == "CSIStorageCapacity/pool"
    assert why in refusal.why


@pytest.mark.parametrize(
    ("text", "name", "why"),
    [
        pytest.param(
            draft_examples.DRIVER_STATUS, "CSIDriver/hostpath.example.com", "has no status", id="CSIDriver.status"
        ),
        pytest.param(draft_examples.POOL, "CSIStoragePool/draft-pool", "never became an API", id="CSIStoragePool"),
        pytest.param("- a\n- b\n", "document", "is not an object", id="no object"),
    ],
)
@pytest.mark.req("C1.alternatives")
def test_rejected_alternatives_are_refused_with_the_reason(text: str, name: str, why: str) -> None:
    [document] = yaml.safe_load_all(text)
    outcome = modernize(document, namespace="storage")
    assert outcome.objects == ()
    assert [(refusal.object, why in refusal.why) for refusal in outcome.refusals] == [(name, True)]


def test_lists_are_opened() -> None:
    items = [yaml.safe_load(draft_examples.STANDARD), yaml.safe_load(draft_examples.POOL)]
    outcome = modernize({"kind": "List", "apiVersion": "v1", "items": items}, namespace="storage")
    assert [one["kind"] for one in outcome.objects] == ["StorageClass"]
    assert len(outcome.refusals) == 1
