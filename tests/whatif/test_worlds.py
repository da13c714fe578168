"""Clusters that are special in one way, and what would happen in them."""

import pytest

from mooring.api import well_known
from mooring.api.kinds import CSI_NODE
from mooring.whatif.drivers import SimulatedDriver, simulated_drivers
from support.builders import Body, claim_body, claim_ref, class_body, csi_node_body, node_body, pod_body, volume_body
from support.whatif.questions import (
    DRIVER,
    FAST,
    asked,
    inventory,
    nodes,
    pending,
    placed,
    pool,
    provisioned_class,
    replica_set,
    running,
    stateful_set,
)

HASH = {"app": "web", "pod-template-hash": "abc"}


def deployment(*, replicas: int) -> list[Body]:
    """A Deployment as another implementation made it, with its ReplicaSet and pods on n1."""
    template = replica_set(replicas=1)["spec"]["template"]
    # Servers of some versions print what they have no value for.
    template["metadata"]["creationTimestamp"] = None
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": "web-uid",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "generation": 1,
            "annotations": {"deployment.kubernetes.io/revision": "1"},
        },
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template},
        "status": {"replicas": replicas},
    }
    own = replica_set("web-abc", replicas=replicas, uid="web-abc-uid", labels=HASH)
    own["metadata"] |= {
        "labels": HASH,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {
            "deployment.kubernetes.io/revision": "1",
            "deployment.kubernetes.io/desired-replicas": str(replicas),
        },
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web-uid", "controller": True}
        ],
    }
    return [owner, own, *(running(f"web-abc-{number}", node="n1", owner=own) for number in range(replicas))]


def test_a_deployment_that_grows_does_so_in_the_set_it_has() -> None:
    result = asked(*nodes(2), *deployment(replicas=1), scale=["deploy/web=3"])
    assert result.ok
    assert len(result.placements) == 2
    assert all(each.pod.startswith("default/web-abc-") for each in result.placements)
    assert result.difference.pods_removed == ()


def test_an_unchanged_deployment_keeps_its_pods() -> None:
    assert asked(*nodes(2), *deployment(replicas=2)).difference.pods_added == ()


def test_an_owner_that_no_server_would_have_is_left_alone() -> None:
    wrong = replica_set(replicas=2, uid="web-uid")
    wrong["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    wrong["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    result = asked(*nodes(1), wrong)
    assert result.placements == ()
    [note] = result.notes
    assert note.startswith("replicaset/default/web is ignored: ")


def test_nodes_take_as_many_volumes_as_their_driver_says() -> None:
    limits = [csi_node_body(name=name, limits={DRIVER: 1}) for name in ("n1", "n2")]
    there = [*nodes(2), *limits, *provisioned_class(), pool("n1", "9Gi"), pool("n2", "9Gi")]
    for entry in limits:
        entry["spec"]["drivers"][0]["topologyKeys"] = [well_known.HOSTNAME]
    result = asked(*there, stateful_set(replicas=3))
    assert sorted(placed(result)) == ["db-0", "db-1"]
    assert "exceed max volume count" in pending(result)["db-2"]


def test_claims_of_pods_alone_go_with_them_and_come_again() -> None:
    owner = replica_set(replicas=1, uid="web-uid")
    template = {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": FAST,
            "resources": {"requests": {"storage": "1Gi"}},
        }
    }
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    owner["spec"]["template"]["spec"]["volumes"] = [scratch]
    pod = running("web-a", node="n1", owner=owner, volumes=[scratch])
    whose = {"apiVersion": "v1", "kind": "Pod", "name": "web-a", "uid": "web-a-uid", "controller": True}
    claim = claim_body(
        name="web-a-scratch", uid="s-uid", storage_class=FAST, volume="old", bound=True, phase="Bound", owners=[whose]
    )
    result = asked(
        *nodes(2), *provisioned_class(), pool("n1", "5Gi"), pool("n2", "5Gi"), owner, pod, claim, drain=["n1"]
    )
    assert result.ok, result
    [placement] = result.placements
    assert placement.node == "n2"
    assert placement.claims[0].made


def test_an_immediate_class_provisions_where_there_is_capacity() -> None:
    at_once = class_body(name=FAST, provisioner=DRIVER, binding_mode="Immediate")
    result = asked(*nodes(2), at_once, pool("n1", "1Gi"), pool("n2", "5Gi"), stateful_set(size="3Gi"))
    assert placed(result) == {"db-0": "n2"}


def test_disks_of_a_cloud_have_no_end_and_a_zone() -> None:
    zonal = class_body(name=FAST, provisioner="ebs.csi.aws.com")
    result = asked(*nodes(2), zonal, stateful_set(replicas=2, size="900Gi"), remove_zones=["b"])
    assert set(placed(result).values()) == {"n1"}
    assert result.capacity == ()


def test_a_driver_without_capacity_objects_makes_what_is_asked_for() -> None:
    result = asked(*nodes(1), class_body(name=FAST, provisioner=DRIVER), stateful_set(size="900Ti"))
    assert result.ok


def test_a_provisioner_that_is_no_csi_driver_makes_volumes_where_its_others_are() -> None:
    name = "rancher.io/local-path"
    made = volume_body(name="old", node="n2", storage_class=FAST, annotations={well_known.PROVISIONED_BY: name})
    there = [*nodes(2), class_body(name=FAST, provisioner=name), made]
    first = asked(*there, stateful_set())
    assert first.ok
    there[2]["provisioner"] = "example.com/anywhere"
    assert asked(*there, stateful_set()).ok
    introduced = inventory([*nodes(2), class_body(name=FAST, provisioner=name), made])
    assert simulated_drivers(introduced) == [SimulatedDriver(name, topology=True)]
    assert introduced.body(CSI_NODE, "n1")["spec"]["drivers"] == [
        {"name": name, "nodeID": "n1", "topologyKeys": [well_known.HOSTNAME]}
    ]


def test_the_simulation_waits_for_min_ready_seconds() -> None:
    slow = stateful_set(replicas=3, minReadySeconds=600)
    result = asked(*nodes(1), *provisioned_class(), pool("n1", "9Gi"), slow)
    assert result.ok
    assert len(result.placements) == 3
    assert result.seconds >= 2 * 600


def test_pods_of_higher_priority_make_others_leave() -> None:
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 1000,
    }
    owner = replica_set(replicas=1, uid="web-uid")
    pod = pod_body(name="first", requests={"cpu": "4"})
    del pod["status"]
    pod["spec"]["priorityClassName"] = "urgent"
    result = asked(node_body(name="n1"), urgent, owner, running("web-a", node="n1", owner=owner), pod)
    assert placed(result) == {"first": "n1"}
    assert [each.reason.partition(".")[0] for each in result.pending] == ["0/1 nodes are available: 1 Insufficient cpu"]
    assert result.difference.pods_removed == ("default/web-a",)


def made(number: int, *, node: str, size: str) -> list[Body]:
    """A running pod of the set `db`, its claim, and the volume that the driver made for it."""
    claim, volume, pod = f"data-db-{number}", f"pvc-{number}", f"db-{number}"
    owner = stateful_set(uid="db-uid")
    return [
        claim_body(
            name=claim, uid=f"{claim}-uid", volume=volume, bound=True, phase="Bound", storage_class=FAST, size=size
        ),
        volume_body(
            name=volume,
            uid=f"{volume}-uid",
            node=node,
            size=size,
            storage_class=FAST,
            reclaim="Delete",
            phase="Bound",
            claim_ref=claim_ref(name=claim, uid=f"{claim}-uid"),
            source={"csi": {"driver": DRIVER, "volumeHandle": f"handle-{number}"}},
            annotations={well_known.PROVISIONED_BY: DRIVER},
        ),
        running(pod, node=node, owner=owner, claims=[claim]),
    ]


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        pytest.param("Delete", "1Gi", id="with the claim goes the volume, and its room is there again"),
        pytest.param("Retain", "0", id="a claim that stays keeps its room"),
    ],
)
def test_deleted_volumes_return_their_capacity_to_pending_pods(policy: str, left: str) -> None:
    owner = stateful_set(
        replicas=1, size="4Gi", uid="db-uid", persistentVolumeClaimRetentionPolicy={"whenScaled": policy}
    )
    there = [*nodes(1), *provisioned_class(), pool("n1", "0"), owner, *made(0, node="n1", size="4Gi")]
    claim, pod = claim_body(name="wanted", storage_class=FAST, size="3Gi"), pod_body(name="late", claims=["wanted"])
    for each in (claim, pod):
        each.pop("status", None)
    result = asked(*there, claim, pod, scale=["sts/db=0"])
    assert placed(result) == ({"late": "n1"} if policy == "Delete" else {})
    assert [each.after for each in result.capacity] == [left]
