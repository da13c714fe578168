"""The history of a simulated cluster: every accepted write with its author, and every injected fault, in order.

`RecordingStore` reports the writes. Invariants and traces are derived from the history; its digest compares two runs.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Final, NamedTuple, TypeVar

from msgspec import structs

from mooring.api.kinds import STORED, Kind
from mooring.api.views.meta import ApiObject
from mooring.clock import Clock
from mooring.store.contract import Record, Revision, StoreChange
from mooring.store.state import HISTORY
from mooring.store.watch_cache import BACKLOG, MemoryStore, WatchHub

_KIND_AT: Final = {kind.store_prefix(): kind for kind in STORED}


class Acting(NamedTuple):
    author: str
    verb: str


_acting: ContextVar[Acting] = ContextVar("acting")
#: Author of writes outside `acting`: only components set an author.
USER: Final = "user"
#: Another client of the same cluster.
OTHER_WRITER: Final = "rival"
#: Authors outside the control plane: no faults are injected into their requests.
OUTSIDERS: Final = frozenset({USER, OTHER_WRITER})
_BY_USER: Final = Acting(USER, "")


class acting:  # noqa: N801  # a context manager; a generator costs five times as much
    """Writes inside the block have this author."""

    __slots__ = ("_acting", "_token")

    def __init__(self, author: str, verb: str) -> None:
        self._acting = Acting(author, verb)

    def __enter__(self) -> None:
        self._token = _acting.set(self._acting)

    def __exit__(self, *_: object) -> None:
        _acting.reset(self._token)


def actor() -> Acting:
    """The current author."""
    return _acting.get(_BY_USER)


V = TypeVar("V", bound=ApiObject)


class Written(NamedTuple):
    """One accepted write."""

    at: float
    author: str
    verb: str
    kind: Kind[ApiObject]
    key: str
    change: StoreChange


class Noted(NamedTuple):
    """An injected fault, or an instance that started or ended."""

    at: float
    author: str
    what: str


class Effect(NamedTuple):
    """The n-th write of an instance while faults are active, or its n-th CSI call with a side effect: where a `Crash`
    can be planned."""

    at: float
    instance: str
    write: int
    what: str


class History:
    """Listeners are called for every write right after it took effect."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.entries: list[Written | Noted] = []
        self.effects: list[Effect] = []
        self._listeners: list[Callable[[Written], None]] = []

    def on_write(self, listener: Callable[[Written], None]) -> None:
        self._listeners.append(listener)

    def note(self, author: str, what: str) -> None:
        self.entries.append(Noted(self._clock.monotonic(), author, what))

    def effect(self, instance: str, write: int, what: str) -> None:
        self.effects.append(Effect(self._clock.monotonic(), instance, write, what))

    def write(self, change: StoreChange) -> None:
        author, verb = actor()
        kind, key = _place_of(change.key)
        written = Written(self._clock.monotonic(), author, verb or _plain_verb(change), kind, key, change)
        self.entries.append(written)
        for listener in self._listeners:
            listener(written)

    def writes(self) -> Iterator[Written]:
        return (entry for entry in self.entries if isinstance(entry, Written))

    def revision(self, behind: int) -> int:
        """The store's revision before the last `behind` writes."""
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
        """Equal for two runs with the same writes by the same authors at the same times, byte for byte."""
        digest = hashlib.sha256()
        for entry in self.writes():
            after = entry.change.after
            digest.update(f"{entry.at} {entry.author} {entry.verb} {entry.change.key}\n".encode())
            digest.update(b"-" if after is None else after.value)
        return digest.hexdigest()


class RecordingStore(MemoryStore):
    """An in-memory store that records every write."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history

    async def write(
        self, key: str, value: bytes | None, *, expect: Revision, precondition: Record | None = None
    ) -> StoreChange:
        change = await super().write(key, value, expect=expect, precondition=precondition)
        self._history.write(change)
        return change

    def restart(self) -> None:
        """Restart the server: objects stay, watches end, and old revisions are compacted."""
        self._hub.close()
        self._hub = WatchHub(self._state.revision, history=HISTORY, backlog=BACKLOG)


def _place_of(key: str) -> tuple[Kind[ApiObject], str]:
    _, group, plural, rest = key.split("/", 3)
    return _KIND_AT[f"/{group}/{plural}/"], rest


def _plain_verb(change: StoreChange) -> str:
    if change.before is None:
        return "create"
    return "delete" if change.after is None else "update"
