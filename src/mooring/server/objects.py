"""The store, seen as objects: one place where keys, stored bytes and revisions become kinds, names and versions.

Everything the verbs read or write goes through here. A write that lost a race raises the store's `Mismatch`;
`retrying` is how a verb that may simply try again does so. What a write means is not decided here.
"""

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import ServiceUnavailable, conflict, not_found
from mooring.api.errors import TooLarge as RequestTooLarge
from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.server.body import Body
from mooring.server.contract import Target
from mooring.server.shared_events import SharedEvents
from mooring.server.stamping import decoded, stamped, stored_form
from mooring.store.contract import (
    ABSENT,
    Compacted,
    Listing,
    Mismatch,
    Moved,
    Record,
    Revision,
    Store,
    StoreClosed,
    StoreError,
    TooLarge,
    Watch,
)

V = TypeVar("V", bound=ApiObject)
T = TypeVar("T")

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: How often a write that lost a race is tried again; kube-apiserver's figure for patches.
ATTEMPTS: Final = 5


#: Bytes of a stored object: etcd's own bound, so that what one store takes the other takes too, and patches cannot make
#: an object grow without end.
MAX_OBJECT_BYTES: Final = 3 * 1024 * 1024 // 2


class Stored(NamedTuple):
    """One object as it lies in the store."""

    kind: Kind[Any]
    record: Record

    @property
    def version(self) -> str:
        return str(self.record.revision)

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.record.value)

    @property
    def body(self) -> bytes:
        """What clients get."""
        return stamped(self.kind, self.record.value, self.record.revision)

    def decode(self) -> Body:
        """A dict of the caller's own."""
        return decoded(self.kind, self.record.value, self.record.revision)


class Objects:
    """Reads and writes of whole objects."""

    def __init__(self, store: Store) -> None:
        self._store = store
        #: What watchers of whole kinds are told.
        self.shared_events = SharedEvents()

    @property
    def revision(self) -> Revision:
        return self._store.revision

    async def catch_up(self) -> None:
        """Before anything that a request reads: it sees what other servers acknowledged before it came."""
        with _REFUSALS:
            await self._store.catch_up()

    async def find(self, kind: Kind[Any], namespace: str, name: str) -> Stored | None:
        with _REFUSALS:
            record = await self._store.get(kind.store_key(namespace, name))
        return None if record is None else Stored(kind, record)

    async def require(self, target: Target) -> Stored:
        """The object a request is about; NotFound where there is none."""
        kind = target.kind
        found = await self.find(kind, target.namespace, target.name)
        if found is None:
            raise not_found(kind.plural, target.name, group=kind.group)
        return found

    async def view(self, kind: Kind[V], namespace: str, name: str) -> V | None:
        """The typed view of an object, for those who only look."""
        found = await self.find(kind, namespace, name)
        return None if found is None else _viewed(kind, found.record)

    async def views(self, kind: Kind[V], namespace: str = "") -> tuple[V, ...]:
        """The typed views of all objects of a kind, for those who only look."""
        listing = await self.list(kind, namespace)
        return tuple(_viewed(kind, record) for record in listing.records)

    async def list(
        self, kind: Kind[Any], namespace: str, *, at: Revision | None = None, start: str = "", limit: int = 0
    ) -> Listing:
        """The raw records, so that a list costs no decoding; `namespace` "" is all of them. `at`, `start` (a key) and
        `limit` are the store's; so is Compacted."""
        with _REFUSALS:
            return await self._store.list(kind.store_prefix(namespace), at=at, start=start, limit=limit)

    async def watch(self, kind: Kind[Any], namespace: str, *, after: Revision) -> Watch:
        """Raises the store's Compacted."""
        with _REFUSALS:
            return await self._store.watch(kind.store_prefix(namespace), after=after)

    async def insert(self, kind: Kind[Any], namespace: str, obj: Body, *, given: Stored | None = None) -> Stored:
        """Raises Mismatch where the name is taken, and Moved where `given` is no longer what is there."""
        key = kind.store_key(namespace, obj["metadata"]["name"])
        return await self._write(kind, key, obj, ABSENT, None if given is None else given.record)

    async def replace(self, stored: Stored, obj: Body) -> Stored:
        """Raises Mismatch where `stored` is no longer what is there."""
        return await self._write(stored.kind, stored.record.key, obj, stored.record.revision)

    async def remove(self, stored: Stored) -> Revision:
        """The revision of the deletion. Raises Mismatch where `stored` is no longer what is there."""
        with _REFUSALS:
            change = await self._store.write(stored.record.key, None, expect=stored.record.revision)
        return change.revision

    async def _write(
        self, kind: Kind[Any], key: str, obj: Body, expect: Revision, given: Record | None = None
    ) -> Stored:
        value = stored_form(kind, obj)
        if len(value) > MAX_OBJECT_BYTES:
            raise RequestTooLarge(f"Request entity too large: an object may have {MAX_OBJECT_BYTES} bytes")
        with _REFUSALS:
            change = await self._store.write(key, value, expect=expect, given=given)
        assert change.after is not None, "a write with a value leaves one"
        return Stored(kind, change.after)


#: Every creation looks at its namespace and at a few classes: enough of them to be found decoded.
_VIEWS_KEPT: Final = 256
#: Larger ones are decoded each time: what is kept stays below a few megabytes.
_KEPT_BYTES: Final = 16 * 1024


def _viewed(kind: Kind[V], record: Record) -> V:
    decode = _decoded_view if len(record.value) <= _KEPT_BYTES else _decoded_view.__wrapped__
    view: V = decode(kind, record.value, record.revision)
    return view


@lru_cache(maxsize=_VIEWS_KEPT)
def _decoded_view(kind: Kind[Any], value: bytes, revision: Revision) -> Any:  # noqa: ANN401  # of the kind's view
    return kind.decode(stamped(kind, value, revision))


async def retrying(target: Target, attempt: Callable[[], Awaitable[T]]) -> T:
    """The result of the first attempt that lost no race; Conflict once too many did."""
    for _ in range(ATTEMPTS):
        try:
            return await attempt()
        except Mismatch:
            continue
    raise conflict(target.kind.plural, target.name, group=target.kind.group)


class _Refusals:
    """What the store raises becomes what clients are told. Without state, so one serves all; a class, because every
    read and write passes through it, and a generator costs five times as much."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: object) -> None:
        if error is None or not isinstance(error, StoreError) or isinstance(error, Mismatch | Moved | Compacted):
            return
        if isinstance(error, StoreClosed):
            raise ServiceUnavailable("the API server is shutting down") from error
        if isinstance(error, TooLarge):
            raise RequestTooLarge("Request entity too large: the object is larger than the store takes") from error
        # Its text names files, which is for whoever runs the server.
        log.error("the store failed", why=str(error))
        raise ServiceUnavailable("the server's store failed; its log says why") from error


_REFUSALS: Final = _Refusals()
