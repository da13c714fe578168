"""Kubernetes' tables for the predicates that scheduler and PV controller share."""

import msgspec
import pytest

from mooring.api import well_known
from mooring.api.kinds import VOLUME
from mooring.api.views.storage import Claim, Volume
from mooring.volumes.binding import classify_claims, is_delayed
from mooring.volumes.matching import Criterion, first_mismatch
from support.builders import (
    Body,
    a_claim,
    a_class,
    a_pod,
    a_volume,
    claim_ref,
    owned_by,
    pod_body,
    reachable_from,
    volume_body,
)
from support.builders.volume_library import assigned_volume

pytestmark = [pytest.mark.level("u")]

CLASSES = {
    one.name: one
    for one in (
        a_class(name="wait"),
        a_class(name="immediate", binding_mode="Immediate"),
        a_class(name="unset", binding_mode=None),
    )
}


@pytest.mark.req("T3.delayed")
@pytest.mark.parametrize(
    ("storage_class", "want"),
    [
        pytest.param(None, False, id="no class"),
        pytest.param("unknown", False, id="class not found"),
        pytest.param("unset", 'VolumeBindingMode not set for StorageClass "unset"', id="no mode"),
        pytest.param("immediate", False, id="immediate"),
        pytest.param("wait", True, id="delayed"),
    ],
)
def test_is_delayed(storage_class: str | None, want: bool | str) -> None:
    assert is_delayed(a_claim(storage_class=storage_class).storage_class, CLASSES.get) == want


HERE = {"key": "value1"}
GOLD = a_volume(name="gold", size="100G", affinity=reachable_from("key", "value1"), attributes_class="gold")


@pytest.mark.req("T9.matching")
@pytest.mark.parametrize(
    ("claim", "volume", "want"),
    [
        pytest.param(a_claim(size="100G", attributes_class="gold"), GOLD, "gold", id="both gold"),
        pytest.param(a_claim(size="100G", attributes_class="silver"), a_volume(size="100G"), None, id="silver asked"),
        pytest.param(a_claim(size="100G"), GOLD, None, id="gold there, nothing asked"),
        pytest.param(
            a_claim(size="100G", attributes_class="silver"),
            a_volume(size="100G", attributes_class="gold", claim_ref=claim_ref()),
            None,
            id="reserved, but gold instead of silver",
        ),
    ],
)
def test_attributes_classes(claim: Claim, volume: Volume, want: str | None) -> None:
    found = assigned_volume(claim, [volume], node=HERE)

    assert (None if found is None else found.name) == want


LABELS = {"test-key1": "test-value1", "test-key2": "test-value2"}


def one_of(key: str, *values: str) -> Body:
    return {"key": key, "operator": "In", "values": list(values)}


def terms(*terms: list[Body]) -> Body:
    return {"nodeSelectorTerms": [{"matchExpressions": expressions} for expressions in terms]}


GOOD_1 = one_of("test-key1", "test-value1", "test-value2")
GOOD_2 = one_of("test-key2", "test-value0", "test-value2")
BAD = one_of("test-key1", "test-value3")


@pytest.mark.req("T1.terms")
@pytest.mark.parametrize(
    ("affinity", "reaches"),
    [
        pytest.param(None, True, id="no affinity"),
        pytest.param(terms(), False, id="no terms"),
        pytest.param({"nodeSelectorTerms": [{}]}, False, id="an empty term"),
        pytest.param(terms([BAD], [GOOD_1]), True, id="the second term matches"),
        pytest.param(terms([GOOD_1, GOOD_2]), True, id="both expressions match"),
        pytest.param(terms([GOOD_1, one_of("test-key3", "test-value2")]), False, id="a key is absent"),
        pytest.param(terms([GOOD_2, BAD]), False, id="a value is wrong"),
        pytest.param(terms([BAD], [one_of("test-key3", "x")]), False, id="no term matches"),
    ],
)
def test_node_affinity(affinity: Body | None, reaches: bool) -> None:
    failed = first_mismatch(a_claim(), a_volume(affinity=affinity), node=LABELS)

    assert failed is (None if reaches else Criterion.AFFINITY)


@pytest.mark.req("T1.no-restriction")
def test_an_affinity_that_requires_nothing_reaches_every_node() -> None:
    body = volume_body()
    body["spec"]["nodeAffinity"] = {}
    assert first_mismatch(a_claim(), VOLUME.decode(msgspec.json.encode(body)), node=LABELS) is None


@pytest.mark.req("T9.matching")
@pytest.mark.parametrize(
    ("claim", "want"),
    [
        pytest.param(a_claim(storage_class=None), False, id="no class"),
        pytest.param(
            a_claim(storage_class=None, annotations={well_known.STORAGE_CLASS_BETA: ""}), True, id="annotation"
        ),
        pytest.param(a_claim(storage_class=""), True, id="the empty class"),
    ],
)
def test_has_class(claim: Claim, want: bool) -> None:
    assert claim.has_class is want


POD = a_pod(ephemeral=["data"], uid="mine")
BODY = pod_body()
NOT_OWNER = "PVC default/pod-1-data was not created for pod default/pod-1 (pod is not owner)"
MISSING = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "pod-1-data"'


@pytest.mark.req("T9.unusable")
@pytest.mark.parametrize(
    ("claim", "want"),
    [
        pytest.param({"owners": [owned_by(BODY, uid="mine")]}, None, id="owned"),
        pytest.param({"owners": [owned_by(BODY, uid="other")]}, NOT_OWNER, id="another pod's"),
        pytest.param({"owners": [owned_by(BODY, uid="mine", controller=False)]}, NOT_OWNER, id="not its controller"),
        pytest.param({}, NOT_OWNER, id="no owner"),
        pytest.param(
            {"owners": [owned_by(BODY, uid="mine")], "namespace": "other"}, MISSING, id="in another namespace"
        ),
    ],
)
def test_claims_of_ephemeral_volumes(claim: Body, want: str | None) -> None:
    made = a_claim(name="pod-1-data", storage_class="wait", **claim)

    found = classify_claims(POD, {made.key: made}.get, CLASSES)

    assert (found if isinstance(found, str) else None) == want
