"""The objects a simulation starts with: existing ones as listed, and new ones.

Objects with a creationTimestamp are kept as listed, without managedFields. Written ones are defaulted and validated
as the API server does. Nodes, classes and volumes then exist; claims, pods and workloads without uid and status are
created through the API, and change an existing object with the same name.
"""

import copy
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeVar, cast

import msgspec

from mooring.api import kinds
from mooring.api.documents import Body
from mooring.api.errors import ApiError
from mooring.api.kinds import BY_KIND, Kind
from mooring.api.quantity import QuantityError
from mooring.api.views.core import Lease
from mooring.api.views.meta import ApiObject
from mooring.api.well_known import DEFAULT_NAMESPACE
from mooring.explain.cluster_objects import MalformedObject, each_object
from mooring.server.contract import WriteOptions
from mooring.server.decoding import read_body
from mooring.server.encoding import stored_form
from mooring.server.kinds.pods import qos_class
from mooring.server.kinds.registry import require_valid, rules_of

V = TypeVar("V", bound=ApiObject)

_CLUSTER: Final = (kinds.NAMESPACE, kinds.NODE, kinds.PRIORITY_CLASS)
_STORAGE: Final = (kinds.STORAGE_CLASS, kinds.CSI_DRIVER, kinds.CSI_NODE, kinds.STORAGE_CAPACITY, kinds.VOLUME)
_BESIDE: Final = (kinds.SERVICE, kinds.DISRUPTION_BUDGET, kinds.REPLICATION_CONTROLLER)
#: Kinds whose template makes pods.
TEMPLATED: Final = (kinds.DEPLOYMENT, kinds.REPLICA_SET, kinds.STATEFUL_SET, kinds.DAEMON_SET)
#: What the simulated control plane looks at, in the order in which new objects are made: owners before owned.
KINDS: Final[tuple[Kind[ApiObject], ...]] = (
    *_CLUSTER,
    *_STORAGE,
    kinds.CLAIM,
    kinds.VOLUME_ATTACHMENT,
    *_BESIDE,
    *TEMPLATED,
    kinds.POD_GROUP,
    kinds.POD,
)
#: Kinds that controllers act on: written objects of these kinds are created through the API.
ACTED_ON: Final[frozenset[Kind[ApiObject]]] = frozenset({kinds.CLAIM, *_BESIDE, *TEMPLATED, kinds.POD_GROUP, kinds.POD})

#: Uids of objects that have none follow from their names, so that the same files give the same world.
_UIDS: Final = uuid.UUID("6d6f6f72-696e-4720-8068-776861746966")

_STRICT: Final = WriteOptions(field_validation="Strict")
_LENIENT: Final = WriteOptions(field_validation="Ignore")

#: Kinds with fields that must not change, or pod templates: two spellings of the same must not look like a change.
_COMPARED: Final[frozenset[Kind[ApiObject]]] = frozenset({kinds.CLAIM, *TEMPLATED})


class BadQuestion(ValueError):
    """The objects or the changes requested make no sense; the text says which and why, in one sentence."""


class InventoryObject(NamedTuple):
    """One object that is there: how it reads, and the bytes the server will keep."""

    view: ApiObject
    stored: bytes


class Inventory:
    """Everything by kind and key. Where an object comes twice, the last one counts."""

    def __init__(self) -> None:
        self._there: dict[Kind[ApiObject], dict[str, InventoryObject]] = {kind: {} for kind in KINDS}
        self._new: dict[Kind[ApiObject], dict[str, Body]] = {kind: {} for kind in KINDS}
        #: Leases are not simulated; they show which components and gates the cluster has.
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

    def copied(self) -> "Inventory":
        """The same objects, to be used up without changing these."""
        copied = Inventory()
        copied._there = {kind: dict(items) for kind, items in self._there.items()}
        copied._new = {kind: copy.deepcopy(items) for kind, items in self._new.items()}
        copied.leases = [*self.leases]
        copied.skipped = self.skipped
        return copied

    def keep(self, kind: Kind[ApiObject], body: Body) -> None:
        """An object that is there, in place of one of its name. Raises BadQuestion."""
        item = _inventory_object(kind, body)
        self._there[kind][item.view.key] = item

    def create(self, kind: Kind[ApiObject], body: Body) -> None:
        """An object that is to come."""
        self._new[kind][_key(kind, body)] = body

    def remove(self, kind: Kind[ApiObject], key: str) -> None:
        self._there[kind].pop(key, None)
        self._new[kind].pop(key, None)

    def of(self, kind: Kind[V]) -> list[V]:
        """Those of a kind that are there."""
        return [cast("V", item.view) for item in self._there[kind].values()]

    def get(self, kind: Kind[V], key: str) -> V | None:
        item = self._there[kind].get(key)
        return None if item is None else cast("V", item.view)

    def only(self, kind: Kind[ApiObject]) -> InventoryObject:
        """The one object of a kind."""
        (item,) = self._there[kind].values()
        return item

    def body(self, kind: Kind[ApiObject], key: str) -> Body:
        """All of an object that is there, as a dict of the caller's own."""
        decoded: Body = msgspec.json.decode(self._there[kind][key].stored)
        return decoded

    def is_there(self, kind: Kind[ApiObject], key: str) -> bool:
        return key in self._there[kind]

    def is_new(self, kind: Kind[ApiObject], key: str) -> bool:
        return key in self._new[kind]

    def new(self, kind: Kind[ApiObject]) -> Mapping[str, Body]:
        """Those of a kind that are to come, by their keys."""
        return self._new[kind]

    def stored(self) -> list[tuple[str, bytes]]:
        """What is there, as a store keeps it, in the order of keys: a sorted store takes that quickest."""
        return sorted(
            (kind.store_key(item.view.namespace, item.view.name), item.stored)
            for kind, things in self._there.items()
            for item in things.values()
        )

    def coming(self) -> Iterator[tuple[Kind[ApiObject], str, Body]]:
        """What is to come, in the order to make it."""
        for kind in KINDS:
            for key, body in self._new[kind].items():
                yield kind, key, body

    def __len__(self) -> int:
        return sum(map(len, self._there.values()))

    def _known(self, document: object) -> Iterator[tuple[Kind[ApiObject], Body]]:
        try:
            found = [*each_object(document)]
        except MalformedObject as error:
            raise BadQuestion(str(error)) from error
        for name, version, each in found:
            kind = BY_KIND.get((version, name))
            if kind is kinds.POD_GROUP_ALPHA:
                kind, each = kinds.POD_GROUP, {**each, "apiVersion": kinds.POD_GROUP.api_version}
            if kind is kinds.LEASE:
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
        return [kinds.LEASE.decode(msgspec.json.encode(document))]
    except (msgspec.ValidationError, TypeError):
        return []


def _key(kind: Kind[ApiObject], body: Body) -> str:
    metadata = body["metadata"]
    namespace = f"{metadata.get('namespace') or DEFAULT_NAMESPACE}/" if kind.namespaced else ""
    return f"{namespace}{metadata['name']}"


def _completed(kind: Kind[ApiObject], body: Body) -> Body:
    """What people wrote, as the API server would have it."""
    try:
        whole, _ = read_body(kind, body, _STRICT)
        rules_of(kind).defaults(whole)
        require_valid(kind, whole)
    except ApiError as error:
        raise BadQuestion(f"{kind.kind} {body['metadata']['name']}: {error.message}") from error
    return whole


def _inventory_object(kind: Kind[ApiObject], body: Body) -> InventoryObject:
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
    return InventoryObject(kind.decode(stored), stored)


def _fill_gaps(kind: Kind[ApiObject], body: Body) -> None:
    """What people cut from what they saved, and the server relies on."""
    if kind.has_status:
        body.setdefault("spec", {})
        body["status"] = dict(body.get("status") or {})
    rules_of(kind).defaults(body)
    if kind is kinds.POD:
        status = body["status"]
        status.setdefault("qosClass", qos_class(body))
        if status.get("conditions"):
            status["conditions"] = [each for each in status["conditions"] if each.get("type")]
