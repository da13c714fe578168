"""Events that are made once, however many watch."""

from mooring.api.kinds import CONFIG_MAP, EVENT, NEW_EVENT
from mooring.server import objects
from mooring.server.objects import SharedEvents
from mooring.store.contract import Record, Revision, StoreChange
from mooring.store.state import Limits

VALUE = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"","name":"a"}}'


def record(revision: int, value: bytes = VALUE) -> Record:
    return Record("/k", value, Revision(revision), Revision(1))


def change(revision: int, *, before: Record | None = None, after: Record | None = None) -> StoreChange:
    return StoreChange("/k", Revision(revision), before, after)


def test_what_a_change_is_called() -> None:
    shared = SharedEvents()
    told = [
        shared.of(CONFIG_MAP, change(1, after=record(1))),
        shared.of(CONFIG_MAP, change(2, before=record(1), after=record(2))),
        shared.of(CONFIG_MAP, change(3, before=record(2))),
    ]
    assert [event.type for event in told] == ["ADDED", "MODIFIED", "DELETED"]
    assert all(f'"resourceVersion":"{n}"'.encode() in event.body for n, event in enumerate(told, start=1))


def test_watches_share_events() -> None:
    shared = SharedEvents()
    first = shared.of(CONFIG_MAP, change(7, after=record(7)))
    assert shared.of(CONFIG_MAP, change(7, after=record(7))) is first
    assert first.line is first.line
    assert first.line == b'{"type":"ADDED","object":%b}\n' % first.body


def test_a_revision_that_comes_again_is_another_event() -> None:
    shared = SharedEvents()
    shared.of(CONFIG_MAP, change(7, after=record(7)))
    other = VALUE.replace(b'"a"', b'"b"')
    assert b'"name":"b"' in shared.of(CONFIG_MAP, change(7, after=record(7, other))).body


def test_two_forms_of_one_change_are_two_events() -> None:
    value = b'{"kind":"Event","apiVersion":"v1","metadata":{"resourceVersion":""},"message":"m"}'
    shared, made = SharedEvents(), change(7, after=record(7, value))
    assert b'"message":"m"' in shared.of(EVENT, made).body
    assert b'"note":"m"' in shared.of(NEW_EVENT, made).body


def test_only_the_newest_are_kept() -> None:
    shared = SharedEvents()
    for revision in range(1, objects.SHARED_EVENTS_LIMITS.changes + 10):
        shared.of(CONFIG_MAP, change(revision, after=record(revision)))
    assert len(shared) == objects.SHARED_EVENTS_LIMITS.changes


def test_what_is_kept_is_bounded_by_bytes() -> None:
    """Of objects of a megabyte two thousand must not be kept."""
    shared = SharedEvents()
    large = VALUE[:-1] + b',"data":{"a":"%b"}}' % (b"x" * (1 << 20))
    before = None
    for revision in range(1, 200):
        after = record(revision, large + b" " * (revision % 2))
        shared.of(CONFIG_MAP, change(revision, before=before, after=after))
        before = after
        assert shared.bytes <= objects.SHARED_EVENTS_LIMITS.bytes
    assert 1 <= len(shared) <= 16
    again = SharedEvents(Limits(changes=10, bytes=100))
    assert again.of(CONFIG_MAP, change(1, after=record(1, large))).type == "ADDED", "too large to keep, not to send"
    assert (len(again), again.bytes) == (0, 0)


def test_a_revision_that_comes_again_is_counted_once() -> None:
    shared = SharedEvents()
    for value in (VALUE, VALUE.replace(b'"a"', b'"b"'), VALUE):
        shared.of(CONFIG_MAP, change(7, after=record(7, value)))
    alone = SharedEvents()
    alone.of(CONFIG_MAP, change(7, after=record(7)))
    assert shared.bytes == alone.bytes
