"""Volumes in flight are counted, a pod's volumes together: what drivers report is never promised twice."""

import itertools

import msgspec
import pytest

from mooring.api import well_known
from mooring.api.times import to_micro_time, to_time
from mooring.api.views.storage import Claim, StorageCapacity, Volume
from mooring.volumes.binding import HOLD_NAMESPACE, HOLD_PREFIX, ROLLBACK_PREFIX
from mooring.volumes.holds import objects
from mooring.volumes.state import ConflictReason
from support.builders import Body, a_capacity, a_claim, a_class, a_driver, a_volume, claim_ref, reachable_from
from support.builders.counting import calls_of
from support.builders.drivers import DRIVER
from support.builders.volume_library import VolumeLibrary

pytestmark = [pytest.mark.level("u")]

CLASS = a_class(name="made", provisioner=DRIVER)
SISTER = a_class(name="sister", provisioner=DRIVER)
STRANGER = a_class(name="stranger", provisioner="other.example.com")
TRACKED = (a_driver(tracks_capacity=True), a_driver(name="other.example.com", tracks_capacity=True))


def on(node: str) -> Body:
    return {"matchLabels": {well_known.HOSTNAME: node}}


def segment(
    node: str, capacity: str | int, *, of: str = "made", polled: float | None = None, largest: str | None = ""
) -> StorageCapacity:
    """With `largest` as large as `capacity`, unless it is given: such figures add up."""
    notes = {} if polled is None else {well_known.CAPACITY_POLLED_AT: to_micro_time(polled)}
    name = f"{of}-{node}"
    return a_capacity(
        name=name,
        storage_class=of,
        topology=on(node),
        capacity=capacity,
        largest=capacity if largest == "" else largest,
        annotations=notes,
    )


def wants(name: str, size: str = "4Gi", *, of: str = "made", **changed: object) -> Claim:
    return a_claim(name=name, storage_class=of, size=size, **changed)


def made_for(claim: Claim, *, node: str = "n1", created: float | None = None, size: str = "4Gi") -> Volume:
    notes = {} if created is None else {well_known.VOLUME_CREATED_AT: to_micro_time(created)}
    return a_volume(
        name=f"for-{claim.name}",
        size=size,
        storage_class=claim.storage_class,
        node=node,
        claim_ref=claim_ref(name=claim.name, uid=claim.uid),
        annotations=notes,
        phase="Bound",
    )


def stamped(volume: Volume, seconds: float) -> Volume:
    """As the API server stamps it, for provisioners that say nothing themselves."""
    stamp = msgspec.structs.replace(volume.metadata, creation_timestamp=to_time(seconds))
    return msgspec.structs.replace(volume, metadata=stamp)


def library(*things: object) -> VolumeLibrary:
    return VolumeLibrary(CLASS, SISTER, STRANGER, *TRACKED, *things)  # type: ignore[arg-type]  # rows of tables


def short(state: VolumeLibrary, *claims: str) -> set[str]:
    return state.rejected(*claims).get(ConflictReason.STORAGE_CAPACITY, set())


@pytest.mark.req("C16.together")
@pytest.mark.parametrize(
    ("claims", "segments", "want"),
    [
        pytest.param([wants("a"), wants("b")], [segment("n1", "8Gi")], {"n2"}, id="both fit together"),
        pytest.param([wants("a"), wants("b")], [segment("n1", "7Gi")], {"n1", "n2"}, id="each fits, both do not"),
        pytest.param(
            [wants("a"), wants("b", of="sister")],
            [segment("n1", "7Gi"), segment("n1", "7Gi", of="sister")],
            {"n1", "n2"},
            id="classes of a driver share what there is",
        ),
        pytest.param(
            [wants("a"), wants("b", of="stranger")],
            [segment("n1", "4Gi"), segment("n1", "4Gi", of="stranger")],
            {"n2"},
            id="drivers do not",
        ),
        pytest.param(
            [wants("a"), wants("b")],
            [segment("n1", "7Gi", largest=None)],
            {"n2"},
            id="a figure that may be a mere limit is not added up",
        ),
        pytest.param(
            [wants("a"), wants("b")], [segment("n1", "7Gi", largest="3Gi")], {"n1", "n2"}, id="too large for one volume"
        ),
    ],
)
def test_volumes_of_one_pod_share_capacity(
    claims: list[Claim], segments: list[StorageCapacity], want: set[str]
) -> None:
    assert short(library(*claims, *segments), *(claim.name for claim in claims)) == want


@pytest.mark.req("C16.together")
def test_volumes_of_pools_of_their_own_are_not_added_up() -> None:
    fast, slow = (
        a_class(name=name, provisioner=DRIVER, annotations={well_known.CAPACITY_POOL: name})
        for name in ("fast", "slow")
    )
    segments = [segment("n1", "10Gi", of="fast"), segment("n1", "10Gi", of="slow")]
    state = library(fast, slow, *segments, wants("a", "6Gi", of="fast"), wants("b", "7Gi", of="slow"))
    assert short(state, "a", "b") == {"n2"}
    state = library(fast, slow, *segments, wants("a", "6Gi", of="fast"), wants("b", "7Gi", of="fast"))
    assert short(state, "a", "b") == {"n1", "n2"}


@pytest.mark.req("C16.additive")
@pytest.mark.parametrize(
    ("use", "largest", "want"),
    [
        pytest.param("additive", None, {"n1", "n2"}, id="the class says that figures add up"),
        pytest.param("independent", "7Gi", {"n2"}, id="the class says that they do not"),
        pytest.param("", "7Gi", {"n1", "n2"}, id="the driver shows it"),
        pytest.param("", "100Gi", {"n2"}, id="the driver shows that it does not mind them"),
        pytest.param("", None, {"n2"}, id="unknown"),
    ],
)
def test_additive_capacity_annotation(use: str, largest: str | None, want: set[str]) -> None:
    notes = {well_known.CAPACITY_USE: use} if use else {}
    noted = a_class(name="made", provisioner=DRIVER, annotations=notes)
    state = library(wants("a"), wants("b"), segment("n1", "7Gi", largest=largest), noted)
    assert short(state, "a", "b") == want

    state.state.observe_class(noted, None)
    state.state.observe_class(None, CLASS)
    assert short(state, "a", "b") == ({"n1", "n2"} if largest == "7Gi" else {"n2"}), "a class without the note again"


@pytest.mark.req("C16.together")
def test_existing_volumes_replace_missing_capacity() -> None:
    state = library(wants("a"), wants("b", "3Gi"), segment("n1", "4Gi"), segment("n2", "4Gi"))
    state.add(a_volume(name="there", size="10Gi", storage_class="made", node="n1"))
    assert short(state, "a", "b") == {"n2"}
    plan = state.plan("a", "b", node="n1")
    assert [(one.claim.name, one.volume.name) for one in plan.static] == [("a", "there")]
    assert [one.claim.name for one in plan.provision] == ["b"]


@pytest.mark.req("C16.together")
@pytest.mark.parametrize("others", [[], ["b"]], ids=["alone", "beside one that fits"])
def test_claim_with_reserved_volume_needs_no_capacity(others: list[str]) -> None:
    kept = a_volume(name="kept", size="10Gi", storage_class="made", node="n1", claim_ref=claim_ref(name="a"))
    state = library(wants("a"), wants("b", "3Gi"), segment("n1", "3Gi"), segment("n2", "100Gi"), kept)
    assert state.rejected("a", *others) == {ConflictReason.NO_VOLUME: {"n2"}}


def selected(name: str, *, node: str = "n1", of: str = "made", **changed: object) -> Claim:
    return wants(name, of=of, selected_node=node, **changed)


@pytest.mark.req("C16.in-flight")
@pytest.mark.parametrize(
    ("others", "fits"),
    [
        pytest.param([], True, id="no other claim"),
        pytest.param([selected("other")], False, id="another claim in flight there"),
        pytest.param([selected("other", node="n2")], True, id="in flight elsewhere"),
        pytest.param([selected("other", of="sister")], False, id="of another class of the driver"),
        pytest.param([selected("other", of="stranger")], True, id="of another driver"),
        pytest.param([wants("other")], True, id="that has no node yet"),
        pytest.param([selected("other", node="gone")], True, id="meant for a node that is gone"),
        pytest.param(
            [selected("other"), stamped(made_for(selected("other")), 9.0)],
            False,
            id="made within the second before the driver was asked, or after it",
        ),
        pytest.param(
            [selected("other"), stamped(made_for(selected("other")), 8.0)], True, id="made before that second"
        ),
        pytest.param(
            [selected("other"), made_for(selected("other"), created=5.0)], True, id="made before the driver was asked"
        ),
        pytest.param(
            [selected("other"), made_for(selected("other"), created=15.0)], False, id="made after the driver was asked"
        ),
        pytest.param(
            [selected("other", volume="for-other", bound=True), made_for(selected("other"), created=15.0)],
            False,
            id="bound already, made after the driver was asked",
        ),
        pytest.param(
            [made_for(selected("other"), created=15.0), selected("other", volume="for-other", bound=True)],
            False,
            id="the volume is seen before its claim",
        ),
        pytest.param(
            [selected("other", volume="for-other", bound=True), made_for(selected("other"))],
            True,
            id="bound before the first look, at an unknown time",
        ),
    ],
)
def test_volumes_in_flight_are_counted(others: list[Claim | Volume], fits: bool) -> None:
    state = library(wants("a"), segment("n1", "7Gi", polled=10.0), *others)
    assert (short(state, "a") == {"n2"}) is fits


@pytest.mark.req("C16.in-flight")
def test_what_we_promised_counts_until_it_is_taken_back() -> None:
    state = library(wants("a"), wants("b"), segment("n1", "7Gi", polled=10.0))
    promised = state.state.assume(state.plan("a", node="n1"))
    assert short(state, "b") == {"n1", "n2"}
    assert state.state.classes_with_more_capacity(), "since the start"
    assert not state.state.classes_with_more_capacity()

    state.state.restore(promised)

    assert short(state, "b") == {"n2"}
    assert state.state.classes_with_more_capacity()
    assert not state.state.classes_with_more_capacity()


@pytest.mark.req("C16.in-flight")
def test_a_claim_is_not_charged_against_itself() -> None:
    """The pod is tried again: its claim was sent to the node, which has room for nothing else."""
    assert short(library(selected("a"), segment("n1", "4Gi")), "a") == set()


@pytest.mark.req("C16.end")
def test_a_charge_ends_when_the_driver_was_asked_after_the_volume_was_made() -> None:
    claim = selected("other")
    state = library(wants("a"), claim, segment("n1", "8Gi", polled=10.0))
    state.add(made_for(claim, created=12.0))
    assert short(state, "a") == {"n2"}, "4 of 8 are in flight"
    assert state.state.classes_with_more_capacity()

    # Asked before the volume was made, published after: it has not seen it.
    state.state.observe_capacity(segment("n1", "8Gi", polled=10.0), segment("n1", "6Gi", polled=11.0))
    assert short(state, "a") == {"n1", "n2"}
    assert not state.state.classes_with_more_capacity()

    # The driver counts it in: of 4 left, nothing is in flight any more.
    state.state.observe_capacity(segment("n1", "6Gi", polled=11.0), segment("n1", "4Gi", polled=13.0))
    assert short(state, "a") == {"n2"}
    assert state.state.classes_with_more_capacity()


@pytest.mark.req("C16.end")
def test_of_a_silent_publisher_the_next_change_has_to_do() -> None:
    claim = selected("other")
    state = library(wants("a"), claim, segment("n1", "7Gi"))
    before = segment("n1", "7Gi")
    after = segment("n1", "6Gi")
    state.state.observe_capacity(before, after)
    assert short(state, "a") == {"n1", "n2"}, "the volume is not there yet, whatever changes"

    state.add(made_for(claim))
    assert short(state, "a") == {"n1", "n2"}
    state.state.observe_capacity(after, segment("n1", "4Gi"))
    assert short(state, "a") == {"n2"}


@pytest.mark.req("C16.end")
@pytest.mark.parametrize("how", ["claim deleted", "node deselected", "volume deleted", "object deleted"])
def test_a_charge_ends_with_what_it_was_for(how: str) -> None:
    claim, full = selected("other"), segment("n1", "7Gi", polled=10.0)
    state = library(wants("a"), claim, full)
    assert short(state, "a") == {"n1", "n2"}
    match how:
        case "claim deleted":
            state.state.observe_claim(claim, None)
        case "node deselected":
            state.state.observe_claim(claim, wants("other", version="2"))
        case "volume deleted":
            volume = made_for(claim, created=12.0)
            state.add(volume)
            state.state.observe_claim(claim, None)
            assert short(state, "a") == {"n1", "n2"}, "the volume still takes its room"
            state.state.observe_volume(volume, None)
        case _:
            state.state.observe_capacity(full, None)
            state.state.observe_claim(claim, wants("other", version="2"))
            state.add(full)
    assert short(state, "a") == {"n2"}


def held_for(claim: Claim, *, node: str = "n1", created: float = 12.0, prefix: str = HOLD_PREFIX) -> Volume:
    """As the provisioner makes it for a pod with several volumes: its claimRef has no uid."""
    notes = {well_known.VOLUME_CREATED_AT: to_micro_time(created), objects.NODE: node, objects.CLAIM: claim.key}
    reference = claim_ref(namespace=HOLD_NAMESPACE, name=f"{prefix}{claim.uid}", uid="")
    return a_volume(
        name=f"for-{claim.name}-{node}",
        size="4Gi",
        storage_class=claim.storage_class,
        node=node,
        claim_ref=reference,
        annotations=notes,
    )


def in_flight(state: VolumeLibrary, node: str) -> int:
    """What is charged to the node's object of the class `made`, in Gi."""
    provisioners = state.state.provisioners
    provisioners.charges.refresh()
    found = provisioners.capacity.segment(segment(node, "1Gi").key)
    assert found is not None
    return found.charged // 2**30


@pytest.mark.req("C16.end")
@pytest.mark.parametrize("order", list(itertools.permutations(("claim", "volume", "segment"))))
def test_a_held_volume_and_its_claim_are_one_charge(order: tuple[str, ...]) -> None:
    """The claimRef of a held volume has no uid: its claim once stayed charged although the figure included it."""
    claim = selected("other")
    things = {"claim": claim, "volume": held_for(claim), "segment": segment("n1", "10Gi", polled=10.0)}
    state = library(*(things[name] for name in order))
    assert in_flight(state, "n1") == 4, "made after the driver was asked"

    seen = segment("n1", "6Gi", polled=13.0)
    state.state.observe_capacity(segment("n1", "10Gi", polled=10.0), seen)
    assert in_flight(state, "n1") == 0
    state.add(wants("a", "6Gi"))
    assert short(state, "a") == {"n2"}

    committed = made_for(claim, created=12.0)
    state.state.observe_volume(held_for(claim), msgspec.structs.replace(committed, metadata=held_for(claim).metadata))
    state.state.observe_claim(claim, selected("other", volume=held_for(claim).name, bound=True, version="2"))
    assert in_flight(state, "n1") == 0


@pytest.mark.req("C16.end")
def test_a_volume_that_is_rolled_back_counts_where_it_is_and_its_claim_where_it_goes_next() -> None:
    claim = selected("other")
    held, leaving = held_for(claim), held_for(claim, prefix=ROLLBACK_PREFIX)
    state = library(claim, segment("n1", "10Gi", polled=10.0), segment("n2", "10Gi", polled=10.0), held)
    state.state.observe_volume(held, leaving)
    assert (in_flight(state, "n1"), in_flight(state, "n2")) == (4, 0), "nothing else is made there meanwhile"

    elsewhere = selected("other", node="n2", version="3")
    state.state.observe_claim(claim, elsewhere)
    assert (in_flight(state, "n1"), in_flight(state, "n2")) == (4, 4)

    state.state.observe_volume(leaving, None)
    assert (in_flight(state, "n1"), in_flight(state, "n2")) == (0, 4)
    state.add(held_for(elsewhere, node="n2"))
    assert (in_flight(state, "n1"), in_flight(state, "n2")) == (0, 4)


@pytest.mark.req("C16.end")
def test_claim_is_in_flight_again_after_its_volume_is_deleted() -> None:
    claim = selected("other")
    volume = held_for(claim)
    state = library(claim, segment("n1", "10Gi", polled=20.0), volume)
    assert in_flight(state, "n1") == 0, "asked for after it was made"
    state.state.observe_volume(volume, None)
    assert in_flight(state, "n1") == 4


@pytest.mark.req("C16.end")
@pytest.mark.parametrize("held", [True, False])
def test_a_volume_counts_without_its_claim(held: bool) -> None:
    """The claim was deleted before the scheduler started: the volume says itself where it is."""
    claim = selected("other")
    volume = held_for(claim) if held else made_for(claim, created=12.0)
    state = library(volume, segment("n1", "10Gi", polled=10.0), segment("n2", "10Gi", polled=10.0))
    assert (in_flight(state, "n1"), in_flight(state, "n2")) == (4, 0)


@pytest.mark.req("C16.in-flight")
def test_a_volume_counts_in_its_zone_when_the_node_it_was_made_for_is_gone() -> None:
    def zonal(capacity: str) -> StorageCapacity:
        place = {"matchLabels": {well_known.ZONE: "z"}}
        notes = {well_known.CAPACITY_POLLED_AT: to_micro_time(10.0)}
        return a_capacity(name="made-n1", capacity=capacity, largest=capacity, topology=place, annotations=notes)

    claim = selected("other")
    volume = made_for(claim, node="", created=12.0)
    in_zone = reachable_from(well_known.ZONE, "z")
    reached = a_volume(
        name=volume.name, size="4Gi", storage_class="made", affinity=in_zone, claim_ref=claim_ref(uid=claim.uid),
        annotations=volume.metadata.annotations,
    )  # fmt: skip
    state = library(claim, zonal("10Gi"))
    for name in ("n1", "n2"):
        state.topology.put(name, {well_known.HOSTNAME: name, well_known.ZONE: "z"})
    state.add(reached)
    assert in_flight(state, "n1") == 4
    state.topology.remove("n1")
    assert in_flight(state, "n1") == 4


@pytest.mark.parametrize("order", list(itertools.permutations(("nodes", "capacity", "claims", "volumes"))))
def test_taking_everything_in_is_linear_in_whatever_order_it_comes(order: tuple[str, ...]) -> None:
    """Every capacity object once had all charges computed anew: a scheduler could not take over 1,000 nodes."""

    def taking_in(nodes: int) -> int:
        names = [f"node-{number}" for number in range(nodes)]
        claims = [selected(f"claim-{name}", node=name, volume=f"for-claim-{name}", bound=True) for name in names]
        things = {
            "capacity": [segment(name, "10Gi", of=of, polled=10.0) for name in names for of in ("made", "sister")],
            "claims": claims,
            "volumes": [made_for(claim, node=name, created=12.0) for claim, name in zip(claims, names, strict=True)],
        }
        state = VolumeLibrary(CLASS, SISTER, *TRACKED, nodes={})

        def feed() -> None:
            for each in order:
                for name in names if each == "nodes" else ():
                    state.topology.put(name, {well_known.HOSTNAME: name})
                for thing in things.get(each, ()):
                    state.add(thing)
                    state.state.classes_with_more_capacity()
            assert in_flight(state, names[-1]) == 4

        return calls_of(feed)

    small, large = taking_in(25), taking_in(50)
    assert large < 2.3 * small


@pytest.mark.req("C16.in-flight")
def test_charges_follow_nodes_that_are_relabelled() -> None:
    zonal = a_capacity(name="zonal", capacity="7Gi", largest="7Gi", topology={"matchLabels": {well_known.ZONE: "z"}})
    state = library(wants("a"), selected("other"), zonal)
    state.topology.put("n2", {well_known.HOSTNAME: "n2", well_known.ZONE: "z"})
    assert short(state, "a") == {"n1"}, "n1, where the other goes, is outside"

    state.topology.put("n1", {well_known.HOSTNAME: "n1", well_known.ZONE: "z"})

    assert short(state, "a") == {"n1", "n2"}


@pytest.mark.req("C16.in-flight")
def test_class_observed_late_shares_the_pool() -> None:
    late = a_class(name="late", provisioner=DRIVER)
    segments = [segment("n1", "7Gi"), segment("n1", "7Gi", of="late")]
    state = library(wants("a", of="late"), wants("b"), selected("other"), *segments)
    assert short(state, "b") == {"n1", "n2"}, "4 of 7 are in flight"

    state.add(late)

    assert short(state, "a") == {"n1", "n2"}


@pytest.mark.req("C16.in-flight")
def test_a_class_that_moves_to_a_pool_of_its_own_leaves_its_charges_behind() -> None:
    state = library(wants("a", of="sister"), selected("other"), segment("n1", "7Gi"), segment("n1", "7Gi", of="sister"))
    assert short(state, "a") == {"n1", "n2"}
    assert state.state.classes_with_more_capacity(), "since the start"

    state.state.observe_class(
        SISTER, a_class(name="sister", provisioner=DRIVER, annotations={well_known.CAPACITY_POOL: "b"})
    )

    assert short(state, "a") == {"n2"}
    assert state.state.classes_with_more_capacity() == {"sister"}, "pods waiting for it are tried again"


@pytest.mark.req("C16.in-flight")
def test_what_was_made_counts_again_when_its_class_is_back() -> None:
    claim = selected("other")
    state = library(wants("a"), claim, segment("n1", "7Gi", polled=10.0))
    state.add(made_for(claim, created=12.0))

    state.state.observe_class(CLASS, None)
    state.state.observe_class(None, CLASS)

    assert short(state, "a") == {"n1", "n2"}
