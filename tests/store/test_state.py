"""Compare-and-swap rule, and listing by prefix."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.store.contract import ABSENT, Record, Revision, RevisionConflict, StoreChange
from mooring.store.state import StoreState, Write, WriteBatch, decide


def a_record(*, key: str = "/a", value: bytes = b"old", revision: int = 3, created: int = 2) -> Record:
    return Record(key, value, Revision(revision), Revision(created))


def only(record: Record | None) -> Callable[[str], Record | None]:
    """A state of one record at most."""
    return lambda key: record if record is not None and key == record.key else None


def a_write(*, key: str = "/a", value: bytes | None = b"new", expect: int = 3) -> Write:
    return Write(key, value, Revision(expect))


OLD = a_record()


@pytest.mark.parametrize(
    ("write", "current", "want"),
    [
        pytest.param(a_write(expect=0), None, (None, a_record(value=b"new", revision=8, created=8)), id="create"),
        pytest.param(a_write(), OLD, (OLD, a_record(value=b"new", revision=8, created=2)), id="replace"),
        pytest.param(a_write(value=b"old"), OLD, (OLD, a_record(revision=8, created=2)), id="replace by the same"),
        pytest.param(
            a_write(value=b"", expect=0), None, (None, a_record(value=b"", revision=8, created=8)), id="empty"
        ),
        pytest.param(a_write(value=None), OLD, (OLD, None), id="delete"),
    ],
)
def test_write_at_expected_revision_succeeds(
    write: Write, current: Record | None, want: tuple[Record | None, Record | None]
) -> None:
    assert decide(write, only(current), Revision(7)) == StoreChange("/a", Revision(8), *want)


@pytest.mark.parametrize(
    ("write", "current"),
    [
        pytest.param(a_write(expect=0), OLD, id="create what is there"),
        pytest.param(a_write(expect=2), OLD, id="replace what has changed since"),
        pytest.param(a_write(expect=4), OLD, id="replace what is not there yet"),
        pytest.param(a_write(), None, id="replace what is gone"),
        pytest.param(a_write(value=None, expect=2), OLD, id="delete what has changed since"),
        pytest.param(a_write(value=None), None, id="delete what is gone"),
    ],
)
def test_other_write_conflicts_with_current_record(write: Write, current: Record | None) -> None:
    decided = decide(write, only(current), Revision(7))
    assert isinstance(decided, RevisionConflict)
    assert decided.current == current


def test_deletion_without_revision_is_rejected() -> None:
    with pytest.raises(ValueError, match="must expect an existing revision"):
        a_write(value=None, expect=ABSENT)


def test_key_must_be_utf8() -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        a_write(key="/\ud800")


def test_revision_never_decreases() -> None:
    state = StoreState([OLD], Revision(7))
    repeated = decide(a_write(), only(OLD), Revision(6))
    assert isinstance(repeated, StoreChange)
    with pytest.raises(ValueError, match="7 cannot follow 7"):
        state.apply(repeated)
    with pytest.raises(ValueError, match="6 cannot follow 7"):
        state.advance(Revision(6))
    assert (state.get("/a"), state.revision) == (OLD, 7)


def test_advance_skips_foreign_revisions() -> None:
    state = StoreState([OLD], Revision(7))
    state.advance(Revision(9))
    assert (state.get("/a"), state.revision) == (OLD, 9)
    change = decide(a_write(), only(OLD), Revision(11))
    assert isinstance(change, StoreChange)
    state.apply(change)
    assert state.revision == 12


KEYS = st.text(alphabet="/ab\U0010ffff", max_size=5)


@given(stored=st.sets(KEYS, max_size=20), asked=st.lists(st.tuples(KEYS, st.booleans()), max_size=30), prefix=KEYS)
def test_prefix_is_listed_in_key_order(stored: set[str], asked: list[tuple[str, bool]], prefix: str) -> None:
    state = StoreState((a_record(key=key) for key in stored), Revision(7))
    expected = set(stored)
    for key, keep in asked:
        current = state.get(key)
        if not keep and not current:
            continue
        write = Write(key, b"" if keep else None, current.revision if current else ABSENT)
        decided = decide(write, state.get, state.revision)
        assert isinstance(decided, StoreChange)
        state.apply(decided)
        (expected.add if keep else expected.discard)(key)
    listing = state.under(prefix)
    assert [record.key for record in listing.records] == sorted(key for key in expected if key.startswith(prefix))
    assert listing.revision == state.revision


def test_write_batch_does_not_change_state() -> None:
    state = StoreState([OLD], Revision(7))
    batch = WriteBatch(state)
    first = batch.decide(a_write(value=b"1"))
    lost = batch.decide(a_write(value=b"2"))
    gone = batch.decide(a_write(value=None, expect=8))
    again = batch.decide(a_write(value=b"3", expect=ABSENT))
    assert isinstance(lost, RevisionConflict)
    assert lost.current == a_record(value=b"1", revision=8)
    assert batch.changes == [first, gone, again]
    assert batch.results == {"/a": a_record(value=b"3", revision=10, created=10)}
    assert batch.revision == 10
    assert (state.get("/a"), state.revision) == (OLD, 7)
