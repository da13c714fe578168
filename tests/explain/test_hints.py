"""Hints that were dangerous or useless, and what is told instead: each remedy was tried before it was printed."""

import msgspec

from mooring.api import well_known
from mooring.explain.cluster_view import ClusterView
from mooring.explain.orphans import orphans
from mooring.explain.pod import overview
from support.builders import (
    Body,
    capacity_body,
    claim_body,
    claim_ref,
    class_body,
    driver_body,
    node_body,
    pod_body,
    reachable_from,
    volume_body,
)
from support.builders.drivers import DRIVER
from support.explain.clusters import claim_on, claim_report, explained, listed, rendered_pod

SINCE = "2026-01-02T03:04:05Z"
UNREACHABLE = [{"key": well_known.UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
FAST = class_body(name="fast", provisioner=DRIVER)


def lost_node(name: str) -> Body:
    body = node_body(name=name, taints=UNREACHABLE)
    body["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "lastTransitionTime": SINCE}]
    return body


def bound(name: str, volume: Body) -> list[Body]:
    volume["spec"]["claimRef"] = claim_ref(name=name, uid=f"{name}-uid")
    volume["status"] = {"phase": "Bound"}
    named = volume["metadata"]["name"]
    storage_class = volume["spec"]["storageClassName"]
    return [claim_body(name=name, uid=f"{name}-uid", volume=named, bound=True, storage_class=storage_class), volume]


def test_taint_of_a_dead_node_is_neither_tolerated_nor_removed() -> None:
    verdict = explained(lost_node("n1"), pod_body())
    assert verdict.remedy_texts[0] == f"bring n1 back, with its disks: it has not been ready since {SINCE}"
    assert not any("tolerate" in text or "kubectl taint" in text for text in verdict.remedy_texts)


def test_cordoned_node_needs_no_toleration() -> None:
    taint = {"key": well_known.UNSCHEDULABLE, "effect": "NoSchedule"}
    verdict = explained(node_body(name="n1", unschedulable=True, taints=[taint]), pod_body())
    assert verdict.remedy_texts == ("kubectl uncordon n1", "a new node")


def test_no_new_node_is_proposed_for_a_lost_disk() -> None:
    objects = [node_body(name="n1"), class_body(), *bound("data", volume_body(name="v", node="n2"))]
    verdict = explained(*objects, pod_body(claims=["data"]))
    assert verdict.remedy_texts[0].startswith("bring n2 itself back, with the disk that has the data")
    assert not any("a new node" in text or "add a node" in text for text in verdict.remedy_texts)


def test_label_that_names_a_node_is_not_offered_for_another() -> None:
    place = reachable_from("topology.example.com/node", "node-1")
    volume = volume_body(name="v", storage_class="fast", affinity=place)
    verdict = explained(node_body(name="n1"), FAST, *bound("data", volume), pod_body(claims=["data"]))
    assert not any("topology.example.com/node=node-1" in text for text in verdict.remedy_texts)


def test_new_node_comes_with_the_volume_that_the_pod_needs() -> None:
    verdict = explained(
        node_body(name="n1", unschedulable=True),
        class_body(),
        claim_body(name="data", size="8Gi"),
        volume_body(name="v1", node="n1"),
        pod_body(claims=["data"], requests={"cpu": "500m"}),
    )
    assert verdict.remedy_texts[1] == (
        "a new node with 500m cpu free, with a volume for default/data on it: class local, at least 8Gi, ReadWriteOnce"
    )


def test_released_volume_of_a_lost_node_still_has_to_be_cleared() -> None:
    volume = volume_body(name="v", node="n2", phase="Released", claim_ref=claim_ref(name="gone", uid="u"))
    [orphan] = orphans(listed(node_body(name="n1"), volume)).volumes
    assert "the volume is Released and cannot be bound until its claimRef is removed" in orphan.remedy_texts[0]


def test_lost_node_is_visible_before_its_object_is_deleted() -> None:
    terminating = pod_body(name="db-0", claims=["data"], node="n1", phase="Running", deleting=True)
    claim, volume = bound("data", volume_body(name="v", node="n1"))
    objects = listed(lost_node("n1"), node_body(name="n2"), class_body(), claim, volume, terminating)
    lines = {line.what: line for line in overview(ClusterView(objects))}
    assert not lines["pod/db-0"].ok
    assert f"is on n1, which is lost: not ready since {SINCE}" in lines["pod/db-0"].verdict
    assert not lines["pvc/data"].ok
    told = orphans(objects)
    assert told.verdict == "1 volume cannot be reached from any ready node; 1 claim and 1 pod are affected."
    assert told.volumes[0].lost_nodes == ("n1",)
    [claim_pod] = [pod.pod for orphan in told.volumes if orphan.claim for pod in orphan.claim.pods]
    assert claim_pod == "default/db-0"


def test_kubelet_that_says_not_ready_is_lost_after_the_grace_period() -> None:
    body = lost_node("n1")
    body["status"]["conditions"] = [{"type": "Ready", "status": "False", "lastTransitionTime": SINCE}]
    claim, volume = bound("data", volume_body(name="v", node="n1"))
    just_after, later = 1767323045.0 + 10, 1767323045.0 + 120
    for now, state in ((just_after, "Bound"), (later, "Unreachable")):
        assert claim_report(body, class_body(), claim, volume, now=now).state == state


def test_volumes_of_other_classes_are_not_called_too_small() -> None:
    verdict = explained(
        node_body(name="n1"),
        class_body(name="slow"),
        class_body(),
        claim_body(name="data", storage_class="slow", size="20Gi"),
        *(volume_body(name=f"v{number}", size="1Gi") for number in range(12)),
        pod_body(claims=["data"]),
    )
    found = claim_on(verdict, "n1", "data")
    assert found.failed == {"CLASS": 12}
    assert {one.criterion for one in found.candidates} == {"CLASS"}


def test_another_class_with_capacity_is_proposed() -> None:
    here = {"matchLabels": {well_known.HOSTNAME: "n1"}}
    verdict = explained(
        node_body(name="n1"),
        driver_body(tracks_capacity=True),
        FAST,
        class_body(name="slow", provisioner=DRIVER),
        capacity_body(name="fast", storage_class="fast", topology=here, capacity="1Gi"),
        capacity_body(name="slow", storage_class="slow", topology=here, capacity="100Gi"),
        claim_body(name="data", storage_class="fast", size="10Gi"),
        pod_body(claims=["data"]),
    )
    wanted = "create claim default/data, which has no volume and no data yet, again with class slow"
    assert wanted in verdict.remedy_texts


def test_half_stuck_pod_is_offered_to_let_a_volume_go() -> None:
    here = {"matchLabels": {well_known.HOSTNAME: "n2"}}
    place = reachable_from(well_known.HOSTNAME, "n1")
    verdict = explained(
        node_body(name="n1"),
        node_body(name="n2"),
        driver_body(tracks_capacity=True),
        FAST,
        capacity_body(storage_class="fast", topology=here, capacity="100Gi"),
        *bound("data", volume_body(name="v", storage_class="fast", affinity=place)),
        claim_body(name="log", storage_class="fast", size="10Gi"),
        pod_body(claims=["data", "log"]),
    )
    [mend] = [text for text in verdict.remedy_texts if "delete pvc data" in text]
    assert mend.startswith("loses the binding of default/data to v")


def test_counts_of_mismatching_volumes_are_spelled_out() -> None:
    told = rendered_pod(
        listed(
            node_body(name="n1"),
            class_body(),
            claim_body(name="data", size="10Gi"),
            *(volume_body(name=f"v{number}", size="1Gi") for number in range(6)),
            pod_body(claims=["data"]),
        )
    )
    assert "in total: 6 too small" in told


def test_user_that_is_not_listed_is_not_left_blank() -> None:
    claim = claim_body(name="data", access_modes=["ReadWriteOncePod"], volume="v", bound=True, uid="data-uid")
    volume = volume_body(
        name="v", access_modes=["ReadWriteOncePod"], claim_ref=claim_ref(name="data", uid="data-uid"), phase="Bound"
    )
    user = pod_body(name="user", claims=["data"], node="gone", phase="Running")
    told = rendered_pod(listed(node_body(name="n1"), class_body(), claim, volume, user, pod_body(claims=["data"])))
    assert "is used by \n" not in told
    assert "is used by ;" not in told


def test_class_with_zone_parameters_says_where_it_allows_volumes() -> None:
    zonal = class_body(name="gce", provisioner="kubernetes.io/gce-pd", parameters={"zone": "b"})
    claim = claim_body(name="data", storage_class="gce")
    verdict = explained(node_body(name="n1", zone="a"), zonal, claim, pod_body(claims=["data"]))
    assert claim_on(verdict, "n1", "data").detail.endswith(f"allows volumes only in {well_known.ZONE}=b")


def test_remedies_are_typed_for_programs() -> None:
    verdict = explained(node_body(name="n1", unschedulable=True), pod_body())
    told = msgspec.json.decode(msgspec.json.encode(verdict))["remedies"][0]
    assert told == {"text": "kubectl uncordon n1", "changes": [{"type": "Uncordon", "node": "n1"}], "alternatives": []}


def test_what_is_not_enough_names_what_is_needed_besides() -> None:
    each_object = ["ReadWriteOncePod"]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web-uid", "controller": True}
    user = pod_body(name="user", claims=["data"], node="n1", phase="Running", owners=[owner])
    claim, volume = bound("data", volume_body(name="v", access_modes=each_object))
    claim["spec"]["accessModes"] = each_object
    verdict = explained(
        node_body(name="n1", unschedulable=True), class_body(), claim, volume, user, pod_body(claims=["data"])
    )
    assert verdict.remedy_texts == ()
    assert verdict.not_enough[0].startswith("kubectl uncordon n1; also needs: node(s) unavailable due to ")
    assert "claim default/data is used by default/user on n1" in verdict.not_enough[0]
