"""The claim machine and classes: delayed ones, default ones, and those that provision."""

from typing import Any

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM
from mooring.pvcontroller.actions import RequestProvisioning, ReserveVolume
from mooring.pvcontroller.cache import BindingCache
from mooring.pvcontroller.claim_sync import next_claim_step
from support.builders import Body, a_claim, a_class, a_pod, a_volume, class_body
from support.pvcontroller.fake_cluster import FakeCluster
from support.pvcontroller.pair import BOUND, BY_CONTROLLER, USED, claim, mine, volume

WAIT = class_body(name="wait")
EXTERNAL = "vendor.example/disk"


@pytest.mark.parametrize(
    ("given", "bodies", "expected_claim", "expected_volume", "expected_events"),
    [
        pytest.param(
            {}, [], "Pending", None, ["Normal WaitForFirstConsumer"], id="no volumes: waits for its first consumer"
        ),
        pytest.param(
            {},
            [volume(storage_class="wait")],
            "Pending",
            "Available",
            ["Normal WaitForFirstConsumer"],
            id="a free volume is not taken before a node is chosen",
        ),
        pytest.param(
            {},
            [volume(storage_class="wait", claim_ref=mine())],
            BOUND,
            "Bound to claim-1",
            [],
            id="a volume reserved by name is bound at once",
        ),
        pytest.param(
            {},
            [volume(storage_class="wait", claim_ref=mine("claim-1-uid"), annotations=BY_CONTROLLER)],
            BOUND,
            USED,
            [],
            id="a volume the scheduler reserved is bound at once",
        ),
        pytest.param(
            {"volume": "volume-1"},
            [volume(storage_class="wait")],
            "Bound to volume-1",
            USED,
            [],
            id="a volume the claim names is bound at once",
        ),
        pytest.param(
            {"selected_node": "node-1"},
            [volume(storage_class="wait")],
            "Pending",
            "Available",
            ["Warning ProvisioningFailed"],
            id="with a node chosen it is provisioned, never given a free volume",
        ),
        pytest.param(
            {"selected_node": "node-1"},
            [volume(storage_class="wait", claim_ref=mine("claim-1-uid"))],
            BOUND,
            "Bound to claim-1",
            [],
            id="with a node chosen a reserved volume is still bound",
        ),
    ],
)
@pytest.mark.req("T6.not-bound", "T6.not-provisioned", "T3.delayed", "T42.PC8")
def test_claim_of_a_delayed_class(
    given: dict[str, Any],
    bodies: list[Body],
    expected_claim: str,
    expected_volume: str | None,
    expected_events: list[str],
) -> None:
    cluster = FakeCluster(WAIT, claim(storage_class="wait", **given), *bodies)
    events = cluster.settle(CLAIM, "default/claim-1")
    assert (cluster.claim(), events) == (expected_claim, expected_events)
    if expected_volume is not None:
        assert cluster.volume() == expected_volume


@pytest.mark.parametrize(
    ("pods", "message"),
    [
        pytest.param([], "waiting for first consumer to be created before binding", id="no pod uses it"),
        pytest.param([a_pod(claims=["claim-1"])], "waiting for pod pod-1 to be scheduled", id="a pod waits too"),
        pytest.param(
            [a_pod(name="b", claims=["claim-1"]), a_pod(name="a", claims=["claim-1"])],
            "waiting for pods a,b to be scheduled",
            id="two pods wait",
        ),
        pytest.param(
            [a_pod(claims=["claim-1"], node="node-1")],
            "waiting for first consumer to be created before binding",
            id="a pod whose node was set by hand will not be scheduled",
        ),
        pytest.param(
            [a_pod(claims=["claim-1"], phase="Failed")],
            "waiting for first consumer to be created before binding",
            id="a pod that has finished",
        ),
        pytest.param(
            [a_pod(claims=["other"])],
            "waiting for first consumer to be created before binding",
            id="a pod uses another claim",
        ),
    ],
)
@pytest.mark.req("T46.first-consumer", "T46.pod-scheduled", "T42.PC7")
def test_what_a_delayed_claim_waits_for(pods: list[Any], message: str) -> None:
    step = FakeCluster(WAIT, claim(storage_class="wait"), pods=pods).enqueue_claim("default/claim-1")
    assert step.write is None
    assert [(say.type, say.message) for say in step.events] == [("Normal", message)]


@pytest.mark.req("T42.PC7")
def test_class_that_does_not_say_when_to_bind_is_no_reason_to_bind() -> None:
    cluster = FakeCluster(
        class_body(name="odd", binding_mode=None), claim(storage_class="odd"), volume(storage_class="odd")
    )
    step = cluster.enqueue_claim("default/claim-1")
    assert (step.write, step.events) == (None, ())
    assert step.problem == 'VolumeBindingMode not set for StorageClass "odd"'


@pytest.mark.parametrize(
    ("classes", "expected_class"),
    [
        pytest.param([], None, id="no default class"),
        pytest.param([class_body(name="plain")], None, id="a class that is not the default"),
        pytest.param([class_body(name="gold", default=True)], "gold", id="one default"),
        pytest.param(
            [class_body(name="silver", default=True), class_body(name="gold", default=True)],
            "gold",
            id="two equally old ones: by name",
        ),
    ],
)
@pytest.mark.req("T42.PC9")
def test_default_class_for_a_claim_without_one(classes: list[Body], expected_class: str | None) -> None:
    cluster = FakeCluster(claim(storage_class=None), *classes)
    cluster.settle(CLAIM, "default/claim-1")
    assert cluster.bodies[CLAIM, "default/claim-1"]["spec"].get("storageClassName") == expected_class


@pytest.mark.parametrize(
    ("given", "bodies"),
    [
        pytest.param({"storage_class": ""}, [], id="the empty class is a choice"),
        pytest.param({"storage_class": "copper"}, [], id="it has a class"),
        pytest.param({"storage_class": None, "volume": "nowhere"}, [], id="it names a volume"),
        pytest.param({"storage_class": None}, [volume()], id="a volume without class does"),
        pytest.param(
            {"storage_class": None, "annotations": {well_known.STORAGE_CLASS_BETA: ""}},
            [],
            id="the legacy annotation says",
        ),
    ],
)
@pytest.mark.req("T42.PC9")
def test_claims_that_get_no_default_class(given: dict[str, Any], bodies: list[Body]) -> None:
    cluster = FakeCluster(class_body(name="gold", default=True), claim(**given), *bodies)
    cluster.settle(CLAIM, "default/claim-1")
    named = cluster.bodies[CLAIM, "default/claim-1"]["spec"].get("storageClassName")
    assert named == given["storage_class"]


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        pytest.param([], 'storageclass.storage.k8s.io "gold" not found', id="the class is missing"),
        pytest.param(
            [class_body(name="gold", binding_mode="Immediate")],
            "no volume plugin matched name: kubernetes.io/no-provisioner",
            id="the class has no provisioner",
        ),
        pytest.param(
            [class_body(name="gold", binding_mode="Immediate", provisioner="kubernetes.io/rbd")],
            "no volume plugin matched name: kubernetes.io/rbd",
            id="the provisioner was once part of Kubernetes",
        ),
    ],
)
@pytest.mark.req("T42.PC26", "T42.PC27")
def test_claim_without_a_usable_provisioner(classes: list[Body], message: str) -> None:
    step = FakeCluster(*classes, claim(storage_class="gold")).enqueue_claim("default/claim-1")
    assert step.write is None
    assert [(say.type, say.reason, say.message) for say in step.events] == [("Warning", "ProvisioningFailed", message)]


@pytest.mark.parametrize(
    ("binding_mode", "given"),
    [
        pytest.param("Immediate", {}, id="immediate class"),
        pytest.param("WaitForFirstConsumer", {"selected_node": "node-1"}, id="delayed class with a node chosen"),
    ],
)
@pytest.mark.req("T42.PC28", "T5.provisioned")
def test_claim_is_handed_to_its_external_provisioner(binding_mode: str, given: dict[str, Any]) -> None:
    gold = class_body(name="gold", provisioner=EXTERNAL, binding_mode=binding_mode)
    cluster = FakeCluster(gold, claim(storage_class="gold", **given))
    assert cluster.settle(CLAIM, "default/claim-1") == ["Normal ExternalProvisioning"]
    marks = cluster.bodies[CLAIM, "default/claim-1"]["metadata"]["annotations"]
    assert marks[well_known.STORAGE_PROVISIONER] == marks[well_known.STORAGE_PROVISIONER_BETA] == EXTERNAL
    assert cluster.claim() == "Pending"
    # Another look repeats the event and writes nothing.
    assert cluster.settle(CLAIM, "default/claim-1") == ["Normal ExternalProvisioning"]


@pytest.mark.req("T31.volume-scheduling-off")
def test_delayed_claim_is_bound_or_provisioned_at_once_without_volume_scheduling() -> None:
    cache = BindingCache(lambda _: (), delayed_binding=False)
    cache.observe_class(None, a_class(name="late", binding_mode="WaitForFirstConsumer", provisioner="csi.example"))
    claim = a_claim(name="claim-1", storage_class="late")
    assert isinstance(next_claim_step(claim, cache).write, RequestProvisioning)
    cache.volumes.observe(None, a_volume(name="volume-1", storage_class="late"))
    assert isinstance(next_claim_step(claim, cache).write, ReserveVolume)
