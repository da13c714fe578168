"""The library as a scheduler uses it: which nodes, which volumes, and why not."""

import pytest

from mooring.api import well_known
from mooring.api.views.storage import Claim, Volume
from mooring.volumes.binding import BindingPlan, StaticBinding
from mooring.volumes.state import ClaimGroups, ConflictReason
from support.builders import Body, a_capacity, a_claim, a_class, a_driver, a_pod, a_volume, claim_ref, reachable_from
from support.builders.volume_library import VolumeLibrary


def groups(*claims: tuple[str, dict[str, str]]) -> ClaimGroups:
    found = ClaimGroups()
    for name, labels in claims:
        claim = a_claim(name=name, labels=labels)
        found.observe(claim.key, claim)
    return found


def test_equal_labels_form_a_group_within_a_namespace() -> None:
    found = groups(("a", {"app": "db"}), ("b", {"app": "db"}), ("c", {"app": "db", "tier": "x"}))
    other = a_claim(name="a", namespace="other", labels={"app": "db"})
    found.observe(other.key, other)
    assert list(found.of("default/a")) == ["default/b"]
    assert list(found.of("other/a")) == []


def test_claims_without_labels_have_none() -> None:
    found = groups(("a", {}), ("b", {}))
    assert list(found.of("default/a")) == []
    assert list(found.of("default/unknown")) == []


def test_groups_follow_claim_changes() -> None:
    found = groups(("a", {"app": "db"}), ("b", {"app": "db"}), ("c", {"app": "db"}))
    found.observe("default/b", None)
    assert list(found.of("default/a")) == ["default/c"]
    found.observe("default/c", a_claim(name="c", labels={"app": "web"}))
    assert list(found.of("default/a")) == []
    found.observe("default/a", None)
    found.observe("default/a", None)
    assert list(found.of("default/a")) == []


pytestmark = pytest.mark.level("u")

SMALL = a_claim(name="small", size="1G")
LARGE = a_claim(name="large", size="5G")

N1A = a_volume(name="n1a", size="5G", node="n1")
N1B = a_volume(name="n1b", size="10G", node="n1")
N2 = a_volume(name="n2", size="1G", node="n2")
BOUND = a_volume(name="bound", size="1G", node="n1", phase="Bound", claim_ref=claim_ref(name="bound"))


@pytest.mark.req("T44.first-and-second-node", "T9.best")
@pytest.mark.parametrize(
    ("volumes", "rejected", "node", "volume"),
    [
        pytest.param([N1A, N1B], {"n2"}, "n1", "n1a", id="the first node, best by capacity"),
        pytest.param(
            [a_volume(name="b", size="9G", node="n2"), a_volume(name="a", size="10G", node="n2")],
            {"n1"},
            "n2",
            "b",
            id="the second node, best by capacity",
        ),
        pytest.param(
            [a_volume(name="b", node="n1"), a_volume(name="a", node="n1")],
            {"n2"},
            "n1",
            "a",
            id="equal capacity, first by name",
        ),
        pytest.param([N1A, a_volume(name="shared", size="2G")], set(), "n1", "shared", id="a volume without affinity"),
        pytest.param(
            [a_volume(name="zonal", affinity=reachable_from(well_known.ZONE, "zone-n2", "zone-n3"))],
            {"n1"},
            "n2",
            "zonal",
            id="a zonal volume",
        ),
        pytest.param(
            [a_volume(name="mine", node="n1", claim_ref=claim_ref(name="small"), phase="Bound"), N1A],
            {"n2"},
            "n1",
            "mine",
            id="the volume the user reserved for the claim",
        ),
    ],
)
def test_one_claim(volumes: list[Volume], rejected: set[str], node: str, volume: str) -> None:
    library = VolumeLibrary(SMALL, *volumes)

    assert library.rejected("small") == ({ConflictReason.NO_VOLUME: rejected} if rejected else {})
    assert library.plan("small", node=node) == BindingPlan(
        node, (StaticBinding(SMALL, next(one for one in volumes if one.name == volume)),)
    )


@pytest.mark.req("T44.prebound", "T9.prebound")
@pytest.mark.parametrize(
    "volume",
    [
        pytest.param(a_volume(node="n1", claim_ref=claim_ref(name="other")), id="prebound to another claim by name"),
        pytest.param(a_volume(node="n1", claim_ref=claim_ref(name="small", uid="x")), id="prebound to a namesake"),
        pytest.param(a_volume(node="n1", phase="Released"), id="released"),
        pytest.param(a_volume(node="n1", deleting=True), id="being deleted"),
        pytest.param(a_volume(node="n1", size="999M"), id="too small"),
        pytest.param(a_volume(node="n1", storage_class="now"), id="of another class"),
        pytest.param(a_volume(node="n1", mode="Block"), id="a block device"),
        pytest.param(a_volume(node="n1", access_modes=["ReadOnlyMany"]), id="read only"),
        pytest.param(a_volume(node="n3"), id="of a node that is not there"),
        pytest.param(a_volume(affinity={"nodeSelectorTerms": []}), id="reachable from nowhere"),
    ],
)
def test_volumes_that_are_not_matched(volume: Volume) -> None:
    assert VolumeLibrary(SMALL, volume).rejected("small") == {ConflictReason.NO_VOLUME: {"n1", "n2"}}


def test_a_claim_waits_for_the_volume_reserved_for_it() -> None:
    mine = a_volume(name="mine", node="n1", claim_ref=claim_ref(name="small"))
    library = VolumeLibrary(SMALL, mine, N2)

    assert library.rejected("small") == {ConflictReason.NO_VOLUME: {"n2"}}
    assert library.matches("small", node="n2") == {"small": None}


@pytest.mark.req("T44.two-of-three")
def test_two_of_three_claims_match() -> None:
    library = VolumeLibrary(SMALL, LARGE, a_claim(name="huge", size="50G"), N1A, N1B)

    assert library.rejected("huge", "small", "large") == {ConflictReason.NO_VOLUME: {"n1", "n2"}}
    assert library.matches("huge", "small", "large", node="n1") == {"small": "n1a", "large": "n1b", "huge": None}
    with pytest.raises(ValueError, match='no volume for claim "default/huge" on node "n1"'):
        library.plan("huge", "small", "large", node="n1")


@pytest.mark.req("T9.distinct", "T9.order")
@pytest.mark.parametrize("names", [("small", "large"), ("large", "small")])
def test_two_claims_never_share_a_volume_and_are_planned_smallest_first(names: tuple[str, str]) -> None:
    library = VolumeLibrary(SMALL, LARGE, N1A, N1B, N2)

    assert library.rejected(*names) == {ConflictReason.NO_VOLUME: {"n2"}}
    plan = library.plan(*names, node="n1")
    assert plan == BindingPlan("n1", (StaticBinding(SMALL, N1A), StaticBinding(LARGE, N1B)))
    assert plan.requires_hold


@pytest.mark.req("T9.distinct")
def test_one_volume_is_not_enough_for_two_claims() -> None:
    assert VolumeLibrary(SMALL, LARGE, N1A).rejected("small", "large") == {ConflictReason.NO_VOLUME: {"n1", "n2"}}


ON_SSD: Body = {"matchLabels": {"medium": "ssd"}}


@pytest.mark.req("T10.feasible")
def test_an_assignment_is_found_where_the_greedy_choice_fails() -> None:
    library = VolumeLibrary(
        SMALL,
        a_claim(name="picky", size="2G", selector=ON_SSD),
        a_volume(name="ssd", size="5G", node="n1", labels={"medium": "ssd"}),
        a_volume(name="hdd", size="10G", node="n1", labels={"medium": "hdd"}),
    )

    assert library.rejected("small", "picky") == {ConflictReason.NO_VOLUME: {"n2"}}
    assert library.matches("small", "picky", node="n1") == {"small": "hdd", "picky": "ssd"}


@pytest.mark.req("T10.feasible")
def test_claims_of_different_access_modes_share_volumes_that_offer_both() -> None:
    both = ["ReadWriteOnce", "ReadWriteMany"]
    library = VolumeLibrary(
        SMALL,
        a_claim(name="many", size="1G", access_modes=["ReadWriteMany"]),
        a_volume(name="both", size="1G", node="n1", access_modes=both),
        a_volume(name="once", size="2G", node="n1"),
        a_volume(name="alone", size="1G", node="n2", access_modes=both),
    )

    assert library.rejected("small", "many") == {ConflictReason.NO_VOLUME: {"n2"}}
    assert library.matches("small", "many", node="n1") == {"small": "once", "many": "both"}


@pytest.mark.req("T7.filter")
def test_bound_claims_limit_the_nodes_to_those_that_reach_their_volumes() -> None:
    library = VolumeLibrary(a_claim(name="bound", volume="bound", bound=True), BOUND)

    assert library.rejected("bound") == {ConflictReason.NODE_AFFINITY: {"n2"}}
    assert library.plan("bound", node="n1").empty


@pytest.mark.req("T7.relabelled")
def test_a_relabelled_node_reaches_other_volumes() -> None:
    library = VolumeLibrary(a_claim(name="bound", volume="bound", bound=True), SMALL, BOUND, N1A)

    library.topology.put("n1", {well_known.HOSTNAME: "renamed"})
    library.topology.put("n2", {well_known.HOSTNAME: "n1"})

    assert library.rejected("bound", "small") == {
        ConflictReason.NODE_AFFINITY: {"n1"},
        ConflictReason.NO_VOLUME: {"n1"},
    }


GONE = a_claim(name="gone", volume="gone", bound=True)
ON_N1 = a_claim(name="bound", volume="bound", bound=True)


@pytest.mark.req("T9.reasons")
@pytest.mark.parametrize(
    ("names", "want"),
    [
        pytest.param(["gone"], {ConflictReason.VOLUME_MISSING: {"n1", "n2"}}, id="the bound volume does not exist"),
        pytest.param(
            ["gone", "bound"], {ConflictReason.VOLUME_MISSING: {"n1", "n2"}}, id="a missing volume ends the search"
        ),
        pytest.param(
            ["bound", "gone"],
            {ConflictReason.NODE_AFFINITY: {"n2"}, ConflictReason.VOLUME_MISSING: {"n1"}},
            id="a node's first problem is its only one",
        ),
        pytest.param(
            ["bound", "large"],
            {ConflictReason.NODE_AFFINITY: {"n2"}, ConflictReason.NO_VOLUME: {"n1", "n2"}},
            id="bound and unbound claims each say their own",
        ),
    ],
)
def test_reasons_and_their_order(names: list[str], want: dict[str, set[str]]) -> None:
    found = VolumeLibrary(GONE, ON_N1, LARGE, BOUND).rejected(*names)

    assert found == want
    assert list(found) == list(want)


@pytest.mark.req("T4.scheduling")
@pytest.mark.parametrize(
    ("claim", "want"),
    [
        pytest.param(
            a_claim(name="c", storage_class="made"),
            {ConflictReason.NO_VOLUME: {"n2"}},
            id="the class allows one node",
        ),
        pytest.param(
            a_claim(name="c", storage_class="made", selected_node="n1"),
            {ConflictReason.NO_VOLUME: {"n2"}},
            id="that node was selected",
        ),
        pytest.param(
            a_claim(name="c", storage_class="made", selected_node="n2"),
            {ConflictReason.NO_VOLUME: {"n1", "n2"}},
            id="a node was selected that the class does not allow",
        ),
        pytest.param(
            a_claim(name="c", storage_class="made", selected_node=""),
            {ConflictReason.NO_VOLUME: {"n1", "n2"}},
            id="selected but empty is no node",
        ),
    ],
)
def test_volumes_can_be_made_where_the_class_allows_it(claim: Claim, want: dict[str, set[str]]) -> None:
    assert VolumeLibrary(claim).rejected("c") == want


@pytest.mark.req("T4.scheduling")
def test_capacity_elsewhere_does_not_widen_what_the_class_allows() -> None:
    tracked = a_driver(tracks_capacity=True)
    room = a_capacity(storage_class="made", capacity="100Gi", topology={})
    library = VolumeLibrary(a_claim(name="c", storage_class="made"), tracked, room)

    assert library.rejected("c") == {ConflictReason.NO_VOLUME: {"n2"}}


def test_a_volume_to_be_made_does_not_help_where_another_claim_cannot_be_served() -> None:
    library = VolumeLibrary(a_claim(name="c", storage_class="made"), SMALL)

    assert library.rejected("c", "small") == {ConflictReason.NO_VOLUME: {"n1", "n2"}}


def test_a_volume_of_a_provisioning_class_is_used_where_there_is_one() -> None:
    library = VolumeLibrary(
        a_claim(name="c", storage_class="made"), a_volume(name="v", node="n2", storage_class="made")
    )

    assert library.rejected("c") == {}
    assert library.matches("c", node="n2") == {"c": "v"}
    assert library.matches("c", node="n1") == {"c": None}


def test_a_selected_claim_takes_no_free_volume() -> None:
    library = VolumeLibrary(a_claim(name="c", size="1G", selected_node="n1"), N1A)

    assert library.rejected("c") == {ConflictReason.NO_VOLUME: {"n1", "n2"}}
    with pytest.raises(ValueError, match='no volume for claim "default/c"'):
        library.plan("c", node="n1")


def test_deleted_objects_are_removed() -> None:
    library = VolumeLibrary(SMALL, N1A)

    library.state.observe_volume(N1A, None)
    assert library.state.volume("n1a") is None
    assert library.rejected("small") == {ConflictReason.NO_VOLUME: {"n1", "n2"}}

    library.state.observe_class(a_class(name="local"), None)
    assert library.state.claims_of(a_pod(claims=["small"])) == "pod has unbound immediate PersistentVolumeClaims"

    library.state.observe_claim(SMALL, None)
    assert library.state.claims_of(a_pod(claims=["small"])) == 'persistentvolumeclaim "small" not found'


def test_volume_with_malformed_size_is_reported_and_ignored() -> None:
    library = VolumeLibrary(SMALL)

    problem = library.state.observe_volume(None, a_volume(name="v", size="much", node="n1"))

    assert problem.startswith('spec.capacity: quantity "much"')
    assert library.rejected("small") == {ConflictReason.NO_VOLUME: {"n1", "n2"}}
    assert library.state.observe_volume(None, a_volume(name="v", node="n1")) == ""
    assert library.rejected("small") == {ConflictReason.NO_VOLUME: {"n2"}}


def test_without_nodes_nothing_is_rejected() -> None:
    assert VolumeLibrary(SMALL, GONE, nodes={}).rejected("small", "gone") == {}


def test_a_slot_that_changes_hands_takes_no_volumes_along() -> None:
    library = VolumeLibrary(SMALL, N1A)
    assert library.rejected("small") == {ConflictReason.NO_VOLUME: {"n2"}}

    library.topology.remove("n1")
    library.topology.put("n9", {well_known.HOSTNAME: "n9"})

    assert library.topology.slot("n9") == 0
    assert library.rejected("small") == {ConflictReason.NO_VOLUME: {"n2", "n9"}}


@pytest.mark.req("T1.names")
def test_a_volume_may_name_its_nodes() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    named = a_volume(name="bound", affinity={"nodeSelectorTerms": [term]}, phase="Bound")
    free = a_volume(name="free", affinity={"nodeSelectorTerms": [term]})
    library = VolumeLibrary(ON_N1, SMALL, named, free)

    assert library.rejected("bound") == {ConflictReason.NODE_AFFINITY: {"n1"}}
    assert library.rejected("small") == {ConflictReason.NO_VOLUME: {"n1"}}
