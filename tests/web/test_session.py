"""Who looks, and for how long informers run."""

import asyncio
import json
import random
from collections.abc import Callable

import pytest

from mooring.api.kinds import CSI_NODE, NODE
from mooring.clock import SystemClock
from mooring.web.session import WHOLE_CLUSTER, Session, SessionPool
from support.fake_client import FakeClient
from support.web_scene import Scene, small


def sessions(scene: Scene, *, linger: float = 30.0) -> SessionPool:
    return SessionPool(FakeClient(scene), WHOLE_CLUSTER, clock=SystemClock(), rng=random.Random(1), linger=linger)


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  # what is waited for sets no event
            await asyncio.sleep(0.01)


async def test_all_readers_share_one_session() -> None:
    door = sessions(small())
    async with door.reading() as one, door.reading() as two:
        assert one is two
    await door.close()
    assert not door.open


async def test_a_reader_that_comes_back_soon_finds_the_session() -> None:
    door = sessions(small(), linger=5.0)
    async with door.reading() as one:
        pass
    async with door.reading() as two:
        assert one is two
    await door.close()


async def test_the_last_to_leave_ends_it_and_the_next_begins_anew() -> None:
    door = sessions(small(), linger=0.01)
    async with door.reading() as one:
        pass
    await eventually(lambda: not door.open)
    async with door.reading() as two:
        assert one.feed.epoch != two.feed.epoch
    await door.close()


async def test_the_first_picture_is_complete() -> None:
    door = sessions(small())
    async with door.reading() as session:
        whole = json.loads(session.whole())
    await door.close()
    assert {name: len(rows) for name, rows in whole["rows"].items()} == {
        "nodes": 3,
        "pools": 2,
        "volumes": 3,
        "claims": 3,
        "pods": 2,
        "groups": 0,
        "happenings": 2,
        "notices": 0,
        "history": 0,
    }


async def test_the_whole_picture_is_made_once_for_all() -> None:
    door = sessions(small())
    async with door.reading() as session:
        assert session.whole() is session.whole()
    await door.close()


async def test_a_session_that_fails_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = small()
    door = sessions(scene)
    async with door.reading() as broken:
        with monkeypatch.context() as patched:
            patched.setattr("mooring.web.picture.node_row", _fail)
            scene.node("node-4")
            await eventually(lambda: not door.open)
        async with door.reading() as fresh:
            assert fresh is not broken
            assert len(json.loads(fresh.whole())["rows"]["nodes"]) == 4
    await door.close()


def _fail(*_: object) -> None:
    raise RuntimeError("a bug")


async def test_changes_are_sent_in_batches() -> None:
    scene = small()
    door = sessions(scene)
    async with door.reading() as session:
        session.whole()
        before = session.feed.number
        for number in range(50):
            scene.node(f"more-{number}")
        await eventually(lambda: session.feed.number > before)
        assert session.feed.number == before + 1
    await door.close()


async def test_kinds_that_are_followed_can_be_asked() -> None:
    session = Session(FakeClient(small()), WHOLE_CLUSTER, clock=SystemClock(), rng=random.Random(1))
    assert session.informer(NODE) is not None
    assert session.informer(CSI_NODE) is None
