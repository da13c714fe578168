"""Everything that happened in a simulated world, in order: who wrote what, and which faults struck.

The store of the simulated world reports every accepted write here, with whoever was acting at that moment. What the
invariants are checked on, what a story is told from, and, as a digest, what makes two runs comparable.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple, TypeVar

from msgspec import structs

from mooring.api.kinds import STORED, Kind
from mooring.api.views.meta import ApiObject
from mooring.clock import Clock
from mooring.store.contract import Change, Record, Revision
from mooring.store.fanout import BACKLOG, Fanout
from mooring.store.history import HISTORY
from mooring.store.memory import MemoryStore

_KIND_AT: Final = {kind.store_prefix(): kind for kind in STORED}


class Acting(NamedTuple):
    who: str
    verb: str


_acting: ContextVar[Acting] = ContextVar("acting")
#: Writes nobody put their name to are the user's: only components act under a name of their own.
USER: Final = "user"
#: Another program that uses the same cluster.
RIVAL: Final = "rival"
#: Who acts from outside the control plane: for them nothing goes wrong.
OUTSIDERS: Final = frozenset({USER, RIVAL})
_BY_USER: Final = Acting(USER, "")


@contextmanager
def acting(who: str, verb: str) -> Iterator[None]:
    """Writes inside the block are this instance's."""
    token = _acting.set(Acting(who, verb))
    try:
        yield
    finally:
        _acting.reset(token)


def actor() -> Acting:
    """Whoever acts at this moment."""
    return _acting.get(_BY_USER)


V = TypeVar("V", bound=ApiObject)


class Written(NamedTuple):
    """One accepted write."""

    at: float
    who: str
    verb: str
    kind: Kind[ApiObject]
    key: str
    change: Change


class Noted(NamedTuple):
    """Something else worth telling: a fault that struck, a component that came or went."""

    at: float
    who: str
    what: str


class History:
    """Grows while the world runs. Listeners hear of every write right after it took effect."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.entries: list[Written | Noted] = []
        self._listeners: list[Callable[[Written], None]] = []

    def on_write(self, listener: Callable[[Written], None]) -> None:
        self._listeners.append(listener)

    def note(self, who: str, what: str) -> None:
        self.entries.append(Noted(self._clock.monotonic(), who, what))

    def write(self, change: Change) -> None:
        who, verb = actor()
        kind, key = _place_of(change.key)
        written = Written(self._clock.monotonic(), who, verb or _plain_verb(change), kind, key, change)
        self.entries.append(written)
        for listener in self._listeners:
            listener(written)

    def writes(self) -> Iterator[Written]:
        return (entry for entry in self.entries if isinstance(entry, Written))

    def revision(self, behind: int) -> int:
        """The store's revision so many writes ago."""
        return [written.change.revision for written in self.writes()][-1 - behind :][0]

    def objects(self, kind: Kind[V], revision: int) -> list[V]:
        """The objects of a kind as they were at a revision."""
        found: dict[str, V] = {}
        for written in self.writes():
            if written.change.revision > revision:
                break
            if (written.kind.group, written.kind.plural) != (kind.group, kind.plural):
                continue
            found.pop(written.key, None)
            if (after := written.change.after) is not None:
                item = kind.decode(after.value)
                meta = structs.replace(item.metadata, resource_version=str(after.revision))
                found[written.key] = structs.replace(item, metadata=meta)
        return list(found.values())

    def digest(self) -> str:
        """The same for two runs in which the same was written by the same at the same moments, byte for byte."""
        digest = hashlib.sha256()
        for entry in self.writes():
            after = entry.change.after
            digest.update(f"{entry.at} {entry.who} {entry.verb} {entry.change.key}\n".encode())
            digest.update(b"-" if after is None else after.value)
        return digest.hexdigest()


class WitnessedStore(MemoryStore):
    """The store of a simulated world: in memory, and nothing is written unseen."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history

    async def write(self, key: str, value: bytes | None, *, expect: Revision, given: Record | None = None) -> Change:
        change = await super().write(key, value, expect=expect, given=given)
        self._history.write(change)
        return change

    def restart(self) -> None:
        """As after a restart of the server: what is stored stays, watches end, and old versions are not kept."""
        self._fanout.close()
        self._fanout = Fanout(self._state.revision, history=HISTORY, backlog=BACKLOG)


def _place_of(key: str) -> tuple[Kind[ApiObject], str]:
    _, group, plural, rest = key.split("/", 3)
    return _KIND_AT[f"/{group}/{plural}/"], rest


def _plain_verb(change: Change) -> str:
    if change.before is None:
        return "create"
    return "delete" if change.after is None else "update"
