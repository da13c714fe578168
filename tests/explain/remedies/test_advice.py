"""What would help: the least that would have to change."""

from mooring.api import well_known
from mooring.api.kinds import NODE, POD
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.pod import explain_pod
from support.builders import Body, claim_body, claim_ref, class_body, node_body, pod_body, reachable_from, volume_body
from support.explain.clusters import explained

FAST = class_body(name="fast", provisioner="csi.example.com")


def bound_in(name: str, *zones: str) -> list[Body]:
    uid = f"{name}-uid"
    volume = volume_body(
        name=f"pv-{name}",
        storage_class="fast",
        affinity=reachable_from(well_known.ZONE, *zones),
        claim_ref=claim_ref(name=name, uid=uid),
        phase="Bound",
    )
    return [claim_body(name=name, storage_class="fast", volume=f"pv-{name}", bound=True, uid=uid), volume]


def test_the_nodes_that_reach_the_volume_come_before_those_that_do_not() -> None:
    verdict = explained(
        node_body(name="a1", zone="a"),
        node_body(name="b1", zone="b", unschedulable=True, allocatable={"cpu": "1"}),
        FAST,
        *bound_in("data", "b"),
        pod_body(claims=["data"], requests={"cpu": "2"}),
    )
    assert verdict.remedy_texts == (
        "kubectl uncordon b1 and request at most 1 cpu: 2 requested, 1 of 1 free",
        f"a new node with {well_known.ZONE}=b and 2 cpu free",
    )


def test_places_that_have_one_in_common_are_no_conflict() -> None:
    verdict = explained(
        node_body(name="a1", zone="a"),
        node_body(name="b1", zone="b", unschedulable=True),
        FAST,
        *bound_in("data", "a", "b"),
        *bound_in("log", "b", "c"),
        pod_body(claims=["data", "log"]),
    )
    assert verdict.remedy_texts == (
        "kubectl uncordon b1",
        f"a new node with {well_known.ZONE} in (a,b) and {well_known.ZONE} in (b,c)",
    )


def test_nodes_with_little_in_their_way_come_first() -> None:
    verdict = explained(
        node_body(name="n1", unschedulable=True, allocatable={"cpu": "1"}),
        node_body(name="n2", unschedulable=True),
        pod_body(requests={"cpu": "2"}),
    )
    assert verdict.remedy_texts[0] == "kubectl uncordon n2"


def test_a_pod_that_fits_needs_no_help() -> None:
    assert explained(node_body(), pod_body()).remedy_texts == ()


def test_a_pod_that_is_where_it_cannot_use_its_volume() -> None:
    verdict = explained(
        node_body(name="a1", zone="a"), FAST, *bound_in("data", "a", "b"), pod_body(claims=["data"], node="a1")
    )
    assert verdict.ok
    verdict = explained(
        node_body(name="a1", zone="a"),
        node_body(name="b1", zone="b"),
        FAST,
        *bound_in("data", "b"),
        pod_body(claims=["data"], node="a1"),
    )
    assert not verdict.ok
    assert verdict.remedy_texts == (
        "loses default/pod-1: its containers are stopped; only if its controller recreates it: "
        "kubectl -n default delete pod pod-1",
    )


def test_the_missing_right_to_list_nodes_is_reported() -> None:
    objects = ClusterObjects(unlisted={NODE: "nodes is forbidden"})
    objects.add(pod_body())
    pod = objects.get(POD, "default/pod-1")
    assert pod is not None
    verdict = explain_pod(pod, objects)[0]
    assert verdict.verdict == "It is unknown where default/pod-1 fits: nodes cannot be listed."
    assert not verdict.ok
    assert verdict.remedy_texts == ()
    assert verdict.checks == ("ask for the right to list nodes; `mooring docs explain` has the role",)


def test_a_class_that_allows_other_places_only() -> None:
    zonal = class_body(name="fast", provisioner="csi.example.com", allowed_topologies=[{well_known.ZONE: ["b"]}])
    verdict = explained(
        node_body(name="a1", zone="a"), zonal, claim_body(name="data", storage_class="fast"), pod_body(claims=["data"])
    )
    assert verdict.remedy_texts == (
        f"create StorageClass fast again so that it allows volumes in {well_known.ZONE}=a",
        f"a new node with {well_known.ZONE}=b",
    )


def test_a_volume_that_no_node_may_use_is_in_conflict_with_none() -> None:
    claim, volume = bound_in("data", "b")
    volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] = []
    verdict = explained(node_body(name="a1", zone="a"), FAST, claim, volume, pod_body(claims=["data"]))
    assert verdict.checks == ("create PersistentVolume pv-data again, with a node affinity that a node can have",)
