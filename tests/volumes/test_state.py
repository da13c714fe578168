"""The library as a scheduler uses it: which nodes, which volumes, which promises."""

import pytest

from builders import Body, a_claim, a_class, a_pod, a_volume, claim_ref, reachable_from
from mooring.api import keys
from mooring.api.views.claim import Claim
from mooring.api.views.volume import Volume
from mooring.volumes.assume import OutOfSync
from mooring.volumes.plan import BindingPlan, Provisioning, StaticBinding
from mooring.volumes.state import (
    AFFINITY_CONFLICT,
    NOT_PROVISIONED,
    NOTHING_TO_BIND,
    VOLUME_MISSING,
    PodClaims,
    VolumeState,
)
from mooring.volumes.topology import TopologyIndex

pytestmark = pytest.mark.level("u")

#: Two nodes in two zones.
NODES = {name: {keys.HOSTNAME: name, keys.ZONE: f"zone-{name}"} for name in ("n1", "n2")}

SMALL = a_claim(name="small", size="1G")
LARGE = a_claim(name="large", size="5G")

N1A = a_volume(name="n1a", size="5G", node="n1")
N1B = a_volume(name="n1b", size="10G", node="n1")
N2 = a_volume(name="n2", size="1G", node="n2")
BOUND = a_volume(name="bound", size="1G", node="n1", phase="Bound", claim_ref=claim_ref(name="bound"))


class World:
    """A `VolumeState` with two nodes and the classes of these tests, asked by node names."""

    def __init__(self, *things: Volume | Claim, nodes: dict[str, dict[str, str]] = NODES) -> None:
        self.topology = TopologyIndex()
        self.state = VolumeState(self.topology)
        for name, labels in nodes.items():
            self.topology.put(name, labels)
        for storage_class in (
            a_class(name="local"),
            a_class(name="now", binding_mode="Immediate"),
            a_class(name="made", provisioner="csi.example.com", allowed_topologies=[{keys.HOSTNAME: ["n1"]}]),
        ):
            self.state.observe_class(None, storage_class)
        for thing in things:
            if isinstance(thing, Volume):
                self.state.observe_volume(None, thing)
            else:
                self.state.observe_claim(None, thing)

    def claims(self, *names: str) -> PodClaims:
        found = self.state.claims_of(a_pod(claims=names))
        assert isinstance(found, PodClaims), found
        return found

    def rejected(self, *names: str) -> dict[str, set[str]]:
        """Reasons, in their order, with the nodes they reject."""
        rejections = self.state.rejections(self.claims(*names))
        return {reason: set(self.topology.names(nodes)) for nodes, reason in rejections}

    def matches(self, *names: str, node: str) -> dict[str, str | None]:
        found = self.state.matches(self.claims(*names), node)
        return {claim.name: None if volume is None else volume.name for claim, volume in found}

    def plan(self, *names: str, node: str) -> BindingPlan:
        return self.state.plan(self.claims(*names), node)


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
    world = World(SMALL, *volumes)

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
    assert World(SMALL, volume).rejected("small") == {NOTHING_TO_BIND: {"n1", "n2"}}


def test_a_claim_waits_for_the_volume_reserved_for_it() -> None:
    mine = a_volume(name="mine", node="n1", claim_ref=claim_ref(name="small"))
    world = World(SMALL, mine, N2)

    assert world.rejected("small") == {NOTHING_TO_BIND: {"n2"}}
    assert world.matches("small", node="n2") == {"small": None}


@pytest.mark.req("T44")
def test_two_of_three_claims_match() -> None:
    world = World(SMALL, LARGE, a_claim(name="huge", size="50G"), N1A, N1B)

    assert world.rejected("huge", "small", "large") == {NOTHING_TO_BIND: {"n1", "n2"}}
    assert world.matches("huge", "small", "large", node="n1") == {"small": "n1a", "large": "n1b", "huge": None}
    with pytest.raises(ValueError, match='no volume for claim "default/huge" on node "n1"'):
        world.plan("huge", "small", "large", node="n1")


@pytest.mark.req("T9")
@pytest.mark.parametrize("names", [("small", "large"), ("large", "small")])
def test_two_claims_never_share_a_volume_and_are_planned_smallest_first(names: tuple[str, str]) -> None:
    world = World(SMALL, LARGE, N1A, N1B, N2)

    assert world.rejected(*names) == {NOTHING_TO_BIND: {"n2"}}
    plan = world.plan(*names, node="n1")
    assert plan == BindingPlan("n1", (StaticBinding(SMALL, N1A), StaticBinding(LARGE, N1B)))
    assert plan.wants_hold


@pytest.mark.req("T9")
def test_one_volume_is_not_enough_for_two_claims() -> None:
    assert World(SMALL, LARGE, N1A).rejected("small", "large") == {NOTHING_TO_BIND: {"n1", "n2"}}


ON_SSD: Body = {"matchLabels": {"medium": "ssd"}}


@pytest.mark.req("T10")
def test_an_assignment_is_found_where_the_greedy_choice_fails() -> None:
    world = World(
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
    world = World(
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
    world = World(a_claim(name="bound", volume="bound", bound=True), BOUND)

    assert world.rejected("bound") == {AFFINITY_CONFLICT: {"n2"}}
    assert world.plan("bound", node="n1").empty


@pytest.mark.req("T7")
def test_a_relabelled_node_reaches_other_volumes() -> None:
    world = World(a_claim(name="bound", volume="bound", bound=True), SMALL, BOUND, N1A)

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
    found = World(GONE, ON_N1, LARGE, BOUND).rejected(*names)

    assert found == want
    assert list(found) == list(want)


@pytest.mark.req("T4")
@pytest.mark.parametrize(
    ("claim", "want"),
    [
        pytest.param(
            a_claim(name="c", storage_class="made"),
            {NOTHING_TO_BIND: {"n2"}, NOT_PROVISIONED: {"n1"}},
            id="the class allows one node",
        ),
        pytest.param(
            a_claim(name="c", storage_class="made", selected_node="n1"),
            {NOTHING_TO_BIND: {"n2"}, NOT_PROVISIONED: {"n1"}},
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
def test_what_would_have_to_be_provisioned_is_refused_and_said_so(claim: Claim, want: dict[str, set[str]]) -> None:
    assert World(claim).rejected("c") == want


def test_a_volume_of_a_provisioning_class_is_used_where_there_is_one() -> None:
    world = World(a_claim(name="c", storage_class="made"), a_volume(name="v", node="n2", storage_class="made"))

    assert world.rejected("c") == {NOT_PROVISIONED: {"n1"}}
    assert world.matches("c", node="n2") == {"c": "v"}


def test_a_selected_claim_takes_no_free_volume() -> None:
    world = World(a_claim(name="c", size="1G", selected_node="n1"), N1A)

    assert world.rejected("c") == {NOTHING_TO_BIND: {"n1", "n2"}}


@pytest.mark.req("T13")
class TestPromises:
    def test_a_promised_volume_reads_as_it_will_once_written(self) -> None:
        world = World(SMALL, N1A)

        promised = world.state.assume(world.plan("small", node="n1"))

        volume = promised.static[0].volume
        assert volume is world.state.volume("n1a")
        assert volume.spec.claim_ref == SMALL.reference
        assert keys.BOUND_BY_CONTROLLER in volume.metadata.annotations
        assert volume.metadata.resource_version == N1A.metadata.resource_version

    def test_later_decisions_do_not_choose_it(self) -> None:
        world = World(SMALL, LARGE, N1A)

        promised = world.state.assume(world.plan("small", node="n1"))
        assert world.rejected("large") == {NOTHING_TO_BIND: {"n1", "n2"}}
        assert world.rejected("small") == {NOTHING_TO_BIND: {"n2"}}

        world.state.restore(promised)
        world.state.restore(promised)
        assert world.rejected("large") == {NOTHING_TO_BIND: {"n2"}}
        assert world.state.volume("n1a") is N1A

    def test_a_volume_the_user_reserved_gets_its_uid_but_no_annotation(self) -> None:
        world = World(SMALL, a_volume(name="mine", node="n1", claim_ref=claim_ref(name="small")))

        promised = world.state.assume(world.plan("small", node="n1"))

        volume = promised.static[0].volume
        assert volume.spec.claim_ref == SMALL.reference
        assert volume.metadata.annotations == {}

    def test_what_the_api_says_ends_the_promise(self) -> None:
        world = World(SMALL, LARGE, N1A)
        world.state.assume(world.plan("small", node="n1"))

        world.state.observe_volume(N1A, a_volume(name="n1a", size="5G", node="n1", version="2"))

        assert world.rejected("large") == {NOTHING_TO_BIND: {"n2"}}

    def test_a_plan_that_was_overtaken_promises_nothing(self) -> None:
        world = World(SMALL, LARGE, N1A, N1B)
        plan = world.plan("small", "large", node="n1")
        world.state.observe_volume(N1B, a_volume(name="n1b", size="10G", node="n1", version="2"))

        with pytest.raises(OutOfSync, match=r'"n1b" is out of sync \(stored: 2, assume: 1\)'):
            world.state.assume(plan)

        assert world.state.volume("n1a") is N1A
        assert world.rejected("small", "large") == {NOTHING_TO_BIND: {"n2"}}

    def test_of_two_plans_for_one_volume_the_second_fails(self) -> None:
        world = World(SMALL, LARGE, N1A)
        first, second = world.plan("small", node="n1"), world.plan("large", node="n1")
        world.state.assume(first)

        with pytest.raises(OutOfSync, match="already assumed otherwise"):
            world.state.assume(second)

        assert world.rejected("small") == {NOTHING_TO_BIND: {"n2"}}

    def test_a_second_pod_with_the_claim_does_not_take_the_first_ones_promise_back(self) -> None:
        world = World(SMALL, LARGE, N1A)
        world.state.assume(world.plan("small", node="n1"))

        second = world.state.assume(world.plan("small", node="n1"))
        world.state.restore(second)

        assert world.rejected("large") == {NOTHING_TO_BIND: {"n1", "n2"}}

    def test_claims_to_be_provisioned_carry_the_node_until_restored(self) -> None:
        world = World(SMALL)
        plan = BindingPlan("n1", provision=(Provisioning(SMALL),))

        promised = world.state.assume(plan)
        assert world.claims("small").selected[0].claim.selected_node == "n1"
        world.state.restore(promised)

        assert world.state.claim("default/small") is SMALL

    def test_a_claim_that_changed_takes_all_promises_of_the_plan_back(self) -> None:
        world = World(SMALL, LARGE, N1A)
        plan = BindingPlan("n1", (StaticBinding(SMALL, N1A),), (Provisioning(LARGE),))
        world.state.observe_claim(LARGE, a_claim(name="large", size="5G", version="2"))

        with pytest.raises(OutOfSync, match='"default/large"'):
            world.state.assume(plan)

        assert world.state.volume("n1a") is N1A


def test_what_is_gone_is_forgotten() -> None:
    world = World(SMALL, N1A)

    world.state.observe_volume(N1A, None)
    assert world.state.volume("n1a") is None
    assert world.rejected("small") == {NOTHING_TO_BIND: {"n1", "n2"}}

    world.state.observe_class(a_class(name="local"), None)
    assert world.state.claims_of(a_pod(claims=["small"])) == "pod has unbound immediate PersistentVolumeClaims"

    world.state.observe_claim(SMALL, None)
    assert world.state.claims_of(a_pod(claims=["small"])) == 'persistentvolumeclaim "small" not found'


def test_a_volume_whose_size_cannot_be_read_is_reported_and_not_used() -> None:
    world = World(SMALL)

    problem = world.state.observe_volume(None, a_volume(name="v", size="much", node="n1"))

    assert problem.startswith('spec.capacity: quantity "much"')
    assert world.rejected("small") == {NOTHING_TO_BIND: {"n1", "n2"}}
    assert world.state.observe_volume(None, a_volume(name="v", node="n1")) == ""
    assert world.rejected("small") == {NOTHING_TO_BIND: {"n2"}}


def test_without_nodes_nothing_is_rejected() -> None:
    assert World(SMALL, GONE, nodes={}).rejected("small", "gone") == {}


def test_a_slot_that_changes_hands_takes_no_volumes_along() -> None:
    world = World(SMALL, N1A)
    assert world.rejected("small") == {NOTHING_TO_BIND: {"n2"}}

    world.topology.remove("n1")
    world.topology.put("n9", {keys.HOSTNAME: "n9"})

    assert world.topology.slot("n9") == 0
    assert world.rejected("small") == {NOTHING_TO_BIND: {"n2", "n9"}}
