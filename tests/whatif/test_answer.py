"""What would happen: questions about small clusters, and their answers."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from mooring.whatif.inventory import BadQuestion
from mooring.whatif.results import LostPod, Segment
from support.builders import class_body, node_body, pod_body
from support.whatif.questions import (
    FAST,
    asked,
    local_set,
    nodes,
    pending,
    placed,
    pool,
    provisioned_class,
    replica_set,
    running,
    stateful_set,
)

TESTS = Path(__file__).parents[1]


def test_new_pods_get_nodes_and_volumes_and_the_capacity_follows() -> None:
    result = asked(*nodes(2), *provisioned_class(), pool("n1", "3Gi"), pool("n2", "1Gi"), stateful_set(replicas=4))
    assert result.ok
    assert result.verdict == "All 4 pods are scheduled."
    assert sorted(placed(result).values()) == ["n1", "n1", "n1", "n2"]
    [claim] = result.placements[0].claims
    assert (claim.storage_class, claim.size, claim.made) == (FAST, "1Gi", True)
    assert [(each.segment["kubernetes.io/hostname"], each.before, each.after) for each in result.capacity] == [
        ("n1", "3Gi", "0"),
        ("n2", "1Gi", "0"),
    ]
    assert len(result.difference.volumes_made) == 4


def test_running_pods_stay_where_they_are() -> None:
    owner = replica_set(replicas=2, uid="web-uid")
    there = [owner, running("web-a", node="n1", owner=owner), running("web-b", node="n1", owner=owner)]
    result = asked(*nodes(3), *there)
    assert result.ok
    assert result.verdict == "No pod needs to be scheduled, and none stays pending."
    assert result.difference == msgspec.structs.replace(result.difference, pods_moved=(), pods_added=())


def test_a_drained_node_with_a_local_volume_leaves_its_pod_pending_and_says_why() -> None:
    result = asked(*nodes(3), *local_set("n1", "n2"), drain=["n1"])
    assert not result.ok
    assert result.verdict == "1 pod stays pending."
    reason = pending(result)["db-0"]
    assert "1 node(s) were unschedulable" in reason
    assert "2 node(s) didn't match PersistentVolume's node affinity" in reason
    [explanation] = result.explanations
    assert explanation.pod == "default/db-0"
    assert any("disk-0" in paragraph for paragraph in explanation.paragraphs)
    assert result.difference.pods_moved == ("default/db-0: n1 → nowhere",)
    assert result.difference.nodes_drained == ("n1",)


def test_pods_without_volumes_move_when_their_node_is_drained() -> None:
    owner = replica_set(replicas=2, uid="web-uid")
    there = [owner, running("web-a", node="n1", owner=owner), running("web-b", node="n2", owner=owner)]
    result = asked(*nodes(2), *there, drain=["n1"])
    assert result.ok
    assert [each.node for each in result.placements] == ["n2"]
    assert result.difference.pods_removed == ("default/web-a",)


def test_a_budget_keeps_a_pod_on_a_drained_node() -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    owner = replica_set(replicas=1, uid="web-uid")
    result = asked(*nodes(2), owner, running("web-a", node="n1", owner=owner), budget, drain=["n1"])
    assert not result.ok
    [blocked] = result.blocked
    assert (blocked.pod, blocked.node) == ("default/web-a", "n1")
    assert "disruption budget" in blocked.reason


def test_what_belongs_to_a_node_stays_on_it_when_it_is_drained() -> None:
    template = replica_set("agent", replicas=1)["spec"]["template"]
    daemon = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "default", "uid": "agent-uid"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template},
    }
    there = [running(f"agent-{node}", node=node, owner=daemon) for node in ("n1", "n2")]
    static = running("etcd-n1", node="n1", annotations={"kubernetes.io/config.mirror": "x"})
    result = asked(*nodes(2), daemon, *there, static, drain=["n1"])
    assert result.ok
    assert result.difference.pods_removed == ()


def test_a_pod_of_a_controller_that_takes_no_part_is_followed_by_a_copy() -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum", "uid": "sum-uid"}}
    result = asked(*nodes(2), running("sum-x", node="n1", owner=job), drain=["n1"])
    assert result.ok
    assert result.difference.pods_moved == ("default/sum-x: n1 → n2",)


def test_a_pod_without_a_controller_is_lost() -> None:
    result = asked(*nodes(2), running("alone", node="n1"), drain=["n1"])
    assert not result.ok
    assert result.lost == (LostPod("default/alone", "n1", "it has no controller that recreates it"),)
    assert result.verdict == "1 pod is lost."


@pytest.mark.parametrize(
    ("zone", "want"),
    [
        pytest.param("a", {"db-0"}, id="the zone of the first"),
        pytest.param("b", {"db-1"}, id="the zone of the second"),
    ],
)
def test_what_was_in_a_lost_zone_stays_pending(zone: str, want: set[str]) -> None:
    result = asked(*nodes(2), *local_set("n1", "n2"), remove_zones=[zone])
    assert pending(result).keys() == want
    assert result.difference.nodes_removed == (("n1",) if zone == "a" else ("n2",))


def test_capacity_that_only_the_lost_zone_reached_is_not_offered_any_more() -> None:
    result = asked(*nodes(2), *provisioned_class(), pool("n1", "3Gi"), pool("n2", "3Gi"), remove_zones=["a"])
    gone = Segment("default/room-n1", FAST, {"kubernetes.io/hostname": "n1"}, 0, "3Gi", None)
    assert gone in result.capacity


@pytest.mark.req("C20.answer")
def test_a_node_more_with_its_pool_is_what_an_autoscaler_could_not_know() -> None:
    """Two nodes have no room for four volumes of 2Gi; how many nodes more would do, with the storage they bring?"""
    there = [
        *nodes(2),
        *provisioned_class(),
        pool("n1", "2Gi"),
        pool("n2", "2Gi"),
        stateful_set(replicas=4, size="2Gi"),
    ]
    outcomes = [asked(*there, add=[("n1", count)]) for count in range(3)]
    assert [result.ok for result in outcomes] == [False, False, True]
    assert "did not have enough free storage" in pending(outcomes[1])["db-3"]
    assert set(placed(outcomes[2]).values()) == {"n1", "n2", "n1-new-1", "n1-new-2"}


def test_a_scaled_set_gets_claims_and_volumes_for_its_new_pods() -> None:
    there = [*nodes(3), *provisioned_class(), *(pool(f"n{n}", "1Gi") for n in (1, 2, 3)), stateful_set(replicas=1)]
    result = asked(*there, scale=["sts/db=3"])
    assert sorted(placed(result)) == ["db-0", "db-1", "db-2"]
    assert len(result.difference.claims_bound) == 3


def test_pods_that_are_not_even_made_are_counted() -> None:
    result = asked(*nodes(1), *provisioned_class(), pool("n1", "1Gi"), stateful_set(replicas=4))
    assert pending(result).keys() == {"db-1"}
    [short] = result.shortfalls
    assert (short.workload, short.desired, short.pods) == ("statefulset/default/db", 4, 2)
    assert result.verdict == "1 of 2 pods are scheduled; 1 pod stays pending and 2 pods are not created."


def test_a_deployment_is_scaled_down() -> None:
    owner = replica_set(replicas=3, uid="web-uid")
    there = [running(f"web-{n}", node="n1", owner=owner) for n in range(3)]
    result = asked(*nodes(1), owner, *there, scale=["rs/web=1"])
    assert result.ok
    assert len(result.difference.pods_removed) == 2


def test_an_unchanged_set_keeps_its_pods_whatever_their_hashes() -> None:
    result = asked(*nodes(2), *local_set("n1", "n2"))
    assert result.ok
    assert result.placements == ()


def test_a_new_version_of_a_set_that_is_there_replaces_its_pods() -> None:
    changed = stateful_set(replicas=2, storage_class="local")
    changed["spec"]["template"]["metadata"]["labels"] = {"app": "db", "version": "2"}
    result = asked(*nodes(2), *local_set("n1", "n2"), changed)
    assert result.ok
    assert placed(result) == {"db-0": "n1", "db-1": "n2"}


def test_a_deployment_with_unlisted_replica_sets_is_ignored() -> None:
    spec = replica_set(replicas=2)["spec"]
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "uid": "web-uid"},
        "spec": spec,
        "status": {"replicas": 2},
    }
    result = asked(*nodes(1), deployment)
    assert result.placements == ()
    assert result.notes == ("deployment/default/web is ignored: its ReplicaSets are not among the objects",)


def test_pods_pending_before_are_marked() -> None:
    result = asked(*nodes(1), pod_body(name="huge", requests={"cpu": "100"}, uid="huge-uid"))
    assert [(each.pod, each.already) for each in result.pending] == [("default/huge", True)]
    assert result.verdict == "No pod becomes pending; 1 pod stays pending as before."
    assert result.ok


def test_pods_that_become_pending_beside_others_make_the_result_bad() -> None:
    waiting = pod_body(name="huge", requests={"cpu": "100"}, uid="huge-uid")
    new = pod_body(name="new", requests={"cpu": "100"})
    del new["status"]
    result = asked(*nodes(1), waiting, new)
    assert [(each.pod, each.already) for each in result.pending] == [("default/new", False), ("default/huge", True)]
    assert not result.ok


def test_missing_pods_of_a_set_count_only_if_more_are_missing_than_before() -> None:
    there = [*nodes(1), stateful_set(replicas=3, uid="db-uid") | {"status": {"replicas": 0}}, class_body(name=FAST)]
    first = pod_body(
        name="db-0",
        uid="db-0-uid",
        labels={"app": "db"},
        requests={"cpu": "100"},
        owners=[{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "db-uid", "controller": True}],
    )
    before = asked(*there, first)
    assert [(each.workload, each.already) for each in before.shortfalls] == [("statefulset/default/db", True)]
    scaled = asked(*there, first, scale=["sts/db=5"])
    assert [(each.workload, each.already) for each in scaled.shortfalls] == [("statefulset/default/db", False)]
    assert not scaled.ok


def test_draining_a_zone_drains_its_nodes_and_keeps_its_volumes() -> None:
    owner = replica_set(replicas=2, uid="web-uid")
    there = [owner, running("web-a", node="n1", owner=owner), running("web-b", node="n3", owner=owner)]
    result = asked(*nodes(4), *there, *local_set("n3"), drain_zones=["a"])
    assert result.difference.nodes_drained == ("n1", "n3")
    assert result.difference.volumes_removed == ()
    assert {each.node for each in result.placements} <= {"n2", "n4"}
    assert [each.pod for each in result.pending] == ["default/db-0"]


def test_draining_an_unknown_zone_names_the_zones() -> None:
    with pytest.raises(BadQuestion, match="zone z has no nodes: existing zones: a, b"):
        asked(*nodes(2), drain_zones=["z"])


def test_a_pod_that_was_put_onto_a_node_past_the_scheduler_does_not_start_without_its_volume() -> None:
    pod = pod_body(name="preset", node="n1", claims=["data"])
    del pod["status"]
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": FAST,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    result = asked(*nodes(1), *provisioned_class(), pool("n1", "5Gi"), claim, pod)
    assert "nodeName was set without the scheduler" in pending(result)["preset"]


def test_pods_of_other_schedulers_are_scheduled_with_a_note() -> None:
    pod = pod_body(name="web", scheduler="stork")
    del pod["status"]
    result = asked(*nodes(1), pod)
    assert placed(result) == {"web": "n1"}
    assert result.notes == ("pods that ask for the scheduler stork are scheduled as the default scheduler does it",)


def test_unlisted_secrets_are_not_needed() -> None:
    secret = {
        "csi.storage.k8s.io/provisioner-secret-name": "key",
        "csi.storage.k8s.io/provisioner-secret-namespace": "x",
    }
    named = class_body(name=FAST, provisioner="disks.example.com", parameters=secret)
    result = asked(*nodes(1), named, pool("n1", "1Gi"), stateful_set(replicas=1))
    assert result.ok


def test_nodes_that_are_not_ready_start_nothing() -> None:
    result = asked(node_body(name="n1", ready=False), replica_set(replicas=1))
    assert [*pending(result).values()] == ["its node n1 is not ready"]
    assert result.placements == ()


def a_digest(seed: int) -> bytes:
    there = [*nodes(4), *provisioned_class(), *(pool(f"n{n}", "4Gi") for n in range(1, 5)), stateful_set(replicas=6)]
    return msgspec.json.encode(asked(*there, replica_set(replicas=7), seed=seed))


def in_a_process(hash_seed: int) -> bytes:
    environment = os.environ | {
        "PYTHONHASHSEED": str(hash_seed),
        "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
    }
    script = "import sys; from whatif.test_answer import a_digest; sys.stdout.buffer.write(a_digest(0))"
    return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True).stdout


def test_the_same_question_gets_the_same_bytes_whatever_the_order_of_sets() -> None:
    answers = {in_a_process(hash_seed).splitlines()[-1] for hash_seed in (1, 2)}
    assert answers == {a_digest(0)}


def test_another_seed_chooses_otherwise_among_equals() -> None:
    assert a_digest(0) != a_digest(1)


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param({"drain": ["n9"]}, "node n9 to drain not found", id="no such node to drain"),
        pytest.param({"remove_zones": ["z"]}, "zone z has no nodes: existing zones: a, b", id="no such zone"),
        pytest.param({"add": [("n9", 1)]}, "template node n9 not found", id="no such template"),
        pytest.param({"scale": ["sts/db=1"]}, "StatefulSet default/db to scale not found", id="nothing to scale"),
        pytest.param({"scale": ["job/x=1"]}, "'job' has no replicas to scale", id="a kind without replicas"),
        pytest.param({"scale": ["sts/x"]}, "'sts/x' does not say what to scale", id="no number"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(changes: dict[str, list[str]], want: str) -> None:
    with pytest.raises(BadQuestion, match=want):
        asked(*nodes(2), **changes)


def test_a_new_object_that_the_server_would_refuse_is_named() -> None:
    wrong = stateful_set(replicas=1)
    del wrong["spec"]["template"]["metadata"]["labels"]
    with pytest.raises(BadQuestion, match="StatefulSet default/db: "):
        asked(*nodes(1), *provisioned_class(), wrong)


def test_lost_node_and_its_pods_are_noted() -> None:
    lost = node_body(name="n1")
    lost["status"]["conditions"] = [
        {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-02T03:04:05Z"}
    ]
    result = asked(lost, node_body(name="n2"), pod_body(name="a", node="n1", phase="Running", uid="a-uid"))
    assert result.notes == ("node n1 is lost, not ready since 2026-01-02T03:04:05Z: 1 pod there does not run",)
