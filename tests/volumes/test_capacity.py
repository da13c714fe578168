"""Where drivers report enough free storage, against a walk over all objects and nodes."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import quantity, selectors, well_known
from mooring.api.views.storage import StorageCapacity
from mooring.volumes import columns
from mooring.volumes.capacity import CapacityView, limit_of
from mooring.volumes.state import ConflictReason
from mooring.volumes.topology import TopologyIndex
from support.builders import Body, a_capacity, a_claim, a_class, a_driver, a_volume, claim_ref
from support.builders.volume_library import VolumeLibrary

pytestmark = pytest.mark.level("u")

CLAIM = a_claim(name="c", storage_class="made", size="1Gi")
CLASS = a_class(name="made", provisioner="csi.example.com")
EVERYWHERE: Body = {}


def on(node: str) -> Body:
    return {"matchLabels": {well_known.HOSTNAME: node}}


@pytest.mark.req("C3.enough", "C3.no-object", "C2.off", "C2.on")
@pytest.mark.parametrize("tracked", [pytest.param(True, id="tracked"), pytest.param(False, id="not tracked")])
@pytest.mark.parametrize(
    ("reported", "fits"),
    [
        pytest.param([a_capacity(capacity="1Gi", topology=EVERYWHERE)], True, id="network attached"),
        pytest.param([a_capacity(capacity="1Gi", topology=on("n1"))], True, id="local storage"),
        pytest.param(
            [
                a_capacity(name="a", capacity="1Gi", topology=EVERYWHERE, storage_class="other"),
                a_capacity(name="b", capacity="1Gi", topology=on("n2")),
                a_capacity(name="c", capacity="1Gi", topology=on("n1")),
            ],
            True,
            id="one of several",
        ),
        pytest.param([], False, id="nothing reported"),
        pytest.param([a_capacity(capacity="1Gi", topology=on("n2"))], False, id="wrong node"),
        pytest.param([a_capacity(capacity="1Gi", topology=EVERYWHERE, storage_class="x")], False, id="wrong class"),
        pytest.param([a_capacity(capacity="1Mi", topology=EVERYWHERE)], False, id="too little"),
        pytest.param([a_capacity(capacity="1Gi", largest="1Mi", topology=EVERYWHERE)], False, id="volumes too small"),
        pytest.param([a_capacity(capacity="0", topology=EVERYWHERE)], False, id="nothing free"),
        pytest.param([a_capacity(largest="0", topology=EVERYWHERE)], False, id="no volume possible"),
        pytest.param([a_capacity(topology=EVERYWHERE)], False, id="no figures"),
        pytest.param([a_capacity(capacity="1Mi", largest="1Gi", topology=EVERYWHERE)], True, id="the limit decides"),
        pytest.param([a_capacity(largest="1Gi", topology=EVERYWHERE)], True, id="a limit alone"),
        pytest.param([a_capacity(capacity="1Gi")], False, id="no topology is no node"),
        pytest.param(
            [a_capacity(capacity="1Gi", topology={"matchExpressions": [{"key": "x", "operator": "Near"}]})],
            False,
            id="invalid topology",
        ),
        pytest.param([a_capacity(capacity="much", topology=EVERYWHERE)], False, id="invalid quantity"),
        pytest.param([a_capacity(capacity="1073741823500m", topology=EVERYWHERE)], True, id="rounded up to bytes"),
    ],
)
def test_capacity_for_one_claim(reported: list[StorageCapacity], fits: bool, tracked: bool) -> None:
    library = VolumeLibrary(CLASS, CLAIM, a_driver(tracks_capacity=tracked), *reported)

    rejected = "n1" in library.rejected("c").get(ConflictReason.STORAGE_CAPACITY, set())
    assert rejected is (tracked and not fits)


def test_a_claim_that_asks_for_no_size_is_not_checked() -> None:
    library = VolumeLibrary(CLASS, a_claim(name="c", storage_class="made", size=None), a_driver(tracks_capacity=True))

    assert library.rejected("c") == {}


def test_claim_of_size_zero_needs_reported_capacity() -> None:
    nothing = a_claim(name="c", storage_class="made", size="0")
    library = VolumeLibrary(CLASS, nothing, a_driver(tracks_capacity=True))
    assert library.rejected("c") == {ConflictReason.STORAGE_CAPACITY: {"n1", "n2"}}

    library.add(a_capacity(capacity="0", topology=on("n1")))

    assert library.rejected("c") == {ConflictReason.STORAGE_CAPACITY: {"n2"}}


@pytest.mark.req("C2.at-run-time")
def test_a_driver_may_stop_reporting_and_begin_again() -> None:
    looked_at, not_looked_at = a_driver(tracks_capacity=True), a_driver(tracks_capacity=False)
    library = VolumeLibrary(CLASS, CLAIM, looked_at)
    assert library.rejected("c") == {ConflictReason.STORAGE_CAPACITY: {"n1", "n2"}}
    library.state.observe_driver(looked_at, not_looked_at)
    assert library.rejected("c") == {}
    library.state.observe_driver(not_looked_at, looked_at)
    assert library.rejected("c") == {ConflictReason.STORAGE_CAPACITY: {"n1", "n2"}}

    library.state.observe_driver(looked_at, None)

    assert library.rejected("c") == {}


@pytest.mark.req("C3.bound")
def test_a_claim_that_has_its_volume_is_not_checked() -> None:
    bound = a_claim(name="c", storage_class="made", volume="v", bound=True)
    volume = a_volume(name="v", storage_class="made", claim_ref=claim_ref(name="c", uid="c-uid"), phase="Bound")
    library = VolumeLibrary(CLASS, bound, volume, a_driver(tracks_capacity=True))

    assert library.rejected("c") == {}


#: Where a segment is, by label selector, and the nodes in it.
SEGMENTS = {
    "node-local": (on("n1"), {"n1"}),
    "network-attached": ({"matchLabels": {well_known.ZONE: "zone-n2"}}, {"n2"}),
    "cluster-wide": (EVERYWHERE, {"n1", "n2"}),
    "nowhere": ({"matchLabels": {well_known.ZONE: "unheard-of"}}, set()),
    "without topology": (None, set()),
}


@pytest.mark.req("C4.table")
@pytest.mark.parametrize("mode", ["Filesystem", "Block"])
@pytest.mark.parametrize(("asked", "fits"), [("1Mi", True), ("5Gi", True), ("5368709121", False), ("1Ti", False)])
@pytest.mark.parametrize("segment", SEGMENTS)
@pytest.mark.parametrize("tracked", [True, False])
def test_sizes_types_and_segments(mode: str, asked: str, fits: bool, segment: str, tracked: bool) -> None:
    """None, one and several suitable nodes, with a driver that has its storage looked at and with one that has not."""
    selector, inside = SEGMENTS[segment]
    claim = a_claim(name="c", storage_class="made", size=asked, mode=mode)
    library = VolumeLibrary(
        CLASS, claim, a_driver(tracks_capacity=tracked), a_capacity(capacity="5Gi", topology=selector)
    )

    usable = inside if fits else set()
    short = {"n1", "n2"} - usable if tracked else set()
    assert library.rejected("c") == ({ConflictReason.STORAGE_CAPACITY: short} if short else {})


def test_what_cannot_be_understood_is_reported() -> None:
    library = VolumeLibrary()

    assert library.state.observe_capacity(None, a_capacity(capacity="much", topology={})).startswith('quantity "much"')


@pytest.mark.req("C16.additive")
def test_where_figures_may_be_limits_claims_are_judged_alone() -> None:
    """A driver that reports one figure may mean what one volume can have; as in Kubernetes, nothing is added up."""
    both = [a_claim(name=name, storage_class="made", size="1Gi") for name in "ab"]
    library = VolumeLibrary(
        CLASS, *both, a_driver(tracks_capacity=True), a_capacity(capacity="1Gi", topology=EVERYWHERE)
    )

    assert library.rejected("a", "b") == {}


@pytest.mark.parametrize(
    ("sizes", "capacity", "largest", "short"),
    [
        pytest.param(("5Gi", "1Gi"), "5Gi", "50Gi", False, id="a driver that overcommits: figures are no sum"),
        pytest.param(("5Gi", "1Gi"), "5Gi", "5Gi", True, id="as much at once as there is: figures add up"),
        pytest.param(("5Gi", "1Gi"), "6Gi", "5Gi", False, id="enough for both"),
        pytest.param(("50Gi",), "5Gi", "50Gi", False, id="one volume: the limit alone decides"),
        pytest.param(("51Gi",), "5Gi", "50Gi", True, id="one volume above the limit"),
    ],
)
def test_figures_add_up_unless_one_volume_may_have_more_than_there_is(
    sizes: tuple[str, ...], capacity: str, largest: str, short: bool
) -> None:
    claims = [a_claim(name=f"c{number}", storage_class="made", size=size) for number, size in enumerate(sizes)]
    segment = a_capacity(capacity=capacity, largest=largest, topology=EVERYWHERE)
    library = VolumeLibrary(CLASS, *claims, a_driver(tracks_capacity=True), segment)

    rejected = library.rejected(*(claim.name for claim in claims))

    assert rejected == ({ConflictReason.STORAGE_CAPACITY: {"n1", "n2"}} if short else {})


@pytest.fixture(scope="module", autouse=True)
def few_are_four() -> Iterator[None]:
    """So that seven nodes are many: what they reach changes between few and many."""
    with patch.object(columns, "MAX_ROW_NODES", 4):
        yield


NODES = tuple(f"n{number}" for number in range(7))
labels = st.fixed_dictionaries({}, optional={"zone": st.sampled_from("ab")})
topologies = st.one_of(
    st.none(),
    st.just(EVERYWHERE),
    st.sampled_from(NODES).map(lambda name: {"matchLabels": {"name": name}}),
    st.sampled_from("ab").map(lambda zone: {"matchLabels": {"zone": zone}}),
    st.just({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}),
)
reports = st.builds(
    lambda name, storage_class, topology, capacity, largest: a_capacity(
        name=name, storage_class=storage_class, topology=topology, capacity=capacity, largest=largest
    ),
    st.sampled_from("xyz"),
    st.sampled_from(("made", "other")),
    topologies,
    st.none() | st.integers(0, 4),
    st.none() | st.integers(0, 4),
)
steps = st.one_of(reports, st.sampled_from("xyz"), st.tuples(st.sampled_from(NODES), st.none() | labels))


@given(st.lists(steps, max_size=25), st.integers(0, 4))
def test_after_any_history_the_answer_is_that_of_a_walk(history: list[object], size: int) -> None:
    topology = TopologyIndex()
    view = CapacityView(topology)
    known: dict[str, StorageCapacity] = {}
    nodes: dict[str, dict[str, str]] = {}
    for step in history:
        match step:
            case StorageCapacity():
                known[step.key] = step
                view.observe(step.key, step)
            case str():
                known.pop(f"default/{step}", None)
                view.observe(f"default/{step}", None)
            case (str() as name, None):
                nodes.pop(name, None)
                topology.remove(name)
            case (str() as name, dict() as also):
                nodes[name] = {"name": name} | also
                topology.put(name, nodes[name])
            case _:
                raise TypeError(step)

    want = {name for name, own in nodes.items() if any(offers(one, own, size) for one in known.values())}
    assert set(topology.names(view.nodes_with_capacity("made", size))) == want
    free = view.free("made", topology.width)
    for name, own in nodes.items():
        reaching = [one for one in known.values() if offers(one, own, 0)]
        most = max((quantity.to_bytes(limit_of(o) if o.capacity is None else o.capacity) for o in reaching), default=0)
        assert free[topology.slot(name)] == most


def offers(reported: StorageCapacity, labels: dict[str, str], size: int) -> bool:
    limit = limit_of(reported)
    view = reported.node_topology
    if reported.storage_class_name != "made" or limit is None or view is None:
        return False
    return limit >= size and selectors.label_selector_from_view(view).matches(labels)
