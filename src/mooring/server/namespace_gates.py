"""One gate per namespace: creations pass through it, and a deletion of the namespace closes it for a moment.

A creation looks whether its namespace stays, and writes some awaits later. Unguarded, the namespace could begin to go
in between, be found empty and vanish before the write arrives, which would leave an object in no namespace at all. So
a namespace is marked only while no creation is under way in it: whatever was created before the mark can be seen by
whoever empties the namespace, and nothing is created after it. Upstream, whose servers share no memory, waits five
seconds instead. Whether a creation is allowed is not decided here.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary


class _Gate:
    def __init__(self) -> None:
        #: Held for the moment of passing, or for as long as the gate is closed; first come, first served.
        self.turn = asyncio.Lock()
        self.empty = asyncio.Event()
        self.empty.set()
        self._inside = 0

    def enter(self) -> None:
        self._inside += 1
        self.empty.clear()

    def leave(self) -> None:
        self._inside -= 1
        if not self._inside:
            self.empty.set()


class _Creating:
    """The block of one creation. A class, because every create pays for it, and a generator costs twice as much."""

    def __init__(self, gate: _Gate) -> None:
        self._gate = gate

    async def __aenter__(self) -> None:
        async with self._gate.turn:
            self._gate.enter()

    async def __aexit__(self, *_: object) -> None:
        self._gate.leave()


class NamespaceGates:
    """For the tasks of one event loop."""

    def __init__(self) -> None:
        #: Gates exist while somebody uses them: names that clients make up leave nothing behind.
        self._gates: WeakValueDictionary[str, _Gate] = WeakValueDictionary()
        #: Except for the one used last, which is mostly the next as well.
        self._last: _Gate | None = None

    def creating(self, namespace: str) -> "_Creating":
        """Around everything a creation does, from its look at the namespace to its write."""
        return _Creating(self._of(namespace))

    @asynccontextmanager
    async def closed(self, namespace: str) -> AsyncIterator[None]:
        """No creation is under way inside the block; those that come meanwhile wait until it is left."""
        gate = self._of(namespace)
        async with gate.turn:
            await gate.empty.wait()
            yield

    def _of(self, namespace: str) -> _Gate:
        gate = self._gates.get(namespace)
        if gate is None:
            gate = self._gates[namespace] = _Gate()
        self._last = gate
        return gate
