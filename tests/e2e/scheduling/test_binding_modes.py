"""Binding modes: a claim is bound at once, when its pod is scheduled, or not at all; and the events about it."""

from typing import Final

import pytest

from mooring.api import well_known
from support.builders import Body, claim_body, claim_ref, class_body, pod_body, volume_body
from support.e2e.workspace import Workspace

DELAYED: Final = "WaitForFirstConsumer"
WAITING: Final = "waiting for first consumer to be created before binding"
#: The source of a volume that needs no node affinity: a disk on the network.
ANYWHERE: Final = {"csi": {"driver": "disks.example.com", "volumeHandle": "disk"}}


def claim(name: str, storage_class: str, *, volume: str = "", size: str = "5Gi") -> Body:
    return claim_body(name=name, namespace="", storage_class=storage_class, volume=volume, size=size)


def pod(name: str, *claims: str, node: str = "", cpu: str = "") -> Body:
    return pod_body(name=name, namespace="", claims=claims, node=node, requests={"cpu": cpu} if cpu else None)


@pytest.fixture
def delayed(workspace: Workspace) -> Workspace:
    """A class with delayed binding and a volume of it that any node can use, both named like the workspace."""
    own = workspace.name
    workspace.apply(
        class_body(name=own, binding_mode=DELAYED), volume_body(name=own, storage_class=own, source=ANYWHERE)
    )
    return workspace


@pytest.mark.req("T3.default")
def test_binding_mode_defaults_to_immediate(workspace: Workspace) -> None:
    own = workspace.name
    workspace.apply(
        class_body(name=own, binding_mode=None),
        volume_body(name=own, storage_class=own, node="node-1"),
        claim("data", own),
    )
    assert workspace.item("storageclass", own)["volumeBindingMode"] == "Immediate"
    workspace.wait_bound("data")


@pytest.mark.req("T3.draft-field")
def test_draft_field_name_is_rejected_with_the_real_one(workspace: Workspace) -> None:
    draft = class_body(name=workspace.name, binding_mode=None) | {"bindingMode": DELAYED}
    output = workspace.refused(draft)
    assert 'bindingMode: Forbidden: there is no such field; it was renamed, write "volumeBindingMode"' in output
    assert workspace.name not in workspace("get", "storageclass")


@pytest.mark.req("T3.values")
def test_unknown_binding_mode_is_rejected(workspace: Workspace) -> None:
    output = workspace.refused(class_body(name=workspace.name, binding_mode="Someday"))
    assert 'volumeBindingMode: Unsupported value: "Someday"' in output
    assert '"Immediate"' in output
    assert '"WaitForFirstConsumer"' in output


@pytest.mark.req("T5.static")
def test_immediate_claim_is_bound_to_the_smallest_match(workspace: Workspace) -> None:
    own = workspace.name
    workspace.apply(
        class_body(name=own, binding_mode="Immediate"),
        *(volume_body(name=f"{own}-{size}", size=f"{size}Gi", storage_class=own, node="node-1") for size in (9, 7, 3)),
        claim("data", own),
    )
    workspace.wait_bound("data")
    bound = workspace.item("pvc", "data")
    assert bound["spec"]["volumeName"] == f"{own}-7"
    assert well_known.SELECTED_NODE not in bound["metadata"]["annotations"]
    volume = workspace.item("pv", f"{own}-7")
    assert volume["status"]["phase"] == "Bound"
    assert volume["spec"]["claimRef"]["uid"] == bound["metadata"]["uid"]


@pytest.mark.req("T5.static")
def test_immediate_claim_is_bound_when_a_volume_is_created(workspace: Workspace) -> None:
    own = workspace.name
    workspace.apply(class_body(name=own, binding_mode="Immediate"), claim("data", own), pod("web", "data"))
    workspace.wait_event("pvc/data", "ProvisioningFailed", "kubernetes.io/no-provisioner")
    workspace.wait_unscheduled("web", "pod has unbound immediate PersistentVolumeClaims")
    workspace.apply(volume_body(name=own, storage_class=own, node="node-3"))
    workspace.wait_ready("web")
    assert workspace.node_of("web") == "node-3"


@pytest.mark.req("T3.delayed", "T6.event", "T46.first-consumer")
def test_delayed_claim_reports_wait_for_first_consumer(delayed: Workspace) -> None:
    delayed.apply(claim("data", delayed.name))
    delayed.wait_event("pvc/data", DELAYED, WAITING)
    waiting = delayed.item("pvc", "data")
    assert waiting["status"]["phase"] == "Pending"
    assert "volumeName" not in waiting["spec"]
    assert delayed.item("pv", delayed.name)["status"]["phase"] == "Available"

    delayed.apply(pod("web", "data"))
    delayed.wait_ready("web")
    assert delayed.item("pvc", "data")["spec"]["volumeName"] == delayed.name


@pytest.mark.req("T6.not-provisioned")
def test_delayed_claim_is_not_provisioned_before_scheduling(workspace: Workspace) -> None:
    own = workspace.name
    workspace.apply(
        class_body(name=own, binding_mode=DELAYED, provisioner="disks.example.com"),
        class_body(name=f"{own}-now", binding_mode="Immediate", provisioner="disks.example.com"),
        claim("later", own),
        claim("now", f"{own}-now"),
    )
    workspace.wait_event("pvc/later", DELAYED, WAITING)
    workspace.wait_event("pvc/now", "ExternalProvisioning", "the external provisioner 'disks.example.com'")
    assert well_known.STORAGE_PROVISIONER in workspace.item("pvc", "now")["metadata"]["annotations"]
    assert well_known.STORAGE_PROVISIONER not in workspace.item("pvc", "later")["metadata"].get("annotations", {})


@pytest.mark.req("T6.prebound")
def test_prebound_delayed_claim_is_bound_at_once(delayed: Workspace) -> None:
    own = delayed.name
    reserved = claim_ref(name="chosen-by-volume", namespace=own)
    delayed.apply(
        volume_body(name=f"{own}-reserved", storage_class=own, source=ANYWHERE, claim_ref=reserved),
        claim("chosen-by-volume", own),
        claim("chooses-volume", own, volume=own),
    )
    delayed.wait_bound("chosen-by-volume", "chooses-volume")
    assert delayed.item("pvc", "chosen-by-volume")["spec"]["volumeName"] == f"{own}-reserved"
    assert delayed.item("pv", own)["spec"]["claimRef"]["name"] == "chooses-volume"


@pytest.mark.req("T46.pod-scheduled")
def test_claim_event_names_the_unschedulable_pod(delayed: Workspace) -> None:
    delayed.apply(claim("lonely", delayed.name), claim("used", delayed.name), pod("huge", "used", cpu="1000"))
    delayed.wait_event("pvc/used", "WaitForPodScheduled", "waiting for pod huge to be scheduled")
    delayed.wait_event("pvc/lonely", DELAYED, WAITING)
    delayed.wait_unscheduled("huge", "3 Insufficient cpu")
    assert "waiting for pod huge to be scheduled" in delayed("describe", "pvc", "used")
    assert "WaitForPodScheduled" not in delayed("describe", "pvc", "lonely")


@pytest.mark.req("T48.bound")
def test_pod_with_node_name_gets_a_volume_that_its_node_reaches(workspace: Workspace) -> None:
    own = workspace.name
    workspace.apply(
        class_body(name=own, binding_mode=DELAYED),
        *(volume_body(name=f"{own}-{node}", storage_class=own, node=node) for node in ("node-1", "node-2", "node-3")),
    )
    workspace.apply(claim("data", own), pod("forced", "data", node="node-2"))
    workspace.wait_ready("forced")
    assert workspace.item("pvc", "data")["spec"]["volumeName"] == f"{own}-node-2"
    workspace.apply(claim("more", own, size="100Gi"), pod("too-large", "more", node="node-2"))
    why = "claims more cannot be bound for the pod's preset node node-2: it didn't find available persistent volumes"
    workspace.wait_event("pod/too-large", "PresetNodeBindingFailed", why)
    assert workspace.item("pvc", "more")["status"]["phase"] == "Pending"


@pytest.mark.req("T48.bound")
def test_volumes_of_a_pod_with_node_name_are_provisioned_for_its_node(workspace: Workspace) -> None:
    workspace.apply(claim("one", "fast"), claim("two", "fast"), pod("forced", "one", "two", node="node-3"))
    workspace.wait_ready("forced")
    for name in ("one", "two"):
        bound = workspace.item("pvc", name)
        assert bound["metadata"]["annotations"][well_known.SELECTED_NODE] == "node-3"
        volume = workspace.cluster.item("pv", bound["spec"]["volumeName"])
        (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert ["node-3"] in [row["values"] for row in term["matchExpressions"]]
