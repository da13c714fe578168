"""The objects a question begins with: those that are there, as somebody listed them, and those that are to come.

Takes plain documents, as kubectl prints them or people write them. What has a date was listed and is kept as it is,
but for who wrote which field and for gaps; what people wrote is completed and checked as the API server does it. Of
that, nodes, classes and volumes are simply there, and so is what has a uid or a status; other claims and pods, and what
makes them, are to come and go through the API server. One with the name of another that is there changes that one.
"""

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec

from mooring.api.errors import ApiError
from mooring.api.kinds import (
    BY_KIND,
    CLAIM,
    CSI_DRIVER,
    CSI_NODE,
    DAEMON_SET,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    LEASE,
    NAMESPACE,
    NODE,
    POD,
    PRIORITY_CLASS,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    SERVICE,
    STATEFUL_SET,
    STORAGE_CAPACITY,
    STORAGE_CLASS,
    VOLUME,
    VOLUME_ATTACHMENT,
    Kind,
)
from mooring.api.quantity import QuantityError
from mooring.api.views.lease import Lease
from mooring.api.views.meta import ApiObject
from mooring.explain.cluster_objects import MalformedObject, single
from mooring.server.contract import WriteOptions
from mooring.server.decoding import read_body
from mooring.server.defaulting.table import fill_defaults
from mooring.server.qos import qos_class
from mooring.server.stamping import stored_form
from mooring.server.validation.table import require_valid

V = TypeVar("V", bound=ApiObject)

Body = dict[str, Any]

#: What the simulated control plane looks at, in the order in which new objects are made: owners before owned.
KINDS: Final[tuple[Kind[ApiObject], ...]] = (
    NAMESPACE,
    NODE,
    PRIORITY_CLASS,
    STORAGE_CLASS,
    CSI_DRIVER,
    CSI_NODE,
    STORAGE_CAPACITY,
    VOLUME,
    CLAIM,
    VOLUME_ATTACHMENT,
    SERVICE,
    DISRUPTION_BUDGET,
    REPLICATION_CONTROLLER,
    DEPLOYMENT,
    REPLICA_SET,
    STATEFUL_SET,
    DAEMON_SET,
    POD,
)

#: What somebody has to act on, so that it cannot simply be there: of these, what people wrote is to come.
ACTED_ON: Final[frozenset[Kind[ApiObject]]] = frozenset(
    {CLAIM, SERVICE, DISRUPTION_BUDGET, REPLICATION_CONTROLLER, DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, POD}
)

#: Where kubectl puts what names no namespace.
DEFAULT_NAMESPACE: Final = "default"

#: Uids of objects that have none follow from their names, so that the same files give the same world.
_UIDS: Final = uuid.UUID("6d6f6f72-696e-4720-8068-776861746966")

_STRICT: Final = WriteOptions(field_validation="Strict")
_LENIENT: Final = WriteOptions(field_validation="Ignore")

#: Kinds with fields that must not change, or pod templates: two spellings of the same must not look like a change.
_COMPARED: Final[frozenset[Kind[ApiObject]]] = frozenset({CLAIM, DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET})


class BadQuestion(ValueError):
    """The objects or the changes asked for make no sense; the text says which and why, in one sentence."""


class Thing(NamedTuple):
    """One object that is there: how it reads, and the bytes the server will keep."""

    view: ApiObject
    stored: bytes

    def body(self) -> Body:
        """A dict of the caller's own."""
        decoded: Body = msgspec.json.decode(self.stored)
        return decoded


class Inventory:
    """Everything by kind and key. Where an object comes twice, the last one counts."""

    def __init__(self) -> None:
        self._there: dict[Kind[ApiObject], dict[str, Thing]] = {kind: {} for kind in KINDS}
        self._new: dict[Kind[ApiObject], dict[str, Body]] = {kind: {} for kind in KINDS}
        #: Who says that they are there. Nobody here looks at them, but they tell how the cluster works.
        self.leases: list[Lease] = []
        #: How many objects of which kinds were left out.
        self.skipped: Counter[str] = Counter()

    def add(self, document: object) -> None:
        """Take one document in, with all it lists. Raises BadQuestion."""
        for kind, body in self._known(document):
            metadata = body["metadata"]
            if metadata.get("creationTimestamp"):
                self.keep(kind, body)
            elif kind in ACTED_ON and not (metadata.get("uid") or body.get("status")):
                self.create(kind, body)
            else:
                self.keep(kind, _completed(kind, body))

    def keep(self, kind: Kind[ApiObject], body: Body) -> None:
        """An object that is there, in place of one of its name. Raises BadQuestion."""
        thing = _thing(kind, body)
        self._there[kind][thing.view.key] = thing

    def create(self, kind: Kind[ApiObject], body: Body) -> None:
        """An object that is to come."""
        self._new[kind][_key(kind, body)] = body

    def remove(self, kind: Kind[ApiObject], key: str) -> None:
        self._there[kind].pop(key, None)
        self._new[kind].pop(key, None)

    def of(self, kind: Kind[V]) -> list[V]:
        """Those of a kind that are there."""
        return [cast("V", thing.view) for thing in self._there[kind].values()]

    def get(self, kind: Kind[V], key: str) -> V | None:
        thing = self._there[kind].get(key)
        return None if thing is None else cast("V", thing.view)

    def body(self, kind: Kind[ApiObject], key: str) -> Body:
        """All of an object that is there."""
        return self._there[kind][key].body()

    def is_there(self, kind: Kind[ApiObject], key: str) -> bool:
        return key in self._there[kind]

    def is_new(self, kind: Kind[ApiObject], key: str) -> bool:
        return key in self._new[kind]

    def new(self, kind: Kind[ApiObject]) -> Mapping[str, Body]:
        """Those of a kind that are to come, by their keys."""
        return self._new[kind]

    def stored(self) -> Iterator[tuple[str, bytes]]:
        """What is there, as a store keeps it, in the order of keys: a sorted store takes that quickest."""
        rows = [
            (kind.store_key(thing.view.namespace, thing.view.name), thing.stored)
            for kind, things in self._there.items()
            for thing in things.values()
        ]
        rows.sort()
        return iter(rows)

    def coming(self) -> Iterator[tuple[Kind[ApiObject], str, Body]]:
        """What is to come, in the order to make it."""
        for kind in KINDS:
            for key, body in self._new[kind].items():
                yield kind, key, body

    def __len__(self) -> int:
        return sum(map(len, self._there.values()))

    def _known(self, document: object) -> Iterator[tuple[Kind[ApiObject], Body]]:
        try:
            found = [*single(document)]
        except MalformedObject as error:
            raise BadQuestion(str(error)) from error
        for name, version, each in found:
            kind = BY_KIND.get((version, name))
            if kind is LEASE:
                self.leases += _lease(each)
                continue
            if kind is None or kind not in self._there:
                self.skipped[name if kind is not None else f"{name} ({version})"] += 1
                continue
            metadata = each.get("metadata")
            if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
                raise BadQuestion(f"{name} without a name")
            yield kind, cast("Body", each)


def _lease(document: Mapping[object, object]) -> list[Lease]:
    """None where it makes no sense: nothing depends on it but what it would have told."""
    try:
        return [LEASE.decode(msgspec.json.encode(document))]
    except (msgspec.ValidationError, TypeError):
        return []


def _key(kind: Kind[ApiObject], body: Body) -> str:
    metadata = body["metadata"]
    return (
        f"{metadata.get('namespace') or DEFAULT_NAMESPACE}/{metadata['name']}" if kind.namespaced else metadata["name"]
    )


def _completed(kind: Kind[ApiObject], body: Body) -> Body:
    """What people wrote, as the API server would have it."""
    try:
        whole, _ = read_body(kind, body, _STRICT)
        fill_defaults(kind, whole)
        require_valid(kind, whole)
    except ApiError as error:
        raise BadQuestion(f"{kind.kind} {body['metadata']['name']}: {error.message}") from error
    return whole


def _thing(kind: Kind[ApiObject], body: Body) -> Thing:
    metadata = {field: value for field, value in body["metadata"].items() if field != "managedFields"}
    if kind.namespaced:
        metadata["namespace"] = metadata.get("namespace") or DEFAULT_NAMESPACE
    if not metadata.get("uid"):
        metadata["uid"] = str(uuid.uuid5(_UIDS, f"{kind.plural} {_key(kind, body)}"))
    whole = body | {"metadata": metadata}
    try:
        if kind in _COMPARED:
            whole, _ = read_body(kind, whole, _LENIENT)
        kind.decode(stored_form(kind, whole))
        _fill_gaps(kind, whole)
    except (msgspec.ValidationError, TypeError, QuantityError, ApiError) as error:
        raise BadQuestion(f"{kind.kind} {metadata['name']}: {error}") from error
    stored = stored_form(kind, whole)
    return Thing(kind.decode(stored), stored)


def _fill_gaps(kind: Kind[ApiObject], body: Body) -> None:
    """What people cut from what they saved, and the server relies on."""
    if kind.has_status:
        body.setdefault("spec", {})
        body["status"] = dict(body.get("status") or {})
    fill_defaults(kind, body)
    if kind is POD:
        status = body["status"]
        status.setdefault("qosClass", qos_class(body))
        if status.get("conditions"):
            status["conditions"] = [each for each in status["conditions"] if each.get("type")]
