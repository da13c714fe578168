"""Storage as large as its reports: what is taken from which object."""

import msgspec
import pytest

from mooring.api import well_known
from mooring.api.kinds import VOLUME
from mooring.api.views.storage import Volume
from mooring.whatif.drivers import PoolAllocation, SimulatedPools
from support.builders import Body, a_capacity, reachable_from, volume_body

GI = 2**30


def on(node: str) -> Body:
    return {"matchLabels": {well_known.HOSTNAME: node}}


def pools(*reported: tuple[str, str, Body | None, str], shared: bool = True) -> SimulatedPools:
    """(name, class, topology, capacity) each."""
    made = [a_capacity(name=n, storage_class=c, topology=t, capacity=size) for n, c, t, size in reported]
    return SimulatedPools(made, (lambda _: "driver") if shared else (lambda storage_class: storage_class))


AT_N1 = {well_known.HOSTNAME: "n1"}


def test_a_volume_is_taken_from_its_segment_alone() -> None:
    known = pools(("a", "fast", on("n1"), "3Gi"), ("b", "fast", on("n2"), "3Gi"))
    assert known.take("fast", AT_N1, 2 * GI) == PoolAllocation(("default/a",), 2 * GI)
    assert (known["default/a"].free, known["default/b"].free) == (GI, 3 * GI)


def test_what_is_too_much_is_refused_with_figures() -> None:
    known = pools(("a", "fast", on("n1"), "1Gi"))
    assert known.take("fast", AT_N1, 2 * GI) == f"{2 * GI} bytes were requested and {GI} are free"


def test_a_place_that_no_object_speaks_of_has_nothing() -> None:
    known = pools(("a", "fast", on("n1"), "1Gi"))
    assert (
        known.take("fast", {well_known.HOSTNAME: "n2"}, 1) == "no capacity of class fast is reported for this segment"
    )


def test_a_class_without_objects_has_no_end() -> None:
    assert pools().take("fast", AT_N1, 2**60) == PoolAllocation((), 2**60)


@pytest.mark.parametrize(
    ("shared", "want"),
    [
        pytest.param(True, (GI, GI), id="classes that share storage"),
        pytest.param(False, (GI, 3 * GI), id="classes with pools of their own"),
    ],
)
def test_classes_that_share_storage_shrink_together(shared: bool, want: tuple[int, int]) -> None:
    known = pools(("a", "fast", on("n1"), "3Gi"), ("b", "slow", on("n1"), "3Gi"), shared=shared)
    known.take("fast", AT_N1, 2 * GI)
    assert (known["default/a"].free, known["default/b"].free) == want


def test_anywhere_is_where_most_is_left() -> None:
    known = pools(("a", "fast", on("n1"), "3Gi"), ("b", "fast", on("n2"), "5Gi"))
    assert known.take("fast", None, GI) == PoolAllocation(("default/b",), GI)


def test_what_is_given_back_is_there_again() -> None:
    known = pools(("a", "fast", on("n1"), "3Gi"))
    taken = known.take("fast", AT_N1, 2 * GI)
    assert isinstance(taken, PoolAllocation)
    known.give_back(taken)
    assert known["default/a"].free == 3 * GI


MADE = "2026-01-01T00:10:00Z"


def a_disk(*places: str, storage_class: str = "fast") -> Volume:
    """2Gi on each of these nodes."""
    source = {"csi": {"driver": "disks.example.com", "volumeHandle": "v"}}
    affinity = reachable_from(well_known.HOSTNAME, *places)
    body = volume_body(storage_class=storage_class, size="2Gi", source=source, affinity=affinity)
    body["metadata"]["creationTimestamp"] = MADE
    return VOLUME.decode(msgspec.json.encode(body))


def test_a_volume_from_before_gives_back_what_it_has_where_it_is() -> None:
    known = pools(("a", "fast", on("n1"), "3Gi"), ("b", "fast", on("n2"), "3Gi"))
    known.give_back(known.taken_by(a_disk("n1")))
    assert (known["default/a"].free, known["default/b"].free) == (5 * GI, 3 * GI)


def test_a_volume_in_two_places_gives_back_in_both() -> None:
    known = pools(("a", "fast", on("n1"), "3Gi"), ("b", "fast", on("n2"), "3Gi"))
    known.give_back(known.taken_by(a_disk("n1", "n2")))
    assert (known["default/a"].free, known["default/b"].free) == (5 * GI, 5 * GI)


@pytest.mark.parametrize(
    ("polled", "want"),
    [
        pytest.param("2026-01-01T00:10:00.5Z", 3, id="figures that know the volume"),
        pytest.param("2026-01-01T00:09:59.5Z", 1, id="figures from before it was made"),
        pytest.param("", 3, id="a publisher that does not say when it asked"),
    ],
)
def test_a_volume_that_figures_do_not_know_yet_is_taken_from_them(polled: str, want: int) -> None:
    notes = {well_known.CAPACITY_POLLED_AT: polled} if polled else {}
    known = SimulatedPools(
        [a_capacity(name="a", storage_class="fast", topology=on("n1"), capacity="3Gi", annotations=notes)], str
    )
    disk = a_disk("n1")
    known.deduct_unreported(disk, known.taken_by(disk))
    assert known["default/a"].free == want * GI


def test_the_largest_volume_grows_with_the_capacity_unless_the_storage_limits_it() -> None:
    reported = [
        a_capacity(name="a", storage_class="fast", topology=on("n1"), capacity="3Gi", largest="3Gi"),
        a_capacity(name="b", storage_class="fast", topology=on("n2"), capacity="3Gi", largest="1Gi"),
    ]
    known = SimulatedPools(reported, str)
    known.give_back(known.taken_by(a_disk("n1", "n2")))
    assert (known["default/a"].largest, known["default/b"].largest) == (5 * GI, GI)


@pytest.mark.parametrize(
    ("named", "reported_values", "want"),
    [
        pytest.param(True, ("6Gi", "3Gi"), (2, 1), id="half of the other's figure: two copies"),
        pytest.param(True, ("6Gi", "5Gi"), (4, 3), id="no whole part of it: unrelated"),
        pytest.param(False, ("6Gi", "3Gi"), (4, 1), id="classes that do not say that they share"),
    ],
)
def test_classes_that_keep_copies_take_more(
    named: bool, reported_values: tuple[str, str], want: tuple[int, int]
) -> None:
    reported = [
        a_capacity(name=name, storage_class=name, topology=on("n1"), capacity=size)
        for name, size in zip(("slow", "mirrored"), reported_values, strict=True)
    ]
    known = SimulatedPools(reported, lambda _: "slow", {"slow", "mirrored"} if named else ())
    known.take("mirrored", AT_N1, 2 * GI)
    assert (known["default/slow"].free, known["default/mirrored"].free) == (want[0] * GI, want[1] * GI)
