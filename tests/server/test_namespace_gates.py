"""The gate of a namespace: open to all creations at once, closed to all while somebody decides that it goes."""

import asyncio
import gc

import pytest

from mooring.server.namespace_gates import NamespaceGates


class Visitor:
    """Somebody who goes in, and stays until told to leave."""

    def __init__(self, gates: NamespaceGates, namespace: str = "a", *, closing: bool = False) -> None:
        self._way = gates.closed(namespace) if closing else gates.creating(namespace)
        self._leave = asyncio.Event()
        self.inside = False
        self._task = asyncio.create_task(self._visit())

    async def _visit(self) -> None:
        async with self._way:
            self.inside = True
            await self._leave.wait()
        self.inside = False

    async def leave(self) -> None:
        self._leave.set()
        await self._task

    async def give_up(self) -> None:
        self._task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self._task


async def inside(*visitors: Visitor) -> list[bool]:
    for _ in range(10):
        await asyncio.sleep(0)
    return [visitor.inside for visitor in visitors]


async def test_creations_do_not_wait_for_each_other() -> None:
    gates = NamespaceGates()
    first, second = Visitor(gates), Visitor(gates)
    assert await inside(first, second) == [True, True]
    await first.leave()
    await second.leave()


async def test_the_gate_closes_when_the_last_creation_is_done_and_opens_again() -> None:
    gates = NamespaceGates()
    first, second = Visitor(gates), Visitor(gates)
    closing = Visitor(gates, closing=True)
    late = Visitor(gates)
    other = Visitor(gates, "b")
    assert await inside(first, second, closing, late, other) == [True, True, False, False, True]
    await first.leave()
    assert await inside(closing, late) == [False, False]
    await second.leave()
    assert await inside(closing, late) == [True, False]
    await closing.leave()
    assert await inside(late) == [True]
    await late.leave()
    await other.leave()


async def test_who_gives_up_is_not_waited_for() -> None:
    gates = NamespaceGates()
    creating, closing, late = Visitor(gates), Visitor(gates, closing=True), Visitor(gates)
    assert await inside(creating, closing, late) == [True, False, False]
    await closing.give_up()
    assert await inside(late) == [True]
    again = Visitor(gates, closing=True)
    await creating.give_up()
    await late.give_up()
    assert await inside(again) == [True]
    await again.leave()


async def test_names_leave_nothing_behind_but_the_last() -> None:
    gates = NamespaceGates()
    for number in range(10):
        await Visitor(gates, f"made-up-{number}").leave()
    gc.collect()
    assert list(gates._gates) == ["made-up-9"]
