"""Order within an object, no order between objects, and no more than there is room for."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mooring.api.views.meta import ObjectReference
from mooring.client.event_series import EventQueue, EventRecord

LIMIT = 4


def a_happening(name: str, number: int) -> EventRecord:
    return EventRecord(ObjectReference(kind="Pod", name=name), "Normal", "Happened", str(number), 0.0)


@given(st.lists(st.one_of(st.sampled_from("abc"), st.just("take"), st.integers(0, 3)), max_size=60))
def test_everything_is_taken_once_and_in_the_order_of_its_object_unless_it_was_the_oldest_of_too_many(
    steps: list[str | int],
) -> None:
    """`take` takes, a letter happens to that object, and a number ends one of those being written."""
    queue = EventQueue(LIMIT)
    waiting: list[EventRecord] = []
    written: list[EventRecord] = []
    for number, step in enumerate(steps):
        if isinstance(step, int):
            if step < len(written):
                queue.done(written.pop(step))
        elif step == "take":
            busy = {one.regarding.name for one in written}
            firsts = {one.regarding.name: one for one in reversed(waiting)}
            allowed = [one for name, one in firsts.items() if name not in busy]
            taken = queue.take()
            assert (taken is not None) is bool(allowed)
            if taken is not None:
                assert taken in allowed
                waiting.remove(taken)
                written.append(taken)
        else:
            room = len(waiting) < LIMIT
            if not room:
                waiting.pop(0)
            event = a_happening(step, number)
            assert queue.put(event) is room
            waiting.append(event)
        assert len(queue) == len(waiting) + len(written)
    for one in written:
        queue.done(one)
    left = []
    while (taken := queue.take()) is not None:
        left.append(taken)
        queue.done(taken)
    assert Counter(left) == Counter(waiting)
    assert not queue
    assert not any(vars(queue)[name] for name in ("_waiting", "_lanes", "_written", "_ready")), "nothing is kept"


def test_objects_take_turns() -> None:
    queue = EventQueue(LIMIT)
    for number, name in enumerate("aaab"):
        queue.put(a_happening(name, number))
    order = []
    while (taken := queue.take()) is not None:
        order.append(taken.regarding.name)
        queue.done(taken)
    assert order == ["a", "b", "a", "a"]


def test_what_was_dropped_leaves_nothing_behind() -> None:
    """Nothing is taken, as while no server answers, and ever other objects have news."""
    queue = EventQueue(LIMIT)
    for number in range(100 * LIMIT):
        queue.put(a_happening(f"pod-{number}", number))
    assert [len(queue), len(queue._lanes), len(queue._ready)] == [LIMIT] * 3
