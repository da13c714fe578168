"""Which claims a volume is made for, where: existing volumes first, and never in a way that leaves a claim out."""

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import well_known
from mooring.api.views.storage import Claim, Volume
from mooring.volumes.matching import exact_size
from mooring.volumes.state import ConflictReason
from support.builders import a_capacity, a_claim, a_class, a_driver, a_volume, claim_ref
from support.builders.volume_library import VolumeLibrary

pytestmark = [pytest.mark.level("u")]

CLAIM = a_claim(name="c", storage_class="made", size="5Gi")


def volume(name: str, size: str, *, node: str = "n1") -> Volume:
    return a_volume(name=name, size=size, node=node, storage_class="made")


@pytest.mark.req("T4.scheduling")
@pytest.mark.parametrize(
    ("terms", "want"),
    [
        pytest.param([], {"n1", "n2"}, id="nothing said: everywhere"),
        pytest.param([{well_known.ZONE: ["zone-n1"]}], {"n1"}, id="one zone"),
        pytest.param([{well_known.ZONE: ["zone-n1", "zone-n2"]}], {"n1", "n2"}, id="values are ORed"),
        pytest.param(
            [{well_known.ZONE: ["zone-n1"]}, {well_known.ZONE: ["zone-n2"]}], {"n1", "n2"}, id="terms are ORed"
        ),
        pytest.param([{well_known.ZONE: ["zone-n1"], well_known.HOSTNAME: ["n2"]}], set(), id="expressions are ANDed"),
        pytest.param([{}], set(), id="a term without expressions allows nothing"),
    ],
)
def test_where_a_class_allows_volumes_to_be_made(terms: list[dict[str, list[str]]], want: set[str]) -> None:
    library = VolumeLibrary(a_class(name="made", provisioner="csi.example.com", allowed_topologies=terms), CLAIM)

    rejected = {"n1", "n2"} - want
    assert library.rejected("c") == ({ConflictReason.NO_VOLUME: rejected} if rejected else {})


@pytest.mark.req("T20.nowhere")
@pytest.mark.parametrize("provisioner", [well_known.NO_PROVISIONER, ""])
def test_a_class_without_provisioner_makes_nothing(provisioner: str) -> None:
    library = VolumeLibrary(a_class(name="made", provisioner=provisioner), CLAIM)

    assert library.rejected("c") == {ConflictReason.NO_VOLUME: {"n1", "n2"}}


@pytest.mark.req("T9.provisioning-last", "T20.existing-first")
def test_an_existing_volume_is_taken_rather_than_a_new_one_made() -> None:
    plan = VolumeLibrary(CLAIM, volume("large", "100Gi")).plan("c", node="n1")

    assert [binding.volume.name for binding in plan.static] == ["large"]
    assert plan.provision == ()


@pytest.mark.req("T10.most-static")
def test_as_many_existing_volumes_as_possible_are_taken() -> None:
    """Kubernetes gives the only volume that does for both to the smaller claim; so does this, and makes the other."""
    large = a_claim(name="large", storage_class="made", size="50Gi")
    plan = VolumeLibrary(CLAIM, large, volume("huge", "100Gi"), volume("small", "10Gi")).plan("large", "c", node="n1")

    assert [(b.claim.name, b.volume.name) for b in plan.static] == [("c", "small"), ("large", "huge")]
    assert plan.provision == ()


@pytest.mark.req("T10.feasible")
def test_claim_without_capacity_gets_the_existing_volume() -> None:
    """Taking the volume for the smaller claim first, as Kubernetes does, would leave the larger one without."""
    large = a_claim(name="large", storage_class="made", size="50Gi")
    segment = a_capacity(capacity="20Gi", topology={})
    library = VolumeLibrary(CLAIM, large, volume("huge", "100Gi"), a_driver(tracks_capacity=True), segment)

    assert library.rejected("c", "large") == {ConflictReason.NO_VOLUME: {"n2"}}
    plan = library.plan("c", "large", node="n1")
    assert [(b.claim.name, b.volume.name) for b in plan.static] == [("large", "huge")]
    assert [request.claim.name for request in plan.provision] == ["c"]


@pytest.mark.req("T9.order")
def test_selected_claims_come_first_then_ascending_sizes() -> None:
    claims = [
        a_claim(name="b", storage_class="made", size="2Gi"),
        a_claim(name="a", storage_class="made", size="3Gi"),
        a_claim(name="s", storage_class="made", size="9Gi", selected_node="n1"),
    ]
    plan = VolumeLibrary(*claims).plan("a", "b", "s", node="n1")

    assert [request.claim.name for request in plan.provision] == ["s", "b", "a"]


@pytest.mark.req("T9.prebound")
def test_a_claim_waits_for_the_volume_reserved_for_it_even_if_one_could_be_made() -> None:
    mine = a_volume(name="mine", node="n2", storage_class="made", claim_ref=claim_ref(name="c"))
    library = VolumeLibrary(CLAIM, mine)

    assert library.rejected("c") == {ConflictReason.NO_VOLUME: {"n1"}}
    assert library.matches("c", node="n2") == {"c": "mine"}


@pytest.mark.req("T9.prebound")
def test_a_claim_does_not_wait_for_a_reserved_volume_without_its_access_modes() -> None:
    """The PV controller never binds such a pair: the pod would wait for ever."""
    modes = ["ReadOnlyMany"]
    mine = a_volume(name="mine", node="n2", storage_class="made", claim_ref=claim_ref(name="c"), access_modes=modes)
    library = VolumeLibrary(CLAIM, mine, volume("another", "10Gi"))

    assert library.rejected("c") == {ConflictReason.NO_VOLUME: {"n2"}}
    assert library.matches("c", node="n1") == {"c": "another"}


@pytest.mark.req("T20.both")
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
    library = VolumeLibrary(sent, made, a_driver(tracks_capacity=True))

    assert library.rejected("c") == {ConflictReason.NO_VOLUME: rejected}
    if "n1" not in rejected:
        assert [request.claim for request in library.plan("c", node="n1").provision] == [sent]


@pytest.mark.req("T13.visible")
def test_a_promise_to_make_a_volume_binds_the_claim_to_the_node_until_it_is_taken_back() -> None:
    library = VolumeLibrary(a_class(name="made", provisioner="csi.example.com"), CLAIM)
    plan = library.state.assume(library.plan("c", node="n2"))
    assert library.rejected("c") == {ConflictReason.NO_VOLUME: {"n1"}}

    library.state.restore(plan)

    assert library.rejected("c") == {}


@pytest.mark.req("T9.reasons")
def test_reason_that_capacity_would_not_help_wins() -> None:
    local = a_claim(name="local", size="1Gi")
    library = VolumeLibrary(CLAIM, local, a_driver(tracks_capacity=True), nodes={"n1": {well_known.HOSTNAME: "n1"}})

    assert library.rejected("c", "local") == {ConflictReason.NO_VOLUME: {"n1"}}
    assert library.rejected("c") == {ConflictReason.STORAGE_CAPACITY: {"n1"}}


sizes = st.integers(1, 6)


@pytest.mark.req("T9.oracle")
@given(
    st.lists(sizes, min_size=1, max_size=3),
    st.lists(st.tuples(sizes, st.sampled_from(("n1", "n2", ""))), max_size=4),
    st.dictionaries(st.sampled_from(("n1", "n2")), sizes),
)
def test_a_node_does_exactly_if_some_way_to_serve_every_claim_exists(
    requests: list[int], volumes: list[tuple[int, str]], segment: dict[str, int]
) -> None:
    claims = [a_claim(name=f"c{i}", storage_class="made", size=size) for i, size in enumerate(requests)]
    existing = [
        a_volume(name=f"v{i}", size=size, node=node, storage_class="made") for i, (size, node) in enumerate(volumes)
    ]
    library = VolumeLibrary(
        a_class(name="made", provisioner="csi.example.com"),
        a_driver(tracks_capacity=True),
        *claims,
        *existing,
        *(
            a_capacity(name=node, capacity=size, topology={"matchLabels": {well_known.HOSTNAME: node}})
            for node, size in segment.items()
        ),
    )
    names = [claim.name for claim in claims]

    feasible = {node: best_on(node, claims, existing, segment.get(node, 0)) for node in ("n1", "n2")}

    rejected = {node for node, most in feasible.items() if most is None}
    assert library.rejected(*names) == ({ConflictReason.STORAGE_CAPACITY: rejected} if rejected else {})
    for node, most in feasible.items():
        if most is not None:
            plan = library.plan(*names, node=node)
            assert len(plan.static) == most
            assert len(plan.static) + len(plan.provision) == len(claims)
            assert len({binding.volume.name for binding in plan.static}) == most


def best_on(node: str, claims: Sequence[Claim], volumes: Sequence[Volume], segment: int) -> int | None:
    """The most claims that existing volumes serve when every claim is served; None where that is impossible."""
    reached = [v for v in volumes if v.required_affinity is None or node in str(v.required_affinity)]
    best: int | None = None
    for choice in product([*reached, None], repeat=len(claims)):
        taken = [volume for volume in choice if volume is not None]
        if len({volume.name for volume in taken}) < len(taken):
            continue
        if all(
            exact_size(claim.request) <= (exact_size(segment) if volume is None else exact_size(volume.size))
            for claim, volume in zip(claims, choice, strict=True)
        ):
            best = max(best or 0, len(taken))
    return best
