"""Shared by all builders: metadata as a plain dict, and typed views of bodies."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import msgspec

from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject

Body = dict[str, Any]

P = ParamSpec("P")
V = TypeVar("V", bound=ApiObject)

#: Any time, for objects where only the presence of a deletionTimestamp matters.
DELETED_AT = "2026-01-02T03:04:05Z"


def metadata(
    *,
    name: str,
    namespace: str = "",
    uid: str = "",
    version: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owners: Sequence[Body] = (),
    finalizers: Sequence[str] = (),
    deleting: bool = False,
) -> Body:
    """`metadata` with exactly the given fields, so that a body can also be sent as a create."""
    fields: Body = {
        "name": name,
        "namespace": namespace,
        "uid": uid,
        "resourceVersion": version,
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
        "ownerReferences": list(owners),
        "finalizers": list(finalizers),
        "deletionTimestamp": DELETED_AT if deleting else "",
    }
    return {field: value for field, value in fields.items() if value}


def owned_by(body: Body, *, uid: str, controller: bool = True) -> Body:
    """An owner reference to the object with this body."""
    return {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "name": body["metadata"]["name"],
        "uid": uid,
        "controller": controller,
    }


def viewed(kind: Kind[V], body: Callable[P, Body]) -> Callable[P, V]:
    """The builder of views with the arguments of `body`.

    A view is what a watch delivers, so it has a uid (`<name>-uid`) and a resourceVersion ("1") unless given.
    """

    def build(*args: P.args, **given: P.kwargs) -> V:
        made = body(*args, **given)
        observed = {"uid": f"{made['metadata']['name']}-uid", "resourceVersion": "1"}
        return kind.decode(msgspec.json.encode(made | {"metadata": observed | made["metadata"]}))

    return build
