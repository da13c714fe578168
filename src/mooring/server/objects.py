"""Objects on a store: maps kinds, names and versions to keys, bytes and revisions; shared watch events.

All reads and writes of the verbs go through `Objects`. A conflicting write raises the store's RevisionConflict, which
`retry_on_conflict` handles.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.documents import Body
from mooring.api.errors import ServiceUnavailable, TooLarge, conflict, not_found
from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.server.contract import StreamEvent, Target
from mooring.server.encoding import decoded, stored_form, with_resource_version
from mooring.store import contract
from mooring.store.contract import Listing, Record, Revision, Store, StoreChange, Watch
from mooring.store.state import Limits, weight_of

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"

#: A few batches of the store with objects of 4 kB.
SHARED_EVENTS_LIMITS: Final = Limits(changes=2048, bytes=16 << 20)


class SharedEvents:
    """Watch events encoded once per change and kind, for all watches without selectors."""

    def __init__(self, limits: Limits = SHARED_EVENTS_LIMITS) -> None:
        self._limits = limits
        self._events: OrderedDict[tuple[Kind[Any], int], tuple[StoreChange, StreamEvent]] = OrderedDict()
        #: Bytes of the cached events and changes, including values shared with the store's history.
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._events)

    def of(self, kind: Kind[Any], change: StoreChange) -> StreamEvent:
        """The event of a change for a watch of the kind without selectors."""
        key = (kind, change.revision)
        cached = self._events.get(key)
        # A store restored from a backup reuses revisions.
        if cached is not None and (cached[0] is change or cached[0] == change):
            return cached[1]
        event = event_of(kind, change)
        if cached is not None:
            self._drop(key)
        self._events[key] = change, event
        self.bytes += _weight(change, event)
        while len(self._events) > self._limits.changes or self.bytes > self._limits.bytes:
            self._drop(next(iter(self._events)))
        return event

    def _drop(self, key: tuple[Kind[Any], int]) -> None:
        self.bytes -= _weight(*self._events.pop(key))


def _weight(change: StoreChange, event: StreamEvent) -> int:
    # The body twice: also in the line for watches over HTTP.
    return weight_of(change) + 2 * len(event.body)


def event_of(kind: Kind[Any], change: StoreChange) -> StreamEvent:
    """With the resourceVersion of the change; a DELETED event has the last state of the object."""
    if change.after is not None:
        type_ = ADDED if change.before is None else MODIFIED
        return StreamEvent(type_, with_resource_version(kind, change.after.value, change.revision))
    assert change.before is not None, "a change has a record before or after it"
    return StreamEvent(DELETED, with_resource_version(kind, change.before.value, change.revision))


V = TypeVar("V", bound=ApiObject)
T = TypeVar("T")

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Of a conflicting write; kube-apiserver's limit for patches.
MAX_ATTEMPTS: Final = 5

#: etcd's limit, for all stores.
MAX_OBJECT_BYTES: Final = 3 * 1024 * 1024 // 2


class Stored(NamedTuple):
    """One stored object."""

    kind: Kind[Any]
    record: Record

    @property
    def version(self) -> str:
        return str(self.record.revision)

    @property
    def size(self) -> int:
        return len(self.record.value)

    @property
    def body(self) -> bytes:
        """JSON with resourceVersion."""
        return with_resource_version(self.kind, self.record.value, self.record.revision)

    def decode(self) -> Body:
        """A new dict."""
        return decoded(self.kind, self.record.value, self.record.revision)


class Objects:
    """Reads and writes of whole objects."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.shared_events = SharedEvents()

    @property
    def revision(self) -> Revision:
        return self._store.revision

    async def wait_current(self) -> None:
        """Read barrier of a request: it reads what other servers acknowledged before."""
        with _STORE_ERRORS:
            await self._store.wait_current()

    async def find(self, kind: Kind[Any], namespace: str, name: str) -> Stored | None:
        with _STORE_ERRORS:
            record = await self._store.get(kind.store_key(namespace, name))
        return None if record is None else Stored(kind, record)

    async def require(self, target: Target) -> Stored:
        """The target object. Raises NotFound."""
        kind = target.kind
        found = await self.find(kind, target.namespace, target.name)
        if found is None:
            raise not_found(kind.plural, target.name, group=kind.group)
        return found

    async def view(self, kind: Kind[V], namespace: str, name: str) -> V | None:
        """The typed view of an object, for reading."""
        found = await self.find(kind, namespace, name)
        return None if found is None else _viewed(kind, found.record)

    async def views(self, kind: Kind[V], namespace: str = "") -> tuple[V, ...]:
        """The typed views of all objects of a kind, for reading."""
        listing = await self.list(kind, namespace)
        return tuple(_viewed(kind, record) for record in listing.records)

    async def list(
        self, kind: Kind[Any], namespace: str, *, at: Revision | None = None, start: str = "", limit: int = 0
    ) -> Listing:
        """The records without decoding; `namespace` "" is all of them. `at`, `start` (a key), `limit` and Compacted are
        the store's."""
        with _STORE_ERRORS:
            return await self._store.list(kind.store_prefix(namespace), at=at, start=start, limit=limit)

    async def watch(self, kind: Kind[Any], namespace: str, *, after: Revision) -> Watch:
        """Raises the store's Compacted."""
        with _STORE_ERRORS:
            return await self._store.watch(kind.store_prefix(namespace), after=after)

    async def insert(self, kind: Kind[Any], namespace: str, obj: Body, *, precondition: Stored | None = None) -> Stored:
        """Raises RevisionConflict if the name exists, and PreconditionFailed if `precondition` has changed."""
        key = kind.store_key(namespace, obj["metadata"]["name"])
        return await self._write(kind, key, obj, contract.ABSENT, None if precondition is None else precondition.record)

    async def replace(self, stored: Stored, obj: Body) -> Stored:
        """Raises RevisionConflict if `stored` has changed."""
        return await self._write(stored.kind, stored.record.key, obj, stored.record.revision)

    async def remove(self, stored: Stored) -> Revision:
        """The revision of the deletion. Raises RevisionConflict if `stored` has changed."""
        with _STORE_ERRORS:
            change = await self._store.write(stored.record.key, None, expect=stored.record.revision)
        return change.revision

    async def _write(
        self, kind: Kind[Any], key: str, obj: Body, expect: Revision, precondition: Record | None = None
    ) -> Stored:
        value = stored_form(kind, obj)
        if len(value) > MAX_OBJECT_BYTES:
            raise TooLarge(f"Request entity too large: an object may have {MAX_OBJECT_BYTES} bytes")
        with _STORE_ERRORS:
            change = await self._store.write(key, value, expect=expect, precondition=precondition)
        assert change.after is not None, "a write with a value has a record"
        return Stored(kind, change.after)


#: Every creation reads its Namespace and a few classes.
_VIEW_CACHE_SIZE: Final = 256
#: Bounds the cache to a few megabytes.
_MAX_CACHED_VIEW_BYTES: Final = 16 * 1024


def _viewed(kind: Kind[V], record: Record) -> V:
    decode = _decoded_view if len(record.value) <= _MAX_CACHED_VIEW_BYTES else _decoded_view.__wrapped__
    view: V = decode(kind, record.value, record.revision)
    return view


@lru_cache(maxsize=_VIEW_CACHE_SIZE)
def _decoded_view(kind: Kind[Any], value: bytes, revision: Revision) -> Any:  # noqa: ANN401  # of the kind's view
    return kind.decode(with_resource_version(kind, value, revision))


async def retry_on_conflict(target: Target, attempt: Callable[[], Awaitable[T]]) -> T:
    """The result of the first attempt without RevisionConflict; raises Conflict after MAX_ATTEMPTS."""
    for _ in range(MAX_ATTEMPTS):
        try:
            return await attempt()
        except contract.RevisionConflict:
            continue
    raise conflict(target.kind.plural, target.name, group=target.kind.group)


class _TranslateStoreErrors:
    """Context manager that raises ApiErrors for store errors. A stateless class: `@contextmanager` costs five times as
    much, and every read and write uses it."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: object) -> None:
        if (
            error is None
            or not isinstance(error, contract.StoreError)
            or isinstance(error, contract.RevisionConflict | contract.PreconditionFailed | contract.Compacted)
        ):
            return
        if isinstance(error, contract.StoreClosed):
            raise ServiceUnavailable("the API server is shutting down") from error
        if isinstance(error, contract.ValueTooLarge):
            raise TooLarge("Request entity too large: the object is larger than the store takes") from error
        # The text contains paths of files, so clients do not get it.
        log.error("store failed", error=str(error))
        raise ServiceUnavailable("the server's store failed; its log says why") from error


_STORE_ERRORS: Final = _TranslateStoreErrors()
