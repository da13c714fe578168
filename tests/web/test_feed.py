"""Frames for many readers: resumed where possible, cut off where necessary."""

import asyncio

import pytest

from mooring.web.feed import Ended, Feed, Reader, TooFarBehind


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
    assert (await one.news(), await two.news()) == (b"bc", b"c")


async def test_a_reader_waits_for_the_next_frame() -> None:
    feed = Feed("e")
    news = asyncio.ensure_future(feed.join().news())
    await asyncio.sleep(0)
    assert not news.done()
    feed.publish(b"a")
    assert await news == b"a"


async def test_a_reader_too_far_behind_is_cut_off_and_holds_nothing() -> None:
    reader = Reader(Feed("e"), most=10)
    for _ in range(3):
        reader.offer(b"xxxx")
    with pytest.raises(TooFarBehind):
        await reader.news()


async def test_the_end_comes_after_the_last_frame() -> None:
    feed = Feed("e")
    reader = feed.join()
    feed.publish(b"a")
    feed.end()
    assert await reader.news() == b"a"
    with pytest.raises(Ended):
        await reader.news()


async def test_who_has_left_gets_nothing() -> None:
    feed = Feed("e")
    reader = feed.join()
    reader.close()
    feed.publish(b"a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await reader.news()
