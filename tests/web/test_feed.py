"""Frames for many readers: resumed where possible, cut off where necessary."""

import asyncio

import pytest

from mooring.web.session import Feed, FeedEnded, Reader, ReaderTooSlow


def published(feed: Feed, *frames: bytes) -> Feed:
    for frame in frames:
        feed.publish(frame)
    return feed


@pytest.mark.parametrize(
    ("epoch", "number", "missed"),
    [
        pytest.param("e", 3, b"", id="nothing missed"),
        pytest.param("e", 1, b"bc", id="two frames missed"),
        pytest.param("e", 0, b"abc", id="all of them"),
        pytest.param("other", 3, None, id="of another time"),
        pytest.param("e", 4, None, id="from the future"),
        pytest.param("e", -1, None, id="no number"),
    ],
)
def test_resuming(epoch: str, number: int, missed: bytes | None) -> None:
    assert published(Feed("e"), b"a", b"b", b"c").missed(epoch, number) == missed


def test_frames_are_kept_within_bounds() -> None:
    few = published(Feed("e", kept_frames=2), b"a", b"b", b"c")
    assert (few.missed("e", 0), few.missed("e", 1)) == (None, b"bc")
    small = published(Feed("e", kept_bytes=5), b"aaaa", b"bbbb")
    assert (small.missed("e", 0), small.missed("e", 1)) == (None, b"bbbb")


async def test_every_reader_gets_every_frame_from_when_it_came() -> None:
    feed = published(Feed("e"), b"a")
    one = feed.join()
    published(feed, b"b")
    two = feed.join()
    published(feed, b"c")
    assert (await one.next_frames(), await two.next_frames()) == (b"bc", b"c")


async def test_a_reader_waits_for_the_next_frame() -> None:
    feed = Feed("e")
    next_frames = asyncio.ensure_future(feed.join().next_frames())
    await asyncio.sleep(0)
    assert not next_frames.done()
    feed.publish(b"a")
    assert await next_frames == b"a"


async def test_a_reader_too_far_behind_is_cut_off_and_holds_nothing() -> None:
    reader = Reader(Feed("e"), most=10)
    for _ in range(3):
        reader.offer(b"xxxx")
    with pytest.raises(ReaderTooSlow):
        await reader.next_frames()


async def test_the_end_comes_after_the_last_frame() -> None:
    feed = Feed("e")
    reader = feed.join()
    feed.publish(b"a")
    feed.end()
    assert await reader.next_frames() == b"a"
    with pytest.raises(FeedEnded):
        await reader.next_frames()


async def test_closed_stream_gets_nothing() -> None:
    feed = Feed("e")
    reader = feed.join()
    reader.close()
    feed.publish(b"a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await reader.next_frames()
