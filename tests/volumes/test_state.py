"""The library as a scheduler uses it: which nodes, which volumes, and why not."""

import pytest

from builders import Body, a_claim, a_class, a_pod, a_volume, claim_ref, reachable_from
from builders.volume_worlds import VolumeWorld
from mooring.api import keys
from mooring.api.views.claim import Claim
from mooring.api.views.volume import Volume
from mooring.volumes.plan import BindingPlan, StaticBinding
from mooring.volumes.state import AFFINITY_CONFLICT, NOTHING_TO_BIND, VOLUME_MISSING

pytestmark = pytest.mark.level("u")

SMALL = a_claim(name="small", size="1G")
LARGE = a_claim(name="large", size="5G")

N1A = a_volume(name="n1a", size="5G", node="n1")
N1B = a_volume(name="n1b", size="10G", node="n1")
N2 = a_volume(name="n2", size="1G", node="n2")
BOUND = a_volume(name="bound", size="1G", node="n1", phase="Bound", claim_ref=claim_ref(name="bound"))


@pytest.mark.req("T44", "T9")
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
            [a_volume(name="zonal", affinity=reachable_from(keys.ZONE, "zone-n2", "zone-n3"))],
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
    world = VolumeWorld(SMALL, *volumes)

    assert world.rejected("small") == ({NOTHING_TO_BIND: rejected} if rejected else {})
    assert world.plan("small", node=node) == BindingPlan(
        node, (StaticBinding(SMALL, next(one for one in volumes if one.name == volume)),)
    )


@pytest.mark.req("T44", "T9")
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
    assert VolumeWorld(SMALL, volume).rejected("small") == {NOTHING_TO_BIND: {"n1", "n2"}}


def test_a_claim_waits_for_the_volume_reserved_for_it() -> None:
    mine = a_volume(name="mine", node="n1", claim_ref=claim_ref(name="small"))
    world = VolumeWorld(SMALL, mine, N2)

    assert world.rejected("small") == {NOTHING_TO_BIND: {"n2"}}
    assert world.matches("small", node="n2") == {"small": None}


@pytest.mark.req("T44")
def test_two_of_three_claims_match() -> None:
    world = VolumeWorld(SMALL, LARGE, a_claim(name="huge", size="50G"), N1A, N1B)

    assert world.rejected("huge", "small", "large") == {NOTHING_TO_BIND: {"n1", "n2"}}
    assert world.matches("huge", "small", "large", node="n1") == {"small": "n1a", "large": "n1b", "huge": None}
    with pytest.raises(ValueError, match='no volume for claim "default/huge" on node "n1"'):
        world.plan("huge", "small", "large", node="n1")


@pytest.mark.req("T9")
@pytest.mark.parametrize("names", [("small", "large"), ("large", "small")])
def test_two_claims_never_share_a_volume_and_are_planned_smallest_first(names: tuple[str, str]) -> None:
    world = VolumeWorld(SMALL, LARGE, N1A, N1B, N2)

    assert world.rejected(*names) == {NOTHING_TO_BIND: {"n2"}}
    plan = world.plan(*names, node="n1")
    assert plan == BindingPlan("n1", (StaticBinding(SMALL, N1A), StaticBinding(LARGE, N1B)))
    assert plan.wants_hold


@pytest.mark.req("T9")
def test_one_volume_is_not_enough_for_two_claims() -> None:
    assert VolumeWorld(SMALL, LARGE, N1A).rejected("small", "large") == {NOTHING_TO_BIND: {"n1", "n2"}}


ON_SSD: Body = {"matchLabels": {"medium": "ssd"}}


@pytest.mark.req("T10")
def test_an_assignment_is_found_where_the_greedy_choice_fails() -> None:
    world = VolumeWorld(
        SMALL,
        a_claim(name="picky", size="2G", selector=ON_SSD),
        a_volume(name="ssd", size="5G", node="n1", labels={"medium": "ssd"}),
        a_volume(name="hdd", size="10G", node="n1", labels={"medium": "hdd"}),
    )

    assert world.rejected("small", "picky") == {NOTHING_TO_BIND: {"n2"}}
    assert world.matches("small", "picky", node="n1") == {"small": "hdd", "picky": "ssd"}


@pytest.mark.req("T10")
def test_claims_of_different_access_modes_share_volumes_that_offer_both() -> None:
    both = ["ReadWriteOnce", "ReadWriteMany"]
    world = VolumeWorld(
        SMALL,
        a_claim(name="many", size="1G", access_modes=["ReadWriteMany"]),
        a_volume(name="both", size="1G", node="n1", access_modes=both),
        a_volume(name="once", size="2G", node="n1"),
        a_volume(name="alone", size="1G", node="n2", access_modes=both),
    )

    assert world.rejected("small", "many") == {NOTHING_TO_BIND: {"n2"}}
    assert world.matches("small", "many", node="n1") == {"small": "once", "many": "both"}


@pytest.mark.req("T7")
def test_bound_claims_limit_the_nodes_to_those_that_reach_their_volumes() -> None:
    world = VolumeWorld(a_claim(name="bound", volume="bound", bound=True), BOUND)

    assert world.rejected("bound") == {AFFINITY_CONFLICT: {"n2"}}
    assert world.plan("bound", node="n1").empty


@pytest.mark.req("T7")
def test_a_relabelled_node_reaches_other_volumes() -> None:
    world = VolumeWorld(a_claim(name="bound", volume="bound", bound=True), SMALL, BOUND, N1A)

    world.topology.put("n1", {keys.HOSTNAME: "renamed"})
    world.topology.put("n2", {keys.HOSTNAME: "n1"})

    assert world.rejected("bound", "small") == {AFFINITY_CONFLICT: {"n1"}, NOTHING_TO_BIND: {"n1"}}


GONE = a_claim(name="gone", volume="gone", bound=True)
ON_N1 = a_claim(name="bound", volume="bound", bound=True)


@pytest.mark.req("T9")
@pytest.mark.parametrize(
    ("names", "want"),
    [
        pytest.param(["gone"], {VOLUME_MISSING: {"n1", "n2"}}, id="the bound volume does not exist"),
        pytest.param(["gone", "bound"], {VOLUME_MISSING: {"n1", "n2"}}, id="a missing volume ends the search"),
        pytest.param(
            ["bound", "gone"],
            {AFFINITY_CONFLICT: {"n2"}, VOLUME_MISSING: {"n1"}},
            id="a node's first problem is its only one",
        ),
        pytest.param(
            ["bound", "large"],
            {AFFINITY_CONFLICT: {"n2"}, NOTHING_TO_BIND: {"n1", "n2"}},
            id="bound and unbound claims each say their own",
        ),
    ],
)
def test_reasons_and_their_order(names: list[str], want: dict[str, set[str]]) -> None:
    found = VolumeWorld(GONE, ON_N1, LARGE, BOUND).rejected(*names)

    assert found == want
    assert list(found) == list(want)


@pytest.mark.req("T4")
@pytest.mark.parametrize(
    ("claim", "want"),
    [
        pytest.param(
            a_claim(name="c", storage_class="made"),
            {NOTHING_TO_BIND: {"n2"}},
            id="the class allows one node",
        ),
        pytest.param(
            a_claim(name="c", storage_class="made", selected_node="n1"),
            {NOTHING_TO_BIND: {"n2"}},
            id="that node was selected",
        ),
        pytest.param(
            a_claim(name="c", storage_class="made", selected_node="n2"),
            {NOTHING_TO_BIND: {"n1", "n2"}},
            id="a node was selected that the class does not allow",
        ),
        pytest.param(
            a_claim(name="c", storage_class="made", selected_node=""),
            {NOTHING_TO_BIND: {"n1", "n2"}},
            id="selected but empty is no node",
        ),
    ],
)
def test_volumes_can_be_made_where_the_class_allows_it(claim: Claim, want: dict[str, set[str]]) -> None:
    assert VolumeWorld(claim).rejected("c") == want


def test_a_volume_to_be_made_does_not_help_where_another_claim_cannot_be_served() -> None:
    world = VolumeWorld(a_claim(name="c", storage_class="made"), SMALL)

    assert world.rejected("c", "small") == {NOTHING_TO_BIND: {"n1", "n2"}}


def test_a_volume_of_a_provisioning_class_is_used_where_there_is_one() -> None:
    world = VolumeWorld(a_claim(name="c", storage_class="made"), a_volume(name="v", node="n2", storage_class="made"))

    assert world.rejected("c") == {}
    assert world.matches("c", node="n2") == {"c": "v"}
    assert world.matches("c", node="n1") == {"c": None}


def test_a_selected_claim_takes_no_free_volume() -> None:
    world = VolumeWorld(a_claim(name="c", size="1G", selected_node="n1"), N1A)

    assert world.rejected("c") == {NOTHING_TO_BIND: {"n1", "n2"}}
    with pytest.raises(ValueError, match='no volume for claim "default/c"'):
        world.plan("c", node="n1")


def test_what_is_gone_is_forgotten() -> None:
    world = VolumeWorld(SMALL, N1A)

    world.state.observe_volume(N1A, None)
    assert world.state.volume("n1a") is None
    assert world.rejected("small") == {NOTHING_TO_BIND: {"n1", "n2"}}

    world.state.observe_class(a_class(name="local"), None)
    assert world.state.claims_of(a_pod(claims=["small"])) == "pod has unbound immediate PersistentVolumeClaims"

    world.state.observe_claim(SMALL, None)
    assert world.state.claims_of(a_pod(claims=["small"])) == 'persistentvolumeclaim "small" not found'


def test_a_volume_whose_size_cannot_be_read_is_reported_and_not_used() -> None:
    world = VolumeWorld(SMALL)

    problem = world.state.observe_volume(None, a_volume(name="v", size="much", node="n1"))

    assert problem.startswith('spec.capacity: quantity "much"')
    assert world.rejected("small") == {NOTHING_TO_BIND: {"n1", "n2"}}
    assert world.state.observe_volume(None, a_volume(name="v", node="n1")) == ""
    assert world.rejected("small") == {NOTHING_TO_BIND: {"n2"}}


def test_without_nodes_nothing_is_rejected() -> None:
    assert VolumeWorld(SMALL, GONE, nodes={}).rejected("small", "gone") == {}


def test_a_slot_that_changes_hands_takes_no_volumes_along() -> None:
    world = VolumeWorld(SMALL, N1A)
    assert world.rejected("small") == {NOTHING_TO_BIND: {"n2"}}

    world.topology.remove("n1")
    world.topology.put("n9", {keys.HOSTNAME: "n9"})

    assert world.topology.slot("n9") == 0
    assert world.rejected("small") == {NOTHING_TO_BIND: {"n2", "n9"}}


@pytest.mark.req("T1")
def test_a_volume_may_name_its_nodes() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    named = a_volume(name="bound", affinity={"nodeSelectorTerms": [term]}, phase="Bound")
    free = a_volume(name="free", affinity={"nodeSelectorTerms": [term]})
    world = VolumeWorld(ON_N1, SMALL, named, free)

    assert world.rejected("bound") == {AFFINITY_CONFLICT: {"n1"}}
    assert world.rejected("small") == {NOTHING_TO_BIND: {"n1"}}
