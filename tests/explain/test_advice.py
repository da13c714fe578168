"""What would help: the least that would have to change."""

from builders import Body, claim_body, claim_ref, class_body, node_body, pod_body, reachable_from, volume_body
from explain.worlds import explained
from mooring.api import keys
from mooring.api.kinds import NODE, POD
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.pod import explain_pod

FAST = class_body(name="fast", provisioner="csi.example.com")


def bound_in(name: str, *zones: str) -> list[Body]:
    uid = f"{name}-uid"
    volume = volume_body(
        name=f"pv-{name}",
        storage_class="fast",
        affinity=reachable_from(keys.ZONE, *zones),
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
    assert verdict.helps == (
        "kubectl uncordon b1 and ask for at most 1 cpu: 2 asked for, 1 of 1 free",
        f"a new node with {keys.ZONE}=b and 2 cpu free",
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
    assert verdict.helps == (
        "kubectl uncordon b1",
        f"a new node with {keys.ZONE} in (a,b) and {keys.ZONE} in (b,c)",
    )


def test_nodes_with_little_in_their_way_come_first() -> None:
    verdict = explained(
        node_body(name="n1", unschedulable=True, allocatable={"cpu": "1"}),
        node_body(name="n2", unschedulable=True),
        pod_body(requests={"cpu": "2"}),
    )
    assert verdict.helps[0] == "kubectl uncordon n2"


def test_a_pod_that_fits_needs_no_help() -> None:
    assert explained(node_body(), pod_body()).helps == ()


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
    assert verdict.helps == (
        "loses default/pod-1: what runs there ends; only if its owner makes another, which is scheduled again: "
        "kubectl -n default delete pod pod-1",
    )


def test_who_cannot_see_nodes_is_told_so() -> None:
    objects = ClusterObjects(unseen={NODE: "nodes is forbidden"})
    objects.add(pod_body())
    pod = objects.get(POD, "default/pod-1")
    assert pod is not None
    verdict = explain_pod(pod, objects).verdict
    assert verdict.verdict == "Where default/pod-1 would go cannot be said, since nodes cannot be seen."
    assert not verdict.ok
    assert verdict.helps == ()
    assert verdict.checks == ("ask for the right to list nodes; `mooring docs explain` has the role",)


def test_a_class_that_allows_other_places_only() -> None:
    zonal = class_body(name="fast", provisioner="csi.example.com", allowed_topologies=[{keys.ZONE: ["b"]}])
    verdict = explained(
        node_body(name="a1", zone="a"), zonal, claim_body(name="data", storage_class="fast"), pod_body(claims=["data"])
    )
    assert verdict.helps == (
        f"create StorageClass fast again so that it allows volumes in {keys.ZONE}=a",
        f"a new node with {keys.ZONE}=b",
    )


def test_a_volume_that_no_node_may_use_is_in_conflict_with_none() -> None:
    claim, volume = bound_in("data", "b")
    volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] = []
    verdict = explained(node_body(name="a1", zone="a"), FAST, claim, volume, pod_body(claims=["data"]))
    assert verdict.checks == ("create PersistentVolume pv-data again, with a node affinity that a node can have",)
