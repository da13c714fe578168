import asyncio

import pytest

from mooring.control.keyed_locks import KeyedLocks

ONE, OTHER = ("n1", "driver", "one"), ("n1", "driver", "other")


async def test_one_task_at_a_time_is_at_a_volume_in_the_order_they_came() -> None:
    turns: KeyedLocks[tuple[str, str, str]] = KeyedLocks()
    story: list[str] = []

    async def be_at(who: str) -> None:
        async with turns.holding([ONE]):
            story.append(f"{who} comes")
            await asyncio.sleep(0)
            story.append(f"{who} goes")

    await asyncio.gather(*(be_at(who) for who in "abc"))
    assert story == [f"{who} {what}" for who in "abc" for what in ("comes", "goes")]


async def test_tasks_at_different_volumes_do_not_wait_for_each_other() -> None:
    turns: KeyedLocks[tuple[str, str, str]] = KeyedLocks()
    async with turns.holding([ONE]), turns.holding([OTHER]):
        assert len(turns) == 2


async def test_volumes_that_nobody_is_at_are_not_remembered() -> None:
    turns: KeyedLocks[tuple[str, str, str]] = KeyedLocks()
    for number in range(100):
        async with turns.holding([("n1", "driver", str(number))]):
            assert len(turns) == 1
    with pytest.raises(RuntimeError):
        async with turns.holding([ONE]):
            raise RuntimeError("the driver is gone")
    async with turns.holding([ONE]):
        gives_up = asyncio.create_task(turns.holding([ONE]).__aenter__())
        await asyncio.sleep(0)
        gives_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gives_up
        assert len(turns) == 1, "the first is still at it"
    assert len(turns) == 0
