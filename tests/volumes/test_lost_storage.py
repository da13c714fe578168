"""Which claim and volume may be replaced after their node was lost, and the code of every refusal."""

from typing import Any, TypeVar

import msgspec
import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME, Kind
from mooring.api.views.meta import ApiObject
from mooring.volumes.holds.objects import STORAGE_LOST
from mooring.volumes.lost_storage import (
    Confirmation,
    LostPair,
    ReachableNodes,
    RecoveryRefusalCode,
    Refusal,
    VolumePair,
    lost_pair,
)
from support.builders import Body, claim_body, claim_ref, class_body, node_body, pod_body, reachable_from, volume_body

V = TypeVar("V", bound=ApiObject)
DRIVER_KEY = "topology.example.com/node"
OUT = [{"key": well_known.OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}]
CONFIRMED = Confirmation(nodes=("n9",))
BOUND = {well_known.BOUND_BY_CONTROLLER: "yes"}
OTHER = node_body(name="n1", zone="a")


def view(kind: Kind[V], body: Body) -> V:
    return kind.decode(msgspec.json.encode(body))


def the_claim(**changes: object) -> Body:
    given: dict[str, Any] = {"name": "data", "uid": "data-uid", "volume": "disk", "bound": True, "phase": "Bound"}
    return claim_body(**(given | {"annotations": BOUND} | changes))


def the_volume(**changes: object) -> Body:
    reference = claim_ref(name="data", uid="data-uid")
    given: dict[str, Any] = {"name": "disk", "node": "n9", "claim_ref": reference, "phase": "Bound", "uid": "disk-uid"}
    return volume_body(**(given | changes))


def the_class(policy: str | None = "confirmed") -> Body:
    return class_body(annotations={} if policy is None else {well_known.LOST_STORAGE: policy})


def decided(
    *,
    volume: Body | None = None,
    claim: Body | None = None,
    storage_class: Body | None = None,
    nodes: tuple[Body, ...] = (OTHER,),
    pods: tuple[Body, ...] = (),
    known: Confirmation = CONFIRMED,
) -> LostPair | Refusal:
    pair = VolumePair(
        view(VOLUME, volume or the_volume()),
        view(CLAIM, claim or the_claim()),
        view(STORAGE_CLASS, storage_class or the_class()),
        tuple(view(POD, pod) for pod in pods),
    )
    return lost_pair(pair, ReachableNodes(view(NODE, node) for node in nodes), known)


def by_driver_key(value: str = "n9") -> Body:
    return the_volume(node="", affinity=reachable_from(DRIVER_KEY, value))


@pytest.mark.parametrize(
    ("facts", "confirmed"),
    [
        pytest.param({}, "administrator", id="the Node is deleted, the administrator confirms"),
        pytest.param(
            {"nodes": (OTHER, node_body(name="n9", taints=OUT, ready=False))},
            "administrator",
            id="the Node is out of service",
        ),
        pytest.param(
            {"volume": the_volume(annotations={STORAGE_LOST: "yes"}), "known": Confirmation()},
            STORAGE_LOST,
            id="the volume is annotated",
        ),
        pytest.param(
            {"storage_class": the_class("10m"), "known": Confirmation(lost_seconds={"n9": 600.0})},
            "600s of the class",
            id="the delay of the class is over",
        ),
        pytest.param(
            {"volume": by_driver_key(), "claim": the_claim(selected_node="n9")},
            "administrator",
            id="the driver has its own topology key",
        ),
        pytest.param({"pods": (pod_body(claims=["data"]),)}, "administrator", id="a pending pod uses the claim"),
    ],
)
@pytest.mark.req("R9.given-up")
def test_pair_may_be_replaced(facts: dict[str, Any], confirmed: str) -> None:
    found = decided(**facts)
    assert isinstance(found, LostPair), found
    assert (found.claim.key, found.volume.name, found.node) == ("default/data", "disk", "n9")
    assert confirmed in found.confirmed_by


def test_pods_of_the_lost_node_are_part_of_the_pair() -> None:
    found = decided(pods=(pod_body(name="old", claims=["data"], node="n9"), pod_body(name="new", claims=["data"])))
    assert isinstance(found, LostPair)
    assert [pod.name for pod in found.pods] == ["old"]


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        pytest.param({"storage_class": the_class(None)}, RecoveryRefusalCode.CLASS_NOT_OPTED_IN, id="no annotation"),
        pytest.param({"storage_class": the_class("soon")}, RecoveryRefusalCode.BAD_POLICY, id="no duration"),
        pytest.param({"storage_class": the_class("-5m")}, RecoveryRefusalCode.BAD_POLICY, id="a negative duration"),
        pytest.param(
            {"claim": the_claim(uid="another")}, RecoveryRefusalCode.NOT_BOUND, id="another claim of the name"
        ),
        pytest.param({"claim": the_claim(volume="")}, RecoveryRefusalCode.NOT_BOUND, id="a claim without volume"),
        pytest.param(
            {"volume": the_volume(node="", affinity=reachable_from(well_known.ZONE, "z"))},
            RecoveryRefusalCode.NODE_UNKNOWN,
            id="a zone",
        ),
        pytest.param(
            {
                "volume": the_volume(node="", affinity=reachable_from(well_known.ZONE, "n9")),
                "claim": the_claim(selected_node="n9"),
            },
            RecoveryRefusalCode.NODE_UNKNOWN,
            id="a zone that is called as the node",
        ),
        pytest.param(
            {"volume": the_volume(node="", affinity=reachable_from(well_known.HOSTNAME, "n8", "n9"))},
            RecoveryRefusalCode.NODE_UNKNOWN,
            id="two nodes",
        ),
        pytest.param({"volume": the_volume(node="")}, RecoveryRefusalCode.NODE_UNKNOWN, id="no affinity"),
        pytest.param(
            {"volume": by_driver_key("rack-9"), "claim": the_claim(selected_node="n9")},
            RecoveryRefusalCode.NODE_UNKNOWN,
            id="a driver's key that may be of many nodes",
        ),
        pytest.param({"nodes": (node_body(name="n9"),)}, RecoveryRefusalCode.NODE_EXISTS, id="a ready Node"),
        pytest.param(
            {"nodes": (node_body(name="n9", ready=False),)}, RecoveryRefusalCode.NODE_EXISTS, id="a NotReady Node"
        ),
        pytest.param(
            {"nodes": (node_body(name="n9", labels={well_known.HOSTNAME: "x"}),)},
            RecoveryRefusalCode.NODE_EXISTS,
            id="a Node of the name with another hostname",
        ),
        pytest.param(
            {"nodes": (node_body(name="x", labels={well_known.HOSTNAME: "n9"}),)},
            RecoveryRefusalCode.NODE_EXISTS,
            id="a Node of another name with the hostname",
        ),
        pytest.param(
            {"nodes": (node_body(name="n9", taints=[{"key": well_known.UNREACHABLE, "effect": "NoExecute"}]),)},
            RecoveryRefusalCode.NODE_EXISTS,
            id="another taint",
        ),
        pytest.param(
            {"nodes": (node_body(name="n9"),), "volume": the_volume(annotations={STORAGE_LOST: "yes"})},
            RecoveryRefusalCode.NODE_EXISTS,
            id="a Node that came back after the confirmation",
        ),
        pytest.param(
            {"claim": the_claim(deleting=True)}, RecoveryRefusalCode.CLAIM_DELETING, id="a claim being deleted"
        ),
        pytest.param(
            {"claim": the_claim(annotations={})}, RecoveryRefusalCode.VOLUME_CHOSEN, id="the user chose the volume"
        ),
        pytest.param(
            {"claim": the_claim(owners=[{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}])},
            RecoveryRefusalCode.POD_OWNED,
            id="an ephemeral volume",
        ),
        pytest.param(
            {"pods": (pod_body(claims=["data"], node="n1"),)}, RecoveryRefusalCode.IN_USE, id="a pod on another node"
        ),
        pytest.param({"known": Confirmation()}, RecoveryRefusalCode.UNCONFIRMED, id="no confirmation"),
        pytest.param({"known": Confirmation(nodes=("n8",))}, RecoveryRefusalCode.UNCONFIRMED, id="of another node"),
        pytest.param(
            {"known": Confirmation(lost_seconds={"n9": 1e9})},
            RecoveryRefusalCode.UNCONFIRMED,
            id="the class never confirms",
        ),
        pytest.param(
            {"storage_class": the_class("10m"), "known": Confirmation()},
            RecoveryRefusalCode.UNCONFIRMED,
            id="unknown for how long",
        ),
        pytest.param(
            {"storage_class": the_class("10m"), "known": Confirmation(lost_seconds={"n9": 599.0})},
            RecoveryRefusalCode.DELAY_NOT_OVER,
            id="before the delay is over",
        ),
    ],
)
@pytest.mark.req("R9.given-up")
def test_pair_is_left_alone(facts: dict[str, Any], code: RecoveryRefusalCode) -> None:
    found = decided(**facts)
    assert isinstance(found, Refusal)
    assert found.code is code
    assert found.reason


def test_class_that_does_not_exist_has_not_opted_in() -> None:
    pair = VolumePair(view(VOLUME, the_volume()), view(CLAIM, the_claim()), None)
    found = lost_pair(pair, ReachableNodes(()), CONFIRMED)
    assert isinstance(found, Refusal)
    assert found.code is RecoveryRefusalCode.CLASS_NOT_OPTED_IN
