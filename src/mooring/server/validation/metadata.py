"""Rules for metadata, the same for every kind except for what a name may look like."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from mooring.api.errors import Cause
from mooring.api.field_errors import bad_value, forbidden, required, too_long
from mooring.api.keys import FOREGROUND_DELETION, NAMESPACE_CONTENTS, ORPHAN_DEPENDENTS
from mooring.api.kinds import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    DISRUPTION_BUDGET,
    EVENT,
    NAMESPACE,
    ROLE,
    ROLE_BINDING,
    SERVICE,
    STATEFUL_SET,
    Kind,
)
from mooring.api.object_names import (
    check_dns1123_label,
    check_dns1123_subdomain,
    check_label_value,
    check_path_segment,
    check_qualified_name,
)
from mooring.server.body import Body, finalizers, is_deleting, meta

#: All keys and values of an object's annotations together; upstream's figure.
MAX_ANNOTATIONS: Final = 256 * 1024

_NAME_CHECKS: Final[Mapping[Kind[Any], Callable[[str], list[str]]]] = {
    NAMESPACE: check_dns1123_label,
    SERVICE: check_dns1123_label,
    STATEFUL_SET: check_dns1123_label,
    # Upstream checks no more of these than that they fit a URL.
    **dict.fromkeys((EVENT, DISRUPTION_BUDGET), check_path_segment),
    **dict.fromkeys((ROLE, CLUSTER_ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING), check_path_segment),
}
#: Finalizers that need no domain before their name.
_STANDARD_FINALIZERS: Final = frozenset({FOREGROUND_DELETION, ORPHAN_DEPENDENTS, NAMESPACE_CONTENTS})
_IMMUTABLE: Final = ("name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds")
_OWNER_FIELDS: Final = {"apiVersion": "version", "kind": "kind", "name": "name", "uid": "uid"}


def validate_metadata(kind: Kind[Any], obj: Body) -> Iterator[Cause]:
    metadata = meta(obj)
    yield from _names(_NAME_CHECKS.get(kind, check_dns1123_subdomain), metadata)
    yield from validate_labels(metadata.get("labels", {}), "metadata.labels")
    yield from validate_annotations(metadata.get("annotations", {}), "metadata.annotations")
    yield from _finalizers(finalizers(obj), "metadata.finalizers")
    yield from _owners(metadata.get("ownerReferences", []))


def validate_metadata_update(kind: Kind[Any], new: Body, old: Body) -> Iterator[Cause]:
    now, was = meta(new), meta(old)
    if is_deleting(old) and (added := _added(finalizers(new), frozenset(finalizers(old)))):
        listed = ", ".join(f'"{finalizer}"' for finalizer in added)
        why = (
            f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{listed}}}"
        )
        yield forbidden("metadata.finalizers", why)
    for field in _IMMUTABLE:
        if now.get(field) != was.get(field):
            yield bad_value(f"metadata.{field}", now.get(field, ""), "field is immutable")
    yield from validate_metadata(kind, new)


def _added(now: list[str], known: frozenset[str]) -> list[str]:
    return [finalizer for finalizer in now if finalizer not in known]


def validate_labels(labels: Mapping[str, str], path: str) -> Iterator[Cause]:
    for key, value in labels.items():
        for why in check_qualified_name(key):
            yield bad_value(path, key, why)
        for why in check_label_value(value):
            yield bad_value(path, value, why)


def validate_annotations(annotations: Mapping[str, str], path: str) -> Iterator[Cause]:
    size = 0
    for key, value in annotations.items():
        size += len(key.encode()) + len(value.encode())
        for why in check_qualified_name(key.lower()):
            yield bad_value(path, key, why)
    if size > MAX_ANNOTATIONS:
        yield too_long(path, MAX_ANNOTATIONS)


def _names(check: Callable[[str], list[str]], metadata: Body) -> Iterator[Cause]:
    if prefix := metadata.get("generateName"):
        # What follows the prefix makes a dash at its end harmless.
        for why in check(prefix[:-1] + "a" if prefix.endswith("-") else prefix):
            yield bad_value("metadata.generateName", prefix, why)
    name = metadata.get("name")
    if not name:
        yield required("metadata.name", "name or generateName is required")
        return
    for why in check(name):
        yield bad_value("metadata.name", name, why)


def validate_finalizers(names: list[str], path: str) -> Iterator[Cause]:
    for name in names:
        for why in check_qualified_name(name):
            yield bad_value(path, name, why)
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            yield bad_value(path, name, "name is neither a standard finalizer name nor is it fully qualified")


def _finalizers(names: list[str], path: str) -> Iterator[Cause]:
    yield from validate_finalizers(names, path)
    if {FOREGROUND_DELETION, ORPHAN_DEPENDENTS} <= set(names):
        why = f"finalizer {ORPHAN_DEPENDENTS} and {FOREGROUND_DELETION} cannot be both set"
        yield bad_value(path, ", ".join(names), why)


def _owners(owners: list[Body]) -> Iterator[Cause]:
    controllers = []
    for index, owner in enumerate(owners):
        for field, called in _OWNER_FIELDS.items():
            if not owner.get(field):
                yield bad_value(f"metadata.ownerReferences[{index}].{field}", "", f"{called} must not be empty")
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind', '')}/{owner.get('name', '')}")
    if len(controllers) > 1:
        why = (
            "Only one reference can have Controller set to true. "
            f'Found "true" in references for {controllers[0]} and {controllers[1]}'
        )
        yield bad_value("metadata.ownerReferences", ", ".join(controllers), why)
