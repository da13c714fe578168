"""The claim machine, row by row: what is there, what one turn of the claim makes of it, and which events it sends."""

from functools import partial
from typing import Any

import pytest

from builders import Body, a_pod, claim_body, claim_ref, class_body, volume_body
from mooring.api import keys
from mooring.api.kinds import CLAIM
from mooring.pvcontroller.intents import PointClaim, ReserveVolume, SetClaimStatus, SetVolumePhase
from pvcontroller.paper_world import PaperWorld

WAIT = class_body(name="wait")
BY_CONTROLLER = {keys.BOUND_BY_CONTROLLER: keys.YES}
EXTERNAL = "vendor.example/disk"

NO_CLASS = "Normal FailedBinding"


#: The claim and the volume of every row: 1Gi and without class, unless the row says otherwise.
claim = partial(claim_body, size="1Gi", storage_class="")
volume = partial(volume_body, size="1Gi", storage_class="")


def mine(uid: str = "") -> Body:
    return claim_ref(name="claim-1", uid=uid)


def theirs() -> Body:
    return claim_ref(name="other", uid="other-uid")


BOUND = "Bound to volume-1 by controller"
USED = "Bound to claim-1 by controller"


@pytest.mark.parametrize(
    ("bodies", "wanted_claim", "wanted_volume", "wanted_events"),
    [
        pytest.param([volume()], BOUND, USED, [], id="a free volume of the right size is bound"),
        pytest.param(
            [volume(size="500Mi")], "Pending", "Available", [NO_CLASS], id="a volume that is too small is left alone"
        ),
        pytest.param([volume(phase="Pending")], "Pending", "Pending", [NO_CLASS], id="a volume not yet Available"),
        pytest.param([volume(phase="Released")], "Pending", "Released", [NO_CLASS], id="a Released volume"),
        pytest.param([volume(phase="Failed")], "Pending", "Failed", [NO_CLASS], id="a Failed volume"),
        pytest.param([volume(deleting=True)], "Pending", "Available", [NO_CLASS], id="a volume being deleted"),
        pytest.param([volume(mode="Block")], "Pending", "Available", [NO_CLASS], id="a volume of another mode"),
        pytest.param([volume(storage_class="gold")], "Pending", "Available", [NO_CLASS], id="a volume with a class"),
        pytest.param(
            [volume(size="10Gi", claim_ref=mine()), volume(name="volume-0")],
            BOUND,
            "Bound to claim-1",
            [],
            id="a volume reserved by name wins over a smaller one, and stays the user's choice",
        ),
        pytest.param(
            [volume(size="10Gi", claim_ref=mine("claim-1-uid")), volume(name="volume-0")],
            BOUND,
            "Bound to claim-1",
            [],
            id="a volume reserved by name and uid wins over a smaller one",
        ),
        pytest.param(
            [volume(storage_class="gold", phase="Pending", claim_ref=mine())],
            BOUND,
            "Bound to claim-1",
            [],
            id="a reserved volume need be neither of the class nor Available",
        ),
        pytest.param(
            [volume(size="500Mi", claim_ref=mine())],
            "Pending",
            "Available for claim-1",
            [NO_CLASS],
            id="a reserved volume must still be large enough",
        ),
        pytest.param(
            [volume(claim_ref=mine("another-uid"))],
            "Pending",
            "Available to claim-1",
            [NO_CLASS],
            id="a volume reserved for an earlier claim of the name",
        ),
        pytest.param(
            [volume(claim_ref=mine("claim-1-uid"), annotations=BY_CONTROLLER)],
            BOUND,
            USED,
            [],
            id="a crash after the volume was reserved",
        ),
        pytest.param(
            [volume(claim_ref=mine("claim-1-uid"), annotations=BY_CONTROLLER, phase="Bound")],
            BOUND,
            USED,
            [],
            id="a crash after the volume's phase was written",
        ),
    ],
)
@pytest.mark.req("T42.PC7", "T42.PC12")
def test_claim_that_names_no_volume(
    bodies: list[Body], wanted_claim: str, wanted_volume: str, wanted_events: list[str]
) -> None:
    world = PaperWorld(claim(), *bodies)
    events = world.settle(CLAIM, "default/claim-1")
    assert (world.claim(), world.volume(), events) == (wanted_claim, wanted_volume, wanted_events)


@pytest.mark.req("T42.PC12")
def test_crash_after_the_claim_was_pointed_at_its_volume() -> None:
    used = volume(claim_ref=mine("claim-1-uid"), annotations=BY_CONTROLLER, phase="Bound")
    world = PaperWorld(claim(volume="volume-1", bound=True, phase="Pending", annotations=BY_CONTROLLER), used)
    assert world.settle(CLAIM, "default/claim-1") == []
    assert world.claim() == BOUND


@pytest.mark.req("T42.PC7", "T42.PC13")
def test_phase_bound_without_a_volume_is_corrected() -> None:
    body = claim(phase="Bound")
    body["status"] |= {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    world = PaperWorld(body)
    assert world.settle(CLAIM, "default/claim-1") == [NO_CLASS]
    assert world.bodies[CLAIM, "default/claim-1"]["status"] == {"phase": "Pending"}


@pytest.mark.parametrize(
    ("wanted", "bodies", "chosen"),
    [
        pytest.param({}, [volume(size="10Gi"), volume(name="volume-2")], "volume-2", id="the smallest that does"),
        pytest.param(
            {"selector": {"matchLabels": {"disk": "ssd"}}},
            [volume(), volume(name="volume-2", size="9Gi", labels={"disk": "ssd"})],
            "volume-2",
            id="one the selector matches",
        ),
        pytest.param(
            {"storage_class": "gold"},
            [volume(), volume(name="volume-2", size="9Gi", storage_class="gold")],
            "volume-2",
            id="one of the class, even if the class does not exist",
        ),
        pytest.param(
            {"storage_class": None},
            [volume(storage_class="gold"), volume(name="volume-2", size="9Gi")],
            "volume-2",
            id="one without class for a claim that names none",
        ),
        pytest.param(
            {"mode": "Block"},
            [volume(), volume(name="volume-2", size="9Gi", mode="Block")],
            "volume-2",
            id="one of the mode",
        ),
        pytest.param(
            {},
            [volume(access_modes=["ReadWriteOnce", "ReadOnlyMany"]), volume(name="volume-2", size="9Gi")],
            "volume-2",
            id="one with fewer access modes before a smaller one",
        ),
    ],
)
@pytest.mark.req("T42.PC31", "T5")
def test_which_volume_is_taken(wanted: dict[str, Any], bodies: list[Body], chosen: str) -> None:
    world = PaperWorld(claim(**wanted), *bodies)
    world.settle(CLAIM, "default/claim-1")
    assert world.claim() == f"Bound to {chosen} by controller"


@pytest.mark.parametrize(
    ("given", "bodies", "wanted_claim", "wanted_volume", "wanted_events"),
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
@pytest.mark.req("T6", "T42.PC8")
def test_claim_of_a_delayed_class(
    given: dict[str, Any], bodies: list[Body], wanted_claim: str, wanted_volume: str | None, wanted_events: list[str]
) -> None:
    world = PaperWorld(WAIT, claim(storage_class="wait", **given), *bodies)
    events = world.settle(CLAIM, "default/claim-1")
    assert (world.claim(), events) == (wanted_claim, wanted_events)
    if wanted_volume is not None:
        assert world.volume() == wanted_volume


@pytest.mark.parametrize(
    ("pods", "message"),
    [
        pytest.param([], "waiting for first consumer to be created before binding", id="nobody uses it"),
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
@pytest.mark.req("T46", "T42.PC7")
def test_what_a_delayed_claim_waits_for(pods: list[Any], message: str) -> None:
    step = PaperWorld(WAIT, claim(storage_class="wait"), pods=pods).look_at_claim("default/claim-1")
    assert step.write is None
    assert [(say.type, say.message) for say in step.says] == [("Normal", message)]


@pytest.mark.req("T42.PC7")
def test_class_that_does_not_say_when_to_bind_is_no_reason_to_bind() -> None:
    world = PaperWorld(
        class_body(name="odd", binding_mode=None), claim(storage_class="odd"), volume(storage_class="odd")
    )
    step = world.look_at_claim("default/claim-1")
    assert (step.write, step.says) == (None, ())
    assert step.problem == 'VolumeBindingMode not set for StorageClass "odd"'


@pytest.mark.req("T42.PC7")
def test_selector_that_cannot_be_understood_is_no_reason_to_bind() -> None:
    broken = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}
    step = PaperWorld(claim(selector=broken), volume()).look_at_claim("default/claim-1")
    assert step.write is None
    assert "Near" in step.problem


@pytest.mark.parametrize(
    ("classes", "wanted_class"),
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
def test_default_class_for_a_claim_without_one(classes: list[Body], wanted_class: str | None) -> None:
    world = PaperWorld(claim(storage_class=None), *classes)
    world.settle(CLAIM, "default/claim-1")
    assert world.bodies[CLAIM, "default/claim-1"]["spec"].get("storageClassName") == wanted_class


@pytest.mark.parametrize(
    ("given", "bodies"),
    [
        pytest.param({"storage_class": ""}, [], id="the empty class is a choice"),
        pytest.param({"storage_class": "copper"}, [], id="it has a class"),
        pytest.param({"storage_class": None, "volume": "nowhere"}, [], id="it names a volume"),
        pytest.param({"storage_class": None}, [volume()], id="a volume without class does"),
        pytest.param(
            {"storage_class": None, "annotations": {keys.STORAGE_CLASS_BETA: ""}}, [], id="the legacy annotation says"
        ),
    ],
)
@pytest.mark.req("T42.PC9")
def test_claims_that_get_no_default_class(given: dict[str, Any], bodies: list[Body]) -> None:
    world = PaperWorld(class_body(name="gold", default=True), claim(**given), *bodies)
    world.settle(CLAIM, "default/claim-1")
    named = world.bodies[CLAIM, "default/claim-1"]["spec"].get("storageClassName")
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
            [class_body(name="gold", binding_mode="Immediate", provisioner="kubernetes.io/gce-pd")],
            "no volume plugin matched name: kubernetes.io/gce-pd",
            id="the provisioner was once part of Kubernetes",
        ),
    ],
)
@pytest.mark.req("T42.PC26", "T42.PC27")
def test_claim_nobody_can_provision(classes: list[Body], message: str) -> None:
    step = PaperWorld(*classes, claim(storage_class="gold")).look_at_claim("default/claim-1")
    assert step.write is None
    assert [(say.type, say.reason, say.message) for say in step.says] == [("Warning", "ProvisioningFailed", message)]


@pytest.mark.parametrize(
    ("binding_mode", "given"),
    [
        pytest.param("Immediate", {}, id="immediate class"),
        pytest.param("WaitForFirstConsumer", {"selected_node": "node-1"}, id="delayed class with a node chosen"),
    ],
)
@pytest.mark.req("T42.PC28", "T5")
def test_claim_is_handed_to_its_external_provisioner(binding_mode: str, given: dict[str, Any]) -> None:
    gold = class_body(name="gold", provisioner=EXTERNAL, binding_mode=binding_mode)
    world = PaperWorld(gold, claim(storage_class="gold", **given))
    assert world.settle(CLAIM, "default/claim-1") == ["Normal ExternalProvisioning"]
    marks = world.bodies[CLAIM, "default/claim-1"]["metadata"]["annotations"]
    assert marks[keys.STORAGE_PROVISIONER] == marks[keys.STORAGE_PROVISIONER_BETA] == EXTERNAL
    assert world.claim() == "Pending"
    # Another look repeats the event and writes nothing.
    assert world.settle(CLAIM, "default/claim-1") == ["Normal ExternalProvisioning"]


MISMATCH = "Warning VolumeMismatch"


@pytest.mark.parametrize(
    ("given", "bodies", "wanted_claim", "wanted_volume", "wanted_events"),
    [
        pytest.param({}, [], "Pending to volume-1 unfinished", None, [], id="the volume is not there"),
        pytest.param({"phase": "Bound"}, [], "Pending to volume-1 unfinished", None, [], id="nor was it ever"),
        pytest.param({}, [volume(size="9Gi")], "Bound to volume-1", USED, [], id="it is free, and larger"),
        pytest.param(
            {}, [volume(claim_ref=mine())], "Bound to volume-1", "Bound to claim-1", [], id="both named each other"
        ),
        pytest.param(
            {},
            [volume(claim_ref=mine("claim-1-uid"))],
            "Bound to volume-1",
            "Bound to claim-1",
            [],
            id="both named each other, by uid",
        ),
        pytest.param(
            {"selector": {"matchLabels": {"disk": "ssd"}}},
            [volume()],
            "Bound to volume-1",
            USED,
            [],
            id="the selector does not count",
        ),
        pytest.param({}, [volume(phase="Released")], "Bound to volume-1", USED, [], id="the phase does not count"),
        pytest.param(
            {"phase": "Bound"},
            [volume(claim_ref=theirs())],
            "Pending to volume-1 unfinished",
            "Available to other",
            ["Warning FailedBinding"],
            id="it belongs to another claim",
        ),
        pytest.param(
            {"annotations": BY_CONTROLLER, "phase": "Bound"},
            [volume(claim_ref=theirs())],
            "Bound to volume-1 unfinished by controller",
            "Available to other",
            ["Warning FailedBinding"],
            id="it belongs to another claim, and no user had named it: nothing is touched",
        ),
    ],
)
@pytest.mark.req("T42.PC10")
def test_claim_that_names_a_volume(
    given: dict[str, Any], bodies: list[Body], wanted_claim: str, wanted_volume: str | None, wanted_events: list[str]
) -> None:
    world = PaperWorld(claim(volume="volume-1", **given), *bodies)
    events = world.settle(CLAIM, "default/claim-1")
    assert (world.claim(), events) == (wanted_claim, wanted_events)
    if wanted_volume is not None:
        assert world.volume() == wanted_volume


@pytest.mark.parametrize(
    ("given", "named", "why"),
    [
        pytest.param({}, volume(deleting=True), 'the volume is marked for deletion "volume-1"', id="being deleted"),
        pytest.param({}, volume(size="1073741823"), "requested PV is too small", id="one byte too small"),
        pytest.param({}, volume(storage_class="gold"), "storageClassName does not match", id="another class"),
        pytest.param(
            {}, volume(attributes_class="fast"), "volumeAttributesClassName does not match", id="other attributes"
        ),
        pytest.param({}, volume(mode="Block"), "incompatible volumeMode", id="another mode"),
        pytest.param(
            {"access_modes": ["ReadWriteMany"]}, volume(), "incompatible accessMode", id="an access mode is missing"
        ),
    ],
)
@pytest.mark.req("T42.PC10")
def test_named_volume_that_will_not_do(given: dict[str, Any], named: Body, why: str) -> None:
    step = PaperWorld(claim(volume="volume-1", **given), named).look_at_claim("default/claim-1")
    assert step.write is None
    [say] = step.says
    assert (say.type, say.reason) == ("Warning", "VolumeMismatch")
    assert say.message == f'Cannot bind to requested volume "volume-1": {why}'


@pytest.mark.parametrize(
    ("given", "bodies", "wanted_claim", "wanted_volume", "wanted_events"),
    [
        pytest.param({"volume": ""}, [], "Lost", None, ["Warning ClaimLost"], id="it names no volume any more"),
        pytest.param({}, [], "Lost to volume-1", None, ["Warning ClaimLost"], id="its volume is gone"),
        pytest.param({"phase": "Lost"}, [], "Lost to volume-1", None, [], id="that was said before"),
        pytest.param({}, [volume()], "Bound to volume-1", USED, [], id="its volume forgot it: bound again"),
        pytest.param(
            {"phase": "Lost"}, [volume()], "Bound to volume-1", USED, [], id="its volume came back: bound again"
        ),
        pytest.param(
            {"phase": "Pending", "selector": {"matchLabels": {"disk": "ssd"}}},
            [volume()],
            "Bound to volume-1",
            USED,
            [],
            id="bound again whatever the selector says",
        ),
        pytest.param(
            {"phase": "Pending"},
            [volume(claim_ref=mine("claim-1-uid"))],
            "Bound to volume-1",
            "Bound to claim-1",
            [],
            id="both phases are behind",
        ),
        pytest.param(
            {},
            [volume(claim_ref=mine("claim-1-uid"), phase="Bound")],
            "Bound to volume-1",
            "Bound to claim-1",
            [],
            id="all is well",
        ),
        pytest.param(
            {},
            [volume(claim_ref=theirs(), phase="Bound")],
            "Lost to volume-1",
            "Bound to other",
            ["Warning ClaimMisbound"],
            id="its volume is another claim's",
        ),
        pytest.param(
            {},
            [volume(claim_ref=mine("another-uid"), phase="Bound")],
            "Lost to volume-1",
            "Bound to claim-1",
            ["Warning ClaimMisbound"],
            id="its volume belongs to an earlier claim of the name",
        ),
        pytest.param(
            {},
            [volume(claim_ref=mine())],
            "Lost to volume-1",
            "Available for claim-1",
            ["Warning ClaimMisbound"],
            id="its volume is reserved by name only",
        ),
    ],
)
@pytest.mark.req("T42.PC11", "T42.PC6")
def test_claim_that_was_bound_before(
    given: dict[str, Any], bodies: list[Body], wanted_claim: str, wanted_volume: str | None, wanted_events: list[str]
) -> None:
    body = claim(**{"volume": "volume-1", "bound": True, **given})
    body["status"] |= {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    world = PaperWorld(body, *bodies)
    events = world.settle(CLAIM, "default/claim-1")
    assert (world.claim(), events) == (wanted_claim, wanted_events)
    if wanted_volume is not None:
        assert world.volume() == wanted_volume


@pytest.mark.req("T42.PC12")
def test_writes_of_a_binding_come_in_the_order_that_survives_a_crash() -> None:
    world = PaperWorld(claim(), volume())
    writes = []
    while (step := world.look_at_claim("default/claim-1")).write is not None:
        writes.append(type(step.write))
        world.take(step)
    assert writes == [ReserveVolume, SetVolumePhase, PointClaim, SetClaimStatus]


@pytest.mark.req("T42.PC12")
def test_reservation_carries_a_full_reference() -> None:
    world = PaperWorld(claim(), volume())
    world.settle(CLAIM, "default/claim-1")
    [(_, body)] = [item for item in world.bodies.items() if item[1]["kind"] == "PersistentVolume"]
    reference = body["spec"]["claimRef"]
    assert reference.pop("resourceVersion")
    assert reference == claim_ref(name="claim-1", uid="claim-1-uid")


@pytest.mark.req("T42.PC13")
def test_volume_without_a_size_cannot_be_reported() -> None:
    used = volume(claim_ref=mine("claim-1-uid"), phase="Bound")
    del used["spec"]["capacity"]
    world = PaperWorld(claim(volume="volume-1", bound=True, phase="Pending"), used)
    step = world.look_at_claim("default/claim-1")
    assert (step.write, step.problem) == (None, 'PersistentVolume "volume-1" is without a storage capacity')
