"""Which claims a volume is made for, where: existing volumes first, and never in a way that leaves a claim out."""

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_capacity, a_claim, a_class, a_driver, a_volume, claim_ref
from builders.volume_worlds import VolumeWorld
from mooring.api import keys
from mooring.api.views.claim import Claim
from mooring.api.views.volume import Volume
from mooring.volumes.shape import exact_size
from mooring.volumes.state import NOT_ENOUGH_SPACE, NOTHING_TO_BIND

pytestmark = [pytest.mark.req("T9", "T20"), pytest.mark.level("u")]

CLAIM = a_claim(name="c", storage_class="made", size="5Gi")


def volume(name: str, size: str, *, node: str = "n1") -> Volume:
    return a_volume(name=name, size=size, node=node, storage_class="made")


@pytest.mark.req("T4")
@pytest.mark.parametrize(
    ("terms", "want"),
    [
        pytest.param([], {"n1", "n2"}, id="nothing said: everywhere"),
        pytest.param([{keys.ZONE: ["zone-n1"]}], {"n1"}, id="one zone"),
        pytest.param([{keys.ZONE: ["zone-n1", "zone-n2"]}], {"n1", "n2"}, id="values are ORed"),
        pytest.param([{keys.ZONE: ["zone-n1"]}, {keys.ZONE: ["zone-n2"]}], {"n1", "n2"}, id="terms are ORed"),
        pytest.param([{keys.ZONE: ["zone-n1"], keys.HOSTNAME: ["n2"]}], set(), id="expressions are ANDed"),
        pytest.param([{}], set(), id="a term without expressions allows nothing"),
    ],
)
def test_where_a_class_allows_volumes_to_be_made(terms: list[dict[str, list[str]]], want: set[str]) -> None:
    world = VolumeWorld(a_class(name="made", provisioner="csi.example.com", allowed_topologies=terms), CLAIM)

    rejected = {"n1", "n2"} - want
    assert world.rejected("c") == ({NOTHING_TO_BIND: rejected} if rejected else {})


@pytest.mark.parametrize("provisioner", [keys.NO_PROVISIONER, ""])
def test_a_class_without_provisioner_makes_nothing(provisioner: str) -> None:
    world = VolumeWorld(a_class(name="made", provisioner=provisioner), CLAIM)

    assert world.rejected("c") == {NOTHING_TO_BIND: {"n1", "n2"}}


def test_an_existing_volume_is_taken_rather_than_a_new_one_made() -> None:
    plan = VolumeWorld(CLAIM, volume("large", "100Gi")).plan("c", node="n1")

    assert [binding.volume.name for binding in plan.static] == ["large"]
    assert plan.provision == ()


@pytest.mark.req("T10")
def test_as_many_existing_volumes_as_possible_are_taken() -> None:
    """Kubernetes gives the only volume that does for both to the smaller claim; so does this, and makes the other."""
    large = a_claim(name="large", storage_class="made", size="50Gi")
    plan = VolumeWorld(CLAIM, large, volume("huge", "100Gi"), volume("small", "10Gi")).plan("large", "c", node="n1")

    assert [(b.claim.name, b.volume.name) for b in plan.static] == [("c", "small"), ("large", "huge")]
    assert plan.provision == ()


@pytest.mark.req("T10")
def test_the_claim_for_which_there_is_no_room_gets_the_existing_volume() -> None:
    """Taking the volume for the smaller claim first, as Kubernetes does, would leave the larger one without."""
    large = a_claim(name="large", storage_class="made", size="50Gi")
    room = a_capacity(capacity="20Gi", topology={})
    world = VolumeWorld(CLAIM, large, volume("huge", "100Gi"), a_driver(tracks_capacity=True), room)

    assert world.rejected("c", "large") == {NOTHING_TO_BIND: {"n2"}}
    plan = world.plan("c", "large", node="n1")
    assert [(b.claim.name, b.volume.name) for b in plan.static] == [("large", "huge")]
    assert [wish.claim.name for wish in plan.provision] == ["c"]


def test_selected_claims_come_first_then_ascending_sizes() -> None:
    claims = [
        a_claim(name="b", storage_class="made", size="2Gi"),
        a_claim(name="a", storage_class="made", size="3Gi"),
        a_claim(name="s", storage_class="made", size="9Gi", selected_node="n1"),
    ]
    plan = VolumeWorld(*claims).plan("a", "b", "s", node="n1")

    assert [wish.claim.name for wish in plan.provision] == ["s", "b", "a"]


def test_a_claim_waits_for_the_volume_reserved_for_it_even_if_one_could_be_made() -> None:
    mine = a_volume(name="mine", node="n2", storage_class="made", claim_ref=claim_ref(name="c"))
    world = VolumeWorld(CLAIM, mine)

    assert world.rejected("c") == {NOTHING_TO_BIND: {"n1"}}
    assert world.matches("c", node="n2") == {"c": "mine"}


def test_a_claim_does_not_wait_for_a_reserved_volume_without_its_access_modes() -> None:
    """The PV controller never binds such a pair: the pod would wait for ever."""
    modes = ["ReadOnlyMany"]
    mine = a_volume(name="mine", node="n2", storage_class="made", claim_ref=claim_ref(name="c"), access_modes=modes)
    world = VolumeWorld(CLAIM, mine, volume("another", "10Gi"))

    assert world.rejected("c") == {NOTHING_TO_BIND: {"n2"}}
    assert world.matches("c", node="n1") == {"c": "another"}


@pytest.mark.parametrize(
    ("node", "rejected"),
    [
        pytest.param("n1", {"n2"}, id="for the selected node"),
        pytest.param("n2", {"n1", "n2"}, id="for another node"),
    ],
)
def test_a_volume_was_made_but_is_not_bound_yet(node: str, rejected: set[str]) -> None:
    """The room it took is not asked for again."""
    sent = a_claim(name="c", storage_class="made", selected_node="n1")
    made = a_volume(name="new", node=node, storage_class="made", claim_ref=claim_ref(name="c", uid="c-uid"))
    world = VolumeWorld(sent, made, a_driver(tracks_capacity=True))

    assert world.rejected("c") == {NOTHING_TO_BIND: rejected}
    if "n1" not in rejected:
        assert [wish.claim for wish in world.plan("c", node="n1").provision] == [sent]


def test_a_promise_to_make_a_volume_binds_the_claim_to_the_node_until_it_is_taken_back() -> None:
    world = VolumeWorld(a_class(name="made", provisioner="csi.example.com"), CLAIM)
    plan = world.state.assume(world.plan("c", node="n2"))
    assert world.rejected("c") == {NOTHING_TO_BIND: {"n1"}}

    world.state.restore(plan)

    assert world.rejected("c") == {}


def test_two_reasons_for_two_claims_the_one_that_more_would_not_help_is_said() -> None:
    local = a_claim(name="local", size="1Gi")
    world = VolumeWorld(CLAIM, local, a_driver(tracks_capacity=True), nodes={"n1": {keys.HOSTNAME: "n1"}})

    assert world.rejected("c", "local") == {NOTHING_TO_BIND: {"n1"}}
    assert world.rejected("c") == {NOT_ENOUGH_SPACE: {"n1"}}


sizes = st.integers(1, 6)


@given(
    st.lists(sizes, min_size=1, max_size=3),
    st.lists(st.tuples(sizes, st.sampled_from(("n1", "n2", ""))), max_size=4),
    st.dictionaries(st.sampled_from(("n1", "n2")), sizes),
)
def test_a_node_does_exactly_if_some_way_to_serve_every_claim_exists(
    requests: list[int], volumes: list[tuple[int, str]], room: dict[str, int]
) -> None:
    claims = [a_claim(name=f"c{i}", storage_class="made", size=size) for i, size in enumerate(requests)]
    existing = [
        a_volume(name=f"v{i}", size=size, node=node, storage_class="made") for i, (size, node) in enumerate(volumes)
    ]
    world = VolumeWorld(
        a_class(name="made", provisioner="csi.example.com"),
        a_driver(tracks_capacity=True),
        *claims,
        *existing,
        *(
            a_capacity(name=node, capacity=size, topology={"matchLabels": {keys.HOSTNAME: node}})
            for node, size in room.items()
        ),
    )
    names = [claim.name for claim in claims]

    feasible = {node: best_on(node, claims, existing, room.get(node, 0)) for node in ("n1", "n2")}

    rejected = {node for node, most in feasible.items() if most is None}
    assert world.rejected(*names) == ({NOT_ENOUGH_SPACE: rejected} if rejected else {})
    for node, most in feasible.items():
        if most is not None:
            plan = world.plan(*names, node=node)
            assert len(plan.static) == most
            assert len(plan.static) + len(plan.provision) == len(claims)
            assert len({binding.volume.name for binding in plan.static}) == most


def best_on(node: str, claims: Sequence[Claim], volumes: Sequence[Volume], room: int) -> int | None:
    """The most claims that existing volumes serve in any way that leaves nobody out; None where there is no way."""
    reached = [v for v in volumes if v.required_affinity is None or node in str(v.required_affinity)]
    best: int | None = None
    for choice in product([*reached, None], repeat=len(claims)):
        taken = [volume for volume in choice if volume is not None]
        if len({volume.name for volume in taken}) < len(taken):
            continue
        if all(
            exact_size(claim.request) <= (exact_size(room) if volume is None else exact_size(volume.size))
            for claim, volume in zip(claims, choice, strict=True)
        ):
            best = max(best or 0, len(taken))
    return best
