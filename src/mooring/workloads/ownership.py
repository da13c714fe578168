"""Whose is it? Which objects a controller has, which orphans it takes in, and which it lets go.

Pure; the rules are upstream's. A controller owns by reference, never by labels alone: what somebody else controls is
not touched. An orphan that the selector chooses is taken in, one of its own that the selector no longer chooses is let
go. An owner that is being deleted does neither.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from mooring.api import label_selector
from mooring.api.kinds import Kind
from mooring.api.label_selector import LabelSelector
from mooring.api.patches.contract import StrategicPatch
from mooring.api.views.meta import ApiObject, LabelSelectorView

V = TypeVar("V", bound=ApiObject)


class Ownership(NamedTuple, Generic[V]):
    mine: list[V]
    adopt: list[V]
    release: list[V]


def compiled(selector: LabelSelectorView | None) -> LabelSelector | None:
    """None selects nothing, and neither does an empty selector: the server refuses it for owners of pods."""
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return None
    return label_selector.from_view(selector.match_labels, selector.match_expressions)


def sorted_out(
    owner: ApiObject,
    selector: LabelSelector | None,
    candidates: Iterable[V],
    *,
    named: Callable[[V], bool] = lambda _: True,
) -> Ownership[V]:
    """`named` says whether an object's name could be one of the owner's at all."""
    found: Ownership[V] = Ownership([], [], [])
    for item in candidates:
        controller = item.controller
        fits = selector is not None and selector.matches(item.metadata.labels) and named(item)
        if controller is None:
            if fits and not owner.deleting and not item.deleting:
                found.adopt.append(item)
        elif controller.uid == owner.uid:
            (found.mine if fits or owner.deleting else found.release).append(item)
    return found


def reference(kind: Kind[ApiObject], owner: ApiObject, *, controller: bool = True) -> dict[str, Any]:
    """The owner reference that an object made for `owner` carries."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": controller,
        "blockOwnerDeletion": True,
    }


def adoption(kind: Kind[ApiObject], owner: ApiObject, item: ApiObject) -> StrategicPatch:
    meta = {
        "uid": item.uid,
        "resourceVersion": item.metadata.resource_version,
        "ownerReferences": [reference(kind, owner)],
    }
    return StrategicPatch({"metadata": meta})


def release(owner: ApiObject, item: ApiObject) -> StrategicPatch:
    gone = {"$patch": "delete", "uid": owner.uid}
    return StrategicPatch({"metadata": {"uid": item.uid, "ownerReferences": [gone]}})
