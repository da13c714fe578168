import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.client.http import LineTooLong, WatchLines


@pytest.mark.parametrize(
    ("chunks", "want", "unfinished"),
    [
        pytest.param([b"one\ntwo\n"], [b"one", b"two"], False, id="two lines in a chunk"),
        pytest.param([b"o", b"n", b"e\n"], [b"one"], False, id="a line in three chunks"),
        pytest.param([b"one", b"\n"], [b"one"], False, id="the end by itself"),
        pytest.param([b"one\ntw"], [b"one"], True, id="the last line is not complete"),
        pytest.param([b"\n\none\n\n"], [b"one"], False, id="empty lines"),
        pytest.param([b""], [], False, id="nothing"),
    ],
)
def test_lines_are_put_together(chunks: list[bytes], want: list[bytes], unfinished: bool) -> None:
    lines = WatchLines()
    assert [line for chunk in chunks for line in lines.feed(chunk)] == want
    assert lines.unfinished is unfinished


@given(st.lists(st.binary(min_size=1).filter(lambda line: b"\n" not in line)), st.lists(st.integers(0, 60)))
def test_it_does_not_matter_where_the_chunks_are_cut(whole: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(line + b"\n" for line in whole)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut <= len(stream))})
    lines = WatchLines()
    chunks = [stream[start:end] for start, end in itertools.pairwise(places)]
    assert [line for chunk in chunks for line in lines.feed(chunk)] == whole
    assert not lines.unfinished


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([b"x" * 11], id="in one chunk"),
        pytest.param([b"x" * 6, b"x" * 5], id="in two chunks"),
        pytest.param([b"x" * 11 + b"\n"], id="even if it ends at last"),
    ],
)
def test_a_line_past_the_bound_is_an_error_not_memory(chunks: list[bytes]) -> None:
    lines = WatchLines(max_bytes=10)
    with pytest.raises(LineTooLong):
        [line for chunk in chunks for line in lines.feed(chunk)]


def test_the_bound_is_per_line() -> None:
    assert list(WatchLines(max_bytes=10).feed(b"x" * 10 + b"\n" + b"y" * 10 + b"\n")) == [b"x" * 10, b"y" * 10]
