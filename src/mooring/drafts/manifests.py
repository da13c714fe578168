"""Draft documents to today's objects, one at a time, with everything that was changed or cannot be taken over."""

import copy
from collections.abc import Iterable, Mapping
from typing import Final

from mooring.drafts import capacity
from mooring.drafts.contract import Change, Outcome, Refusal, name_of
from mooring.drafts.repairs import repair

#: What the capacity design weighed and did not choose. Each is refused with the reason.
_REJECTED: Final[Mapping[str, str]] = {
    "CSIStoragePool": (
        "CSIStoragePool never became an API: an object per pool would grow with every storage class. "
        "Write one CSIStorageCapacity per pool and class"
    ),
    "CSIDriver": (
        "CSIDriver has no status: one object per driver would grow with every pool and be written by all nodes. "
        "Write one CSIStorageCapacity per pool and class, and set spec.storageCapacity: true on the CSIDriver"
    ),
}


def modernize(document: object, *, namespace: str) -> Outcome:
    """What a document comes to; capacity objects, which had no namespace, go into the one given."""
    if not isinstance(document, dict):
        return Outcome(refusals=(Refusal("document", "is not an object"),))
    if document.get("kind") == "List" and isinstance(document.get("items"), list):
        return joined(modernize(item, namespace=namespace) for item in document["items"])
    if why := _rejected(document):
        return Outcome(refusals=(Refusal(name_of(document), why),))
    obj = copy.deepcopy(document)
    name, done = name_of(obj), repair(obj)
    changes = tuple(Change(name, change) for change in done)
    if capacity.is_draft(obj):
        return joined((Outcome(changes=changes), capacity.convert(obj, namespace)))
    return Outcome((obj,), changes)


def _rejected(document: dict[object, object]) -> str:
    kind = str(document.get("kind"))
    if kind == "CSIDriver" and not document.get("status"):
        return ""
    return _REJECTED.get(kind, "")


def joined(outcomes: Iterable[Outcome]) -> Outcome:
    """Several outcomes as one, in order."""
    every = tuple(outcomes)
    return Outcome(
        tuple(obj for one in every for obj in one.objects),
        tuple(change for one in every for change in one.changes),
        tuple(refusal for one in every for refusal in one.refusals),
    )
