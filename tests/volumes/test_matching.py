"""The matcher, pair by pair, and its choice among several volumes."""

import pytest

from mooring.api import well_known
from mooring.api.selectors import SelectorError
from mooring.api.views.storage import Claim, Volume
from mooring.volumes.matching import Criterion, first_mismatch, is_reserved_for
from support.builders import a_claim, a_volume, claim_ref, reachable_from
from support.builders.volume_library import assigned_volume, best_volume

pytestmark = [pytest.mark.req("T9.matching"), pytest.mark.level("u")]

MINE = claim_ref(name="claim-1", uid="claim-1-uid")
ON_SSD = {"matchLabels": {"medium": "ssd"}}


@pytest.mark.parametrize(
    ("claim", "volume", "want"),
    [
        pytest.param(a_claim(), a_volume(), None, id="does"),
        pytest.param(a_claim(), a_volume(claim_ref=claim_ref(name="other")), Criterion.RESERVED, id="reserved by name"),
        pytest.param(
            a_claim(), a_volume(claim_ref=claim_ref(uid="gone")), Criterion.RESERVED, id="reserved for a namesake"
        ),
        pytest.param(
            a_claim(),
            a_volume(claim_ref=claim_ref(namespace="other")),
            Criterion.RESERVED,
            id="reserved in another namespace",
        ),
        pytest.param(a_claim(size="10Gi"), a_volume(size="10Gi"), None, id="just large enough"),
        pytest.param(a_claim(size="10Gi"), a_volume(size="10737418239"), Criterion.SIZE, id="one byte short"),
        pytest.param(a_claim(size="1500m"), a_volume(size="1"), Criterion.SIZE, id="half a byte short"),
        pytest.param(a_claim(size="800E"), a_volume(size="800E"), None, id="beyond 64 bits"),
        pytest.param(a_claim(size="801E"), a_volume(size="800E"), Criterion.SIZE, id="one exabyte short"),
        pytest.param(a_claim(size=None), a_volume(size="0"), None, id="no request is zero"),
        pytest.param(a_claim(mode="Block"), a_volume(), Criterion.MODE, id="block asked, file system there"),
        pytest.param(a_claim(), a_volume(mode="Block"), Criterion.MODE, id="file system asked, block there"),
        pytest.param(a_claim(mode="Block"), a_volume(mode="Block"), None, id="block asked and there"),
        pytest.param(
            a_claim(attributes_class="gold"), a_volume(), Criterion.ATTRIBUTES_CLASS, id="attributes class asked"
        ),
        pytest.param(
            a_claim(), a_volume(attributes_class="gold"), Criterion.ATTRIBUTES_CLASS, id="attributes class not asked"
        ),
        pytest.param(
            a_claim(attributes_class="gold"), a_volume(attributes_class="gold"), None, id="attributes classes agree"
        ),
        pytest.param(a_claim(), a_volume(deleting=True), Criterion.DELETING, id="being deleted"),
        *(
            pytest.param(a_claim(), a_volume(phase=phase), Criterion.PHASE, id=f"phase {phase or 'not set'}")
            for phase in ("", "Pending", "Bound", "Released", "Failed")
        ),
        pytest.param(a_claim(selector=ON_SSD), a_volume(), Criterion.SELECTOR, id="labels do not match"),
        pytest.param(a_claim(selector=ON_SSD), a_volume(labels={"medium": "ssd"}), None, id="labels match"),
        pytest.param(a_claim(selector={}), a_volume(), None, id="an empty selector takes all"),
        pytest.param(a_claim(), a_volume(storage_class="fast"), Criterion.CLASS, id="another class"),
        pytest.param(
            a_claim(storage_class="fast"),
            a_volume(storage_class="", annotations={well_known.STORAGE_CLASS_BETA: "fast"}),
            None,
            id="the legacy annotation names the class",
        ),
        pytest.param(
            a_claim(access_modes=["ReadWriteMany"]), a_volume(), Criterion.ACCESS_MODES, id="an access mode is missing"
        ),
        pytest.param(
            a_claim(),
            a_volume(access_modes=["ReadOnlyMany", "ReadWriteOnce"]),
            None,
            id="more access modes than asked",
        ),
        pytest.param(a_claim(access_modes=[]), a_volume(access_modes=[]), None, id="no access mode asked"),
    ],
)
def test_first_mismatch(claim: Claim, volume: Volume, want: Criterion | None) -> None:
    assert first_mismatch(claim, volume) is want


@pytest.mark.req("T9.prebound")
@pytest.mark.parametrize("reference", [MINE, claim_ref(name="claim-1")], ids=["with uid", "by name only"])
@pytest.mark.parametrize(
    ("volume", "want"),
    [
        pytest.param({"phase": "Bound"}, None, id="phase does not matter"),
        pytest.param({"storage_class": "fast"}, None, id="class does not matter"),
        pytest.param({"access_modes": ["ReadOnlyMany"]}, Criterion.ACCESS_MODES, id="access modes matter"),
        pytest.param({"labels": {"medium": "hdd"}}, None, id="labels do not matter"),
        pytest.param({"size": "1Gi"}, Criterion.SIZE, id="size matters"),
        pytest.param({"mode": "Block"}, Criterion.MODE, id="mode matters"),
        pytest.param({"attributes_class": "gold"}, Criterion.ATTRIBUTES_CLASS, id="attributes class matters"),
        pytest.param({"deleting": True}, Criterion.DELETING, id="deletion matters"),
        pytest.param({"node": "elsewhere"}, Criterion.AFFINITY, id="the node matters"),
    ],
)
def test_a_volume_reserved_for_the_claim(
    reference: dict[str, str], volume: dict[str, object], want: Criterion | None
) -> None:
    claim = a_claim(selector=ON_SSD)

    assert first_mismatch(claim, a_volume(claim_ref=reference, **volume), node={well_known.HOSTNAME: "here"}) is want


@pytest.mark.req("T1.terms")
@pytest.mark.parametrize(
    ("affinity", "want"),
    [
        pytest.param(None, None, id="reachable from everywhere"),
        pytest.param({"nodeSelectorTerms": []}, Criterion.AFFINITY, id="no terms"),
        pytest.param({"nodeSelectorTerms": [{}]}, Criterion.AFFINITY, id="an empty term"),
        pytest.param(reachable_from("zone", "a"), None, id="the label matches"),
        pytest.param(reachable_from("zone", "b"), Criterion.AFFINITY, id="the label does not match"),
        pytest.param(reachable_from("rack", "1"), Criterion.AFFINITY, id="the label is not there"),
        pytest.param(
            {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["x"]}]}]},
            None,
            id="fields are let pass where the name is not given",
        ),
    ],
)
def test_the_node_counts_when_it_is_given(affinity: dict[str, object] | None, want: Criterion | None) -> None:
    volume = a_volume(affinity=affinity)

    assert first_mismatch(a_claim(), volume, node={"zone": "a"}) is want
    assert first_mismatch(a_claim(), volume) is None


@pytest.mark.parametrize(("name", "want"), [("x", None), ("y", Criterion.AFFINITY)])
def test_a_volume_may_name_its_nodes(name: str, want: Criterion | None) -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["x"]}]}

    assert first_mismatch(a_claim(), a_volume(affinity={"nodeSelectorTerms": [term]}), node={}, name=name) is want


def test_the_first_failure_is_named_in_the_order_of_kubernetes() -> None:
    wrong: dict[str, object] = {
        "claim_ref": claim_ref(name="other"),
        "size": "1Gi",
        "mode": "Block",
        "attributes_class": "gold",
        "deleting": True,
        "phase": "Released",
        "labels": {"medium": "hdd"},
        "storage_class": "fast",
        "node": "elsewhere",
        "access_modes": ["ReadOnlyMany"],
    }
    claim, found = a_claim(selector=ON_SSD), []
    right: dict[str, object] = {"claim_ref": None, "labels": {"medium": "ssd"}}

    for field in list(wrong):
        found.append(first_mismatch(claim, a_volume(**(right | wrong)), node={well_known.HOSTNAME: "here"}))
        del wrong[field]

    assert found == list(Criterion)
    assert first_mismatch(claim, a_volume(**right), node={well_known.HOSTNAME: "here"}) is None


def test_a_selector_that_cannot_be_understood_is_an_error() -> None:
    broken = {"matchExpressions": [{"key": "medium", "operator": "Near", "values": ["ssd"]}]}

    with pytest.raises(SelectorError):
        first_mismatch(a_claim(selector=broken), a_volume())


def test_points_to() -> None:
    assert is_reserved_for(a_volume(claim_ref=claim_ref()), a_claim())
    assert is_reserved_for(a_volume(claim_ref=MINE), a_claim())
    assert not is_reserved_for(a_volume(claim_ref=claim_ref(uid="another")), a_claim())
    assert not is_reserved_for(a_volume(), a_claim())


#: 100G and 150G and one reserved for claim-2 on value1, 200G on value3, 200G that is not Available on value4.
SHELF = (
    a_volume(name="released", size="200G", affinity=reachable_from("key", "value4"), phase="Released"),
    a_volume(name="large", size="150G", affinity=reachable_from("key", "value1")),
    a_volume(name="small", size="100G", affinity=reachable_from("key", "value1")),
    a_volume(
        name="reserved", size="100G", affinity=reachable_from("key", "value1"), claim_ref=claim_ref(name="claim-2")
    ),
    a_volume(name="far", size="200G", affinity=reachable_from("key", "value3")),
)
CLAIM = a_claim(name="claim-1", size="100G")
SECOND = a_claim(name="claim-2", size="100G")


@pytest.mark.parametrize(
    ("claim", "value", "excluded", "want"),
    [
        pytest.param(CLAIM, "value1", (), "small", id="the smallest that does"),
        pytest.param(SECOND, "value1", (), "reserved", id="the reserved one"),
        pytest.param(CLAIM, "value1", ("small",), "large", id="the smallest is taken"),
        pytest.param(CLAIM, "value1", ("small", "large"), None, id="all are taken"),
        pytest.param(a_claim(size="100G", access_modes=["ReadWriteMany"]), "value1", (), None, id="access modes"),
        pytest.param(CLAIM, "value2", (), None, id="no volume reaches the node"),
        pytest.param(SECOND, "value3", (), None, id="the reserved one is elsewhere, a free one does not help"),
        pytest.param(CLAIM, "value4", (), None, id="not Available"),
        pytest.param(CLAIM, "value3", (), "far", id="others' affinities do not disturb"),
    ],
)
def test_volume_assigned_on_a_node(claim: Claim, value: str, excluded: tuple[str, ...], want: str | None) -> None:
    found = assigned_volume(claim, [volume for volume in SHELF if volume.name not in excluded], node={"key": value})

    assert (None if found is None else found.name) == want


@pytest.mark.req("T9.prebound")
def test_a_reserved_volume_that_does_not_do_leaves_the_claim_to_others() -> None:
    volumes = [a_volume(name="a", size="1Gi", claim_ref=claim_ref()), a_volume(name="b")]

    assert assigned_volume(a_claim(), volumes) is volumes[1]
    assert best_volume(a_claim(), volumes) is volumes[1]


@pytest.mark.req("T9.best")
def test_ties_go_to_the_first_by_name() -> None:
    volumes = [a_volume(name=name) for name in ("c", "a", "b")]

    assert assigned_volume(a_claim(), volumes) is volumes[1]
    assert best_volume(a_claim(), volumes) is volumes[1]


def test_before_a_node_is_chosen_only_a_reserved_volume_is_taken() -> None:
    assert best_volume(a_claim(), [a_volume()], reserved_only=True) is None
    reserved = a_volume(name="reserved", claim_ref=claim_ref())
    assert best_volume(a_claim(), [a_volume(), reserved], reserved_only=True) is reserved
