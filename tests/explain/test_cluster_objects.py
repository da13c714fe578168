"""What is taken from listed documents, what is left out, and what is refused."""

import asyncio
import dataclasses
import random
from collections import Counter

import pytest

from mooring.api.kinds import (
    CLAIM,
    DISRUPTION_BUDGET,
    NODE,
    POD,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    SERVICE,
    STATEFUL_SET,
    Kind,
)
from mooring.api.views.meta import ApiObject
from mooring.client.contract import V
from mooring.client.informer import Informer, Informers
from mooring.explain.cluster_objects import SCHEDULING_KINDS, ClusterObjects, MalformedObject
from mooring.scheduler.component import Scheduler
from support.builders import Body, attachment_body, claim_body, csi_node_body, node_body, pod_body, volume_body
from support.builders.drivers import DRIVER
from support.explain.clusters import explained, listed
from support.scheduler.cluster import SmallWorld, in_world


def test_lists_are_taken_apart() -> None:
    mixed = {"apiVersion": "v1", "kind": "List", "items": [node_body(name="n1"), pod_body(name="p1")]}
    objects = listed(mixed)
    assert [node.name for node in objects.of(NODE)] == ["n1"]
    assert [pod.key for pod in objects.of(POD)] == ["default/p1"]


def test_items_of_a_list_of_one_kind_need_not_repeat_it() -> None:
    items = [{"metadata": {"name": "n1"}}, {"metadata": {"name": "n2"}}]
    objects = listed({"apiVersion": "v1", "kind": "NodeList", "items": items})
    assert sorted(node.name for node in objects.of(NODE)) == ["n1", "n2"]


def test_an_empty_list_is_fine() -> None:
    assert not listed({"apiVersion": "v1", "kind": "List", "items": None}).of(NODE)


def test_what_names_no_namespace_is_in_default() -> None:
    body = claim_body(name="data")
    del body["metadata"]["namespace"]
    assert listed(body).get(CLAIM, "default/data") is not None


def test_the_last_of_two_objects_of_one_name_counts() -> None:
    objects = listed(node_body(unschedulable=True), node_body())
    [node] = objects.of(NODE)
    assert not node.spec.unschedulable


def test_other_kinds_are_counted_and_left_out() -> None:
    objects = listed(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "b"}},
        {"apiVersion": "example.com/v1", "kind": "Frob", "metadata": {"name": "c"}},
        {"apiVersion": "storage.k8s.io/v1beta1", "kind": "StorageClass", "metadata": {"name": "d"}},
    )
    counted = {"Service": 2, "Frob (example.com/v1)": 1, "StorageClass (storage.k8s.io/v1beta1)": 1}
    assert objects.skipped == Counter(counted)


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        pytest.param("hello", "expected a mapping", id="a word"),
        pytest.param([], "expected a mapping", id="a bare list"),
        pytest.param({"metadata": {}}, "kind and apiVersion are missing", id="no kind"),
        pytest.param({"kind": 1, "apiVersion": "v1"}, "kind and apiVersion are missing", id="a number for a kind"),
        pytest.param({"kind": "Pod", "apiVersion": "v1"}, "Pod without a name", id="no name"),
        pytest.param({"kind": "PodList", "apiVersion": "v1", "items": 3}, "must be a list", id="items that are none"),
        pytest.param({"kind": "List", "apiVersion": "v1", "items": ["x"]}, "expected a mapping", id="an odd item"),
        pytest.param(
            {"kind": "List", "apiVersion": "v1", "items": [{"kind": "List", "apiVersion": "v1", "items": []}]},
            "a list within a list",
            id="a list within a list",
        ),
        pytest.param(
            {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": {"volumes": "none"}},
            "Pod p: Expected `array`, got `str` - at `$.spec.volumes`",
            id="a field of the wrong type",
        ),
    ],
)
def test_a_malformed_document_is_refused_in_one_sentence(document: object, complaint: str) -> None:
    with pytest.raises(MalformedObject) as refused:
        ClusterObjects().add(document)
    assert complaint in str(refused.value)


def test_objects_invalid_to_the_scheduler_are_reported_as_problems() -> None:
    body = node_body(allocatable={"cpu": "many"})
    _, problems = listed(body, volume_body(size="huge")).snapshot()
    assert len(problems) == 2
    assert problems[0].startswith("Node node-1: status.allocatable:")
    assert problems[1].startswith("PersistentVolume volume-1: ")


def test_a_pod_can_be_left_out_of_the_snapshot() -> None:
    body: Body = pod_body(node="node-1")
    objects = listed(node_body(), body)
    [pod] = objects.of(POD)
    assert objects.snapshot()[0].node_of(pod) == "node-1"
    assert objects.snapshot(without=pod.key)[0].node_of(pod) == ""


def csi(handle: str) -> Body:
    return {"csi": {"driver": DRIVER, "volumeHandle": handle}}


def test_limits_and_attachments_count() -> None:
    """One volume of the driver fits on the node, and another one is attached there already."""
    bodies = [
        node_body(),
        volume_body(name="own", source=csi("a"), phase="Bound"),
        claim_body(name="data", volume="own", bound=True),
        volume_body(name="other", source=csi("b"), phase="Bound"),
        pod_body(claims=["data"]),
    ]
    limit, attached = csi_node_body(limits={DRIVER: 1}), attachment_body(volume="other")
    assert explained(*bodies, limit).ok
    assert explained(*bodies, attached).ok
    assert not explained(*bodies, limit, attached).ok


def test_labels_of_namespaces_count() -> None:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "loud"}},
        "namespaceSelector": {"matchLabels": {"team": "other"}},
    }
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    bodies = [
        node_body(),
        pod_body(affinity=apart),
        pod_body(name="loud", namespace="theirs", node="node-1", labels={"app": "loud"}),
    ]
    theirs = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "theirs", "labels": {"team": "other"}}}
    assert explained(*bodies).ok
    assert not explained(*bodies, theirs).ok


#: Who is evicted last, and which pods are rather kept apart: nothing of it says who fits where.
PREFERENCES = {DISRUPTION_BUDGET, SERVICE, STATEFUL_SET, REPLICA_SET, REPLICATION_CONTROLLER}


class MatchedClaims(Informers):
    """Informers that remember what they were requested."""

    def __init__(self, world: SmallWorld) -> None:
        super().__init__(world.client, world.clock, random.Random(0))
        self.kinds: set[Kind[ApiObject]] = set()

    def of(self, kind: Kind[V]) -> Informer[V]:
        self.kinds.add(kind)
        return super().of(kind)


def test_explain_looks_at_all_that_the_scheduler_looks_at() -> None:
    async def scenario(world: SmallWorld) -> None:
        informers = MatchedClaims(world)
        running = asyncio.create_task(Scheduler(dataclasses.replace(world.context, informers=informers)).run())
        await world.settle()
        running.cancel()
        assert informers.kinds - PREFERENCES == set(SCHEDULING_KINDS)

    in_world(scenario)
