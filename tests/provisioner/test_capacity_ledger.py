"""The ledger: which entries are wanted and which objects are obsolete, after every kind of change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_capacity, a_class
from mooring.api.views.storage import StorageCapacity, StorageClass
from mooring.provisioner.capacity_ledger import Figures, Ledger
from mooring.provisioner.capacity_objects import Entry
from mooring.provisioner.segments import Segment
from provisioner.paper_driver import DRIVER, KEY

ONE: Segment = ((KEY, "node-1"),)
TWO: Segment = ((KEY, "node-2"),)


def of_driver(name: str = "fast", mode: str | None = "WaitForFirstConsumer", provisioner: str = DRIVER) -> StorageClass:
    return a_class(name=name, provisioner=provisioner, binding_mode=mode)


def an_object(name: str, segment: Segment, storage_class: str = "fast", version: str = "1") -> StorageCapacity:
    return a_capacity(
        name=name, storage_class=storage_class, topology={"matchLabels": dict(segment)}, capacity="1Gi", version=version
    )


def a_ledger(*segments: Segment, classes: tuple[StorageClass, ...] = (of_driver(),)) -> Ledger:
    ledger = Ledger(DRIVER)
    ledger.observe_segments(frozenset(segments))
    for each in classes:
        ledger.observe_class(None, each)
    return ledger


@pytest.mark.parametrize(
    ("storage_class", "counts"),
    [
        pytest.param(of_driver(), True, id="waits for a consumer"),
        pytest.param(of_driver(mode=None), True, id="an unset mode"),
        pytest.param(of_driver(mode="Immediate"), False, id="immediate"),
        pytest.param(of_driver(provisioner="other"), False, id="another driver's"),
    ],
)
@pytest.mark.req("C6.classes")
def test_which_classes_count(storage_class: StorageClass, counts: bool) -> None:
    ledger = a_ledger(ONE, classes=())
    looked_at = ledger.observe_class(None, storage_class)
    assert looked_at == ({Entry(ONE, "fast")} if counts else set())
    assert ledger.wanted() == looked_at


def test_immediate_classes_count_when_asked_for() -> None:
    ledger = Ledger(DRIVER, for_immediate_binding=True)
    ledger.observe_segments(frozenset({ONE}))
    assert ledger.observe_class(None, of_driver(mode="Immediate")) == {Entry(ONE, "fast")}


@pytest.mark.req("C6.segments", "C9.node-change")
def test_segments_that_come_and_go() -> None:
    ledger = a_ledger(ONE)
    ledger.observe_object(None, an_object("a", ONE))
    assert ledger.observe_segments(frozenset({ONE, TWO})) == {Entry(TWO, "fast")}
    assert ledger.observe_segments(frozenset({TWO})) == {Entry(ONE, "fast")}
    assert ledger.class_of(Entry(ONE, "fast")) is None
    assert ledger.figures() == Figures(goal=1, current=0, obsolete=1)


@pytest.mark.req("C9.class-change")
def test_classes_that_come_change_and_go() -> None:
    ledger = a_ledger(ONE, TWO, classes=())
    entries = {Entry(ONE, "fast"), Entry(TWO, "fast")}
    assert ledger.observe_class(None, of_driver()) == entries
    assert ledger.observe_class(of_driver(), of_driver()) == entries
    assert ledger.observe_class(of_driver(), of_driver(mode="Immediate")) == entries, "they are obsolete now"
    assert ledger.observe_class(of_driver(mode="Immediate"), None) == set()


@pytest.mark.parametrize(
    ("before", "after", "looked_at"),
    [
        pytest.param(None, an_object("a", ONE), set(), id="the one that was wanted"),
        pytest.param(None, an_object("a", TWO), {Entry(TWO, "fast")}, id="one of a segment that is not there"),
        pytest.param(None, an_object("a", ONE, "slow"), {Entry(ONE, "slow")}, id="one of a class that is not there"),
        pytest.param(an_object("a", ONE), None, {Entry(ONE, "fast")}, id="one that somebody deleted"),
    ],
)
@pytest.mark.req("C8.obsolete", "C10.obsolete")
def test_objects(before: StorageCapacity | None, after: StorageCapacity | None, looked_at: set[Entry]) -> None:
    assert a_ledger(ONE).observe_object(before, after) == looked_at


def test_of_two_objects_for_one_entry_the_older_stays() -> None:
    ledger = a_ledger(ONE)
    ledger.observe_object(None, an_object("b", ONE))
    assert ledger.observe_object(None, an_object("a", ONE)) == {Entry(ONE, "fast")}
    assert [each.name for each in ledger.objects(Entry(ONE, "fast"))] == ["a", "b"]
    assert ledger.figures() == Figures(goal=1, current=1, obsolete=1)


def test_old_news_does_not_undo_an_own_write() -> None:
    ledger = a_ledger(ONE)
    ledger.learn(Entry(ONE, "fast"), an_object("a", ONE, version="5"))
    ledger.observe_object(None, an_object("a", ONE, version="4"))
    assert [each.metadata.resource_version for each in ledger.objects(Entry(ONE, "fast"))] == ["5"]


def test_selectors_that_nobody_publishes_are_strays() -> None:
    ledger = a_ledger(ONE)
    stray = a_capacity(name="odd", storage_class="fast", topology=None)
    assert ledger.observe_object(None, stray) == set()
    assert ledger.strays() == [stray]
    assert ledger.figures().obsolete == 1
    ledger.observe_object(stray, None)
    assert ledger.strays() == []


_SEGMENTS = st.sets(st.sampled_from([ONE, TWO, ()]))
_CLASSES = st.sets(st.sampled_from(["fast", "slow"]))


@given(st.lists(st.tuples(_SEGMENTS, _CLASSES), min_size=1, max_size=6))
def test_after_any_history_every_difference_was_to_be_looked_at(history: list[tuple[set[Segment], set[str]]]) -> None:
    """Whoever looks at each entry it is told to, and makes or removes its object, ends with exactly what is wanted."""
    ledger = Ledger(DRIVER)
    there: dict[Entry, StorageCapacity] = {}
    names: set[str] = set()
    for segments, classes in history:
        to_do = ledger.observe_segments(frozenset(segments))
        for name in sorted(names | classes):
            after = of_driver(name) if name in classes else None
            to_do |= ledger.observe_class(of_driver(name) if name in names else None, after)
        names = classes
        for entry in sorted(to_do):
            if ledger.class_of(entry) is not None and entry not in there:
                there[entry] = an_object(f"o{len(there)}{entry}", entry.segment, entry.storage_class)
                assert ledger.observe_object(None, there[entry]) == set()
            elif ledger.class_of(entry) is None and entry in there:
                assert ledger.observe_object(there.pop(entry), None) == set()
    assert set(there) == ledger.wanted() == {Entry(s, c) for s in history[-1][0] for c in history[-1][1]}
    assert ledger.figures() == Figures(len(there), len(there), 0)
