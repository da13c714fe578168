"""Who owns which parts of an object, and what an apply or an update does to that.

The rules are those of Kubernetes' structured merge: applying states everything a manager wants, so what it stops
stating goes unless somebody else owns it, and changing what another owns is a conflict unless forced; updating states
only what changed, and takes it. Owners are kept in `metadata.managedFields`, and only for objects that somebody has
applied: an object nobody applied has no entries, which saves a third of its bytes, and what it held until then belongs
to the manager `before-first-apply`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from mooring.api.fields.table import Type
from mooring.api.ownership.merge import merged, without
from mooring.api.ownership.paths import (
    MAX_PATHS,
    MalformedPaths,
    Path,
    Paths,
    from_fields_v1,
    shown,
    to_fields_v1,
    with_ancestors,
)
from mooring.api.ownership.values import changed, stated_values, stored_values

APPLY: Final = "Apply"
UPDATE: Final = "Update"
#: Owner of what was there before anybody applied.
BEFORE_FIRST_APPLY: Final = "before-first-apply"

#: What identifies an object or is the server's to write; nobody owns it.
_UNOWNED: Final = frozenset(
    {
        ("f:apiVersion",),
        ("f:kind",),
        ("f:metadata",),
        *(
            ("f:metadata", f"f:{name}")
            for name in (
                "creationTimestamp",
                "deletionGracePeriodSeconds",
                "deletionTimestamp",
                "generation",
                "managedFields",
                "name",
                "namespace",
                "resourceVersion",
                "selfLink",
                "uid",
            )
        ),
    }
)


class Manager(msgspec.Struct, frozen=True):
    """One who writes: an applier, or an updater through one endpoint."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""


class Owner(msgspec.Struct, frozen=True):
    """A manager, what it owns, and when that last changed."""

    manager: Manager
    paths: Paths
    time: str


Owners = Mapping[Manager, Owner]


class Conflict(msgspec.Struct, frozen=True):
    """A part that the applied object changes and somebody else owns."""

    manager: Manager
    path: Path

    @property
    def field(self) -> str:
        return shown(self.path)

    @property
    def owner(self) -> str:
        """As conflicts name it: `"kubectl" with subresource "scale" using apps/v1`."""
        where = f" with subresource {_quoted(self.manager.subresource)}" if self.manager.subresource else ""
        how = f" using {self.manager.api_version}" if self.manager.operation == UPDATE else ""
        return f"{_quoted(self.manager.name)}{where}{how}"


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


class Outcome(msgspec.Struct, frozen=True):
    """What becomes of the object and of its owners; with conflicts, neither is to be used."""

    obj: dict[str, Any]
    owners: Owners
    conflicts: tuple[Conflict, ...] = ()


def apply(
    live: dict[str, Any],
    applied: dict[str, Any],
    type_: Type,
    owners: Owners,
    manager: Manager,
    *,
    force: bool,
    now: str,
    ignored: Sequence[Path] = (),
) -> Outcome:
    """`live` after `manager` applied `applied`; `ignored` is what the endpoint has no say in.

    Raises UnkeyedItem and DuplicateItem.
    """
    reaching = without(applied, frozenset(ignored), type_)
    wanted = _owned(stated_values(reaching, type_))
    if not owners and (before := _owned(stored_values(live, type_))):
        first = Manager(BEFORE_FIRST_APPLY, UPDATE, manager.api_version)
        owners = {first: Owner(first, before, now)}
    last = owners[manager].paths if manager in owners else frozenset()
    others = {other: owner for other, owner in owners.items() if other != manager}
    kept = with_ancestors(wanted.union(*(owner.paths for owner in others.values())))
    result = without(merged(live, reaching, type_), last - kept, type_)
    assert isinstance(result, dict)
    written, gone = changed(stored_values(live, type_), stored_values(result, type_))
    conflicts = () if force else tuple(_conflicts(others, written))
    remaining = _shrunk(others, written, gone, now)
    is_same = manager in owners and last == wanted
    remaining[manager] = owners[manager] if is_same else Owner(manager, wanted, now)
    return Outcome(result, {owner: held for owner, held in remaining.items() if held.paths}, conflicts)


def update(
    before: dict[str, Any],
    after: dict[str, Any],
    type_: Type,
    owners: Owners,
    manager: Manager,
    *,
    now: str,
) -> Owners:
    """The owners after `manager` turned `before` into `after`, whoever owned what it changed."""
    written, gone = changed(stored_values(before, type_), stored_values(after, type_))
    written = _owned(written)
    others = {other: owner for other, owner in owners.items() if other != manager}
    remaining = _shrunk(others, written, gone, now)
    had = owners[manager].paths if manager in owners else frozenset()
    holds = (had | written) - gone
    if holds == had and manager in owners:
        remaining[manager] = owners[manager]
    elif holds:
        remaining[manager] = Owner(manager, holds, now)
    return remaining


def _conflicts(others: Owners, written: Paths) -> Iterable[Conflict]:
    for manager in sorted(others, key=lambda other: (other.name, other.operation, other.subresource)):
        yield from (Conflict(manager, path) for path in sorted(others[manager].paths & written))


def _shrunk(others: Owners, written: Paths, gone: Paths, now: str) -> dict[Manager, Owner]:
    lost = written | gone
    remaining: dict[Manager, Owner] = {}
    for manager, owner in others.items():
        paths = owner.paths - lost
        if paths:
            remaining[manager] = owner if paths == owner.paths else Owner(manager, paths, now)
    return remaining


def _owned(paths: Iterable[Path]) -> Paths:
    return frozenset(paths) - _UNOWNED


def claimed_owners(entries: object) -> Owners:
    """The owners that a client names, which may not be more than MAX_PATHS say. Raises MalformedPaths."""
    owners = owners_in(entries)
    if sum(len(owner.paths) for owner in owners.values()) > MAX_PATHS:
        raise MalformedPaths(f"managedFields name more than {MAX_PATHS} fields")
    return owners


def owners_in(entries: object) -> Owners:
    """The owners as `metadata.managedFields` holds them. Raises MalformedPaths."""
    owners: dict[Manager, Owner] = {}
    for entry in entries if isinstance(entries, list) else ():
        if not entry:
            continue  # `[{}]` is how clients say "forget them all"
        manager = Manager(
            entry.get("manager", ""),
            entry.get("operation", ""),
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
        )
        if manager.operation not in (APPLY, UPDATE) or entry.get("fieldsType", "FieldsV1") != "FieldsV1":
            raise MalformedPaths("managedFields must have operation Apply or Update and fieldsType FieldsV1")
        owners[manager] = Owner(manager, from_fields_v1(entry.get("fieldsV1", {})), entry.get("time", ""))
    return owners


def entries_of(owners: Owners) -> list[dict[str, Any]]:
    """As `metadata.managedFields` lists them: appliers first, the oldest first."""
    return [
        _entry(owner)
        for owner in sorted(
            owners.values(),
            key=lambda owner: (owner.manager.operation, owner.time, owner.manager.name, owner.manager.subresource),
        )
    ]


def _entry(owner: Owner) -> dict[str, Any]:
    manager = owner.manager
    entry = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": manager.api_version,
        "time": owner.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": to_fields_v1(owner.paths),
    }
    return entry | ({"subresource": manager.subresource} if manager.subresource else {})
