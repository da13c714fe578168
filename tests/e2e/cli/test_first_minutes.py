"""The first commands of a Kubernetes user, and their expected output."""

import json
from typing import Final

import pytest

from mooring.explain.messages import remedy
from support.builders import Body, claim_body, class_body, pod_body, volume_body
from support.e2e.workspace import Workspace
from support.scenarios.crowd import volumes

SET: Final = "shop"


def stateful_set(storage_class: str, *, replicas: int = 3, image: str = "example/shop:1") -> Body:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": SET},
        "spec": {
            "serviceName": SET,
            "replicas": replicas,
            "selector": {"matchLabels": {"app": SET}},
            "template": {
                "metadata": {"labels": {"app": SET}},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "data"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "storageClassName": storage_class,
                        "resources": {"requests": {"storage": "5Gi"}},
                    },
                }
            ],
        },
    }


@pytest.fixture
def shop(workspace: Workspace) -> Workspace:
    """A running StatefulSet of three, with five volumes on three nodes."""
    own = workspace.name
    workspace.apply(class_body(name=own), *volumes(own, range(5)), stateful_set(own))
    rolled_out(workspace)
    return workspace


def rolled_out(workspace: Workspace) -> None:
    workspace("rollout", "status", f"statefulset/{SET}", "--timeout=30s")


def names(workspace: Workspace, kind: str) -> list[str]:
    return [item["metadata"]["name"] for item in workspace.items(kind)]


def volumes_of(workspace: Workspace) -> dict[str, str]:
    return {claim["metadata"]["name"]: claim["spec"].get("volumeName", "") for claim in workspace.items("pvc")}


def gone(workspace: Workspace, *what: str) -> None:
    workspace("wait", *what, "--for=delete", "--timeout=30s")


def test_get_and_describe_show_the_workload(shop: Workspace) -> None:
    everything = shop("get", "all")
    assert "pod/shop-0" in everything
    assert "statefulset.apps/shop   3/3" in everything

    volume = volumes_of(shop)["data-shop-0"]
    node = shop.node_of("shop-0")
    claim = shop("describe", "pvc", "data-shop-0")
    assert f"Volume:        {volume}" in claim
    assert "Used By:       shop-0" in claim
    described = shop("describe", "pv", volume)
    assert f"Claim:             {shop.name}/data-shop-0" in described
    assert f"Term 0:        kubernetes.io/hostname in [{node}]" in described
    assert "shop-0" in shop("describe", "node", node)
    assert f"Successfully assigned {shop.name}/shop-0 to {node}" in shop("describe", "pod", "shop-0")
    assert "create Pod shop-0 in StatefulSet shop successful" in shop("describe", "statefulset", SET)

    assert shop("get", "pods", "-l", "app=shop", "-o", "name").split() == ["pod/shop-0", "pod/shop-1", "pod/shop-2"]
    assert shop("get", "pods", f"--field-selector=spec.nodeName={node}", "-o", "name").splitlines().count("pod/shop-0")
    assert shop("get", "pod", "shop-0", "-o", "jsonpath={.spec.nodeName}") == node
    assert "Scheduled" in shop("events", "--for", "pod/shop-0")


def test_repeated_apply_changes_nothing(shop: Workspace) -> None:
    before = shop.item("statefulset", SET)["metadata"]["generation"]
    uids = {pod["metadata"]["uid"] for pod in shop.items("pods")}
    shop.apply(stateful_set(shop.name))
    assert shop.item("statefulset", SET)["metadata"]["generation"] == before
    rolled_out(shop)
    assert {pod["metadata"]["uid"] for pod in shop.items("pods")} == uids


def test_scaling_keeps_claims(shop: Workspace) -> None:
    before = volumes_of(shop)
    shop("scale", f"statefulset/{SET}", "--replicas=1")
    gone(shop, "pod/shop-1", "pod/shop-2")
    assert names(shop, "pods") == ["shop-0"]
    assert volumes_of(shop) == before

    shop("patch", "statefulset", SET, "-p", '{"spec":{"replicas":4}}')
    rolled_out(shop)
    assert names(shop, "pods") == ["shop-0", "shop-1", "shop-2", "shop-3"]
    assert before.items() <= volumes_of(shop).items()


def test_rolling_update_keeps_volumes(shop: Workspace) -> None:
    before, nodes = volumes_of(shop), [shop.node_of(f"shop-{n}") for n in range(3)]
    shop("set", "image", f"statefulset/{SET}", "main=example/shop:2")
    rolled_out(shop)
    pods = shop.items("pods")
    assert [pod["spec"]["containers"][0]["image"] for pod in pods] == ["example/shop:2"] * 3
    versions = [int(pod["metadata"]["resourceVersion"]) for pod in pods]
    assert versions == sorted(versions, reverse=True)
    assert volumes_of(shop) == before
    assert [pod["spec"]["nodeName"] for pod in pods] == nodes


def test_deleted_statefulset_leaves_its_claims(shop: Workspace) -> None:
    before = volumes_of(shop)
    shop("delete", "statefulset", SET)
    gone(shop, "pod/shop-0", "pod/shop-1", "pod/shop-2")
    assert volumes_of(shop) == before

    shop.apply(stateful_set(shop.name))
    rolled_out(shop)
    assert volumes_of(shop) == before


def test_pod_of_drained_node_waits_for_its_volume(shop: Workspace) -> None:
    node = shop.node_of("shop-0")
    uid = shop.item("pod", "shop-0")["metadata"]["uid"]
    selector = "--pod-selector=statefulset.kubernetes.io/pod-name=shop-0"
    shop("drain", node, selector, "--ignore-daemonsets", "--timeout=30s")
    shop.wait_unscheduled("shop-0", "1 node(s) were unschedulable", "2 node(s) didn't match PersistentVolume's")
    assert "SchedulingDisabled" in shop("get", "node", node)

    shop("uncordon", node)
    shop.wait_ready("shop-0")
    assert shop.node_of("shop-0") == node
    assert shop.item("pod", "shop-0")["metadata"]["uid"] != uid


def test_claim_and_volume_in_use_are_protected(workspace: Workspace) -> None:
    own = workspace.name
    workspace.apply(
        class_body(name=own),
        *volumes(own, range(1)),
        claim_body(name="data", namespace="", storage_class=own),
        pod_body(name="web", namespace="", claims=["data"]),
    )
    workspace.wait_ready("web")
    workspace("delete", "pvc/data", f"pv/{own}-0", "--wait=false")
    assert "Terminating" in workspace("get", "pvc", "data")
    assert "Terminating" in workspace("get", "pv", f"{own}-0")
    assert workspace.item("pod", "web")["status"]["phase"] == "Running"

    workspace.apply(pod_body(name="late", namespace="", claims=["data"]))
    workspace.wait_unscheduled("late", 'persistentvolumeclaim "data" is being deleted')

    workspace("delete", "pod", "web", "late")
    gone(workspace, "pvc/data", f"pv/{own}-0")


def test_released_volume_is_not_reused(workspace: Workspace) -> None:
    own = workspace.name
    workspace.apply(
        class_body(name=own, binding_mode="Immediate"),
        volume_body(name=own, storage_class=own, node="node-1", reclaim="Retain"),
        claim_body(name="first", namespace="", storage_class=own),
    )
    workspace.wait_bound("first")
    workspace("delete", "pvc", "first")
    workspace("wait", f"pv/{own}", "--for=jsonpath={.status.phase}=Released", "--timeout=30s")
    workspace.apply(claim_body(name="second", namespace="", storage_class=own))
    workspace.wait_event("pvc/second", "ProvisioningFailed", "no-provisioner")
    assert workspace.item("pvc", "second")["status"]["phase"] == "Pending"

    workspace("patch", "pv", own, "--type=json", "-p", '[{"op":"remove","path":"/spec/claimRef"}]')
    workspace.wait_bound("second")


def test_node_labels_annotations_and_taints(workspace: Workspace) -> None:
    assert workspace("label", "node", "node-1", "rack=r1") == "node/node-1 labeled\n"
    assert workspace("annotate", "node", "node-1", "note=hello") == "node/node-1 annotated\n"
    assert workspace("taint", "node", "node-1", "dedicated=db:NoSchedule") == "node/node-1 tainted\n"
    assert "node-1" in workspace("get", "nodes", "-l", "rack=r1")
    described = workspace("describe", "node", "node-1")
    assert "note: hello" in described
    assert "dedicated=db:NoSchedule" in described

    workspace.apply(pod_body(name="web", namespace="", node_selector={"rack": "r1"}))
    workspace.wait_unscheduled(
        "web", "1 node(s) had untolerated taint(s)", "2 node(s) didn't match Pod's node affinity"
    )
    workspace("taint", "node", "node-1", "dedicated-")
    workspace.wait_ready("web")
    workspace("label", "node", "node-1", "rack-")
    workspace("annotate", "node", "node-1", "note-")
    assert workspace.item("pod", "web")["status"]["phase"] == "Running"


def test_errors_match_kubectl_on_kubernetes(workspace: Workspace) -> None:
    assert workspace("get", "pod", "missing", check=False) == 'Error from server (NotFound): pods "missing" not found\n'
    misspelt = pod_body(name="web", namespace="")
    misspelt["spec"]["nodeSelektor"] = {"rack": "r1"}
    assert 'strict decoding error: unknown field "spec.nodeSelektor"' in workspace.refused(misspelt)
    empty = pod_body(name="web", namespace="", containers=[])
    assert "spec.containers: Required value" in workspace.refused(empty)
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}}
    assert 'no matches for kind "CronJob" in version "batch/v1"' in workspace.refused(cron)
    claim = claim_body(name="data", namespace="", storage_class="local", size="5Gi")
    workspace.apply(claim)
    moved = claim_body(name="data", namespace="", storage_class="other", size="5Gi")
    output = workspace("apply", "-f", "-", stdin=json.dumps(moved), check=False)
    assert 'The PersistentVolumeClaim "data" is invalid: spec: Forbidden: spec is immutable after creation' in output


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param(["logs", "web"], "there are no logs; kubectl describe pod web and mooring timeline", id="logs"),
        pytest.param(["exec", "web", "--", "ls"], "there is nothing to execute a command in; kubectl", id="exec"),
        pytest.param(["attach", "web"], "there is no process to attach to; kubectl", id="attach"),
        pytest.param(["port-forward", "web", "0:80"], "there is no port to forward to; kubectl", id="port-forward"),
        pytest.param(["create", "job", "x", "--image=y"], "could not find the requested resource", id="a job"),
        pytest.param(["top", "pods"], "Metrics API not available", id="top"),
    ],
)
def test_message_of_first_resort_says_what_to_do(workspace: Workspace, command: list[str], expected: str) -> None:
    workspace.apply(pod_body(name="web", namespace=""))
    workspace.wait_ready("web")
    output = workspace(*command, check=False)
    assert expected in output
    assert remedy(output), "mooring explain knows the message"


def test_custom_resources_are_refused_with_a_message_that_can_be_looked_up(workspace: Workspace) -> None:
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {"group": "example.com"},
    }
    for command in (["apply"], ["apply", "--server-side"], ["create"]):
        output = workspace(*command, "-f", "-", stdin=json.dumps(definition), check=False)
        assert "this API server has no custom resources: leave CustomResourceDefinitions" in output
        assert "mooring docs kinds" in output
        assert "mooring docs kinds" in remedy(output)
    assert "no custom resources" in workspace("get", "crds", check=False)

    foo = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}}
    output = workspace.refused(foo)
    assert 'no matches for kind "Foo"' in output
    assert "mooring docs kinds" in remedy(output)
