"""Storage as large as its reports: what is taken from which object."""

import pytest

from builders import Body, a_capacity
from mooring.api import keys
from mooring.sim.whatif.pools import Pools, Taken

GI = 2**30


def on(node: str) -> Body:
    return {"matchLabels": {keys.HOSTNAME: node}}


def pools(*reported: tuple[str, str, Body | None, str], shared: bool = True) -> Pools:
    """(name, class, topology, capacity) each."""
    made = [a_capacity(name=n, storage_class=c, topology=t, capacity=size) for n, c, t, size in reported]
    return Pools(made, (lambda _: "driver") if shared else (lambda storage_class: storage_class))


AT_N1 = {keys.HOSTNAME: "n1"}


def test_a_volume_is_taken_from_its_segment_alone() -> None:
    known = pools(("a", "fast", on("n1"), "3Gi"), ("b", "fast", on("n2"), "3Gi"))
    assert known.take("fast", AT_N1, 2 * GI) == Taken(("default/a",), 2 * GI)
    assert (known["default/a"].free, known["default/b"].free) == (GI, 3 * GI)


def test_what_is_too_much_is_refused_with_figures() -> None:
    known = pools(("a", "fast", on("n1"), "1Gi"))
    assert known.take("fast", AT_N1, 2 * GI) == f"{2 * GI} bytes were asked for and {GI} are left"


def test_a_place_that_no_object_speaks_of_has_nothing() -> None:
    known = pools(("a", "fast", on("n1"), "1Gi"))
    assert known.take("fast", {keys.HOSTNAME: "n2"}, 1) == "no capacity is reported for class fast there"


def test_a_class_without_objects_has_no_end() -> None:
    assert pools().take("fast", AT_N1, 2**60) == Taken((), 2**60)


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
    assert known.take("fast", None, GI) == Taken(("default/b",), GI)


def test_what_is_given_back_is_there_again() -> None:
    known = pools(("a", "fast", on("n1"), "3Gi"))
    taken = known.take("fast", AT_N1, 2 * GI)
    assert isinstance(taken, Taken)
    known.give_back(taken)
    assert known["default/a"].free == 3 * GI
