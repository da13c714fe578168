"""The type of a kind's rules: what the API server does for one kind besides storing its objects.

Rules see one object, and on updates the stored one, never others: a default that depends on other objects is
admission.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from mooring.api.documents import Body
from mooring.api.errors import Cause
from mooring.api.names import check_dns1123_subdomain
from mooring.server.encoding import meta, restore_field
from mooring.server.kinds.columns import NAME_AND_AGE, Printer
from mooring.server.selection import METADATA_FIELDS, SelectableFields


def _change_nothing(*_: object) -> None:
    pass


def _find_nothing(*_: object) -> Iterator[Cause]:
    yield from ()


def spec_changed(new: Body, old: Body) -> bool:
    """PodTemplates have `template` instead of `spec`."""
    return any(new.get(field) != old.get(field) for field in ("spec", "template"))


#: What `/status` cannot change of kinds whose status is written by one controller.
_STATUS_METADATA: Final = ("labels", "annotations", "finalizers", "ownerReferences")


def restore_metadata(new: Body, old: Body, subresource: str) -> None:
    """For `restore`: `/status` changes the status alone; of most kinds it changes labels and annotations too."""
    if subresource == "status":
        for field in _STATUS_METADATA:
            restore_field(field, meta(new), meta(old))


@dataclass(frozen=True)
class KindRules:
    """The default of every field is what holds for a kind without rules. Validators yield all causes, in the text and
    at the path of kube-apiserver; they read objects after defaulting and admission and change nothing."""

    #: Completes an object in place on every write, before admission; never overrules or rejects a value.
    defaults: Callable[[Body], None] = _change_nothing
    check_name: Callable[[str], list[str]] = check_dns1123_subdomain
    create: Callable[[Body], Iterator[Cause]] = _find_nothing
    #: For the new and the stored object; None if an update has to be valid as a new object and keep `immutable`.
    update: Callable[[Body, Body], Iterator[Cause]] | None = None
    #: Paths such as `spec.selector`.
    immutable: tuple[str, ...] = ()
    #: The same where kube-apiserver does not show the value.
    fixed: tuple[str, ...] = ()
    #: The same through a subresource, which cannot change the spec.
    update_status: Callable[[Body, Body], Iterator[Cause]] = _find_nothing
    #: The status of a new object, from the object and the time; only for kinds with `has_status`.
    initial_status: Callable[[Body, str], Body] = lambda obj, now: {}
    #: Restores in the new object what the written endpoint ("" is the main one) cannot change, besides status or spec.
    restore: Callable[[Body, Body, str], None] = _change_nothing
    #: Whether an update increases the generation; None for kinds where `has_generation` and a new spec decide it.
    new_generation: Callable[[Body, Body], bool] | None = None
    #: Sets fields of the new object that follow from the stored one (None for a create) and the time.
    set_derived: Callable[[Body, Body | None, str], None] = _change_nothing
    #: Whether a deletion responds with the deleted object; else with a Status.
    deletion_returns_object: bool = False
    printer: Printer = NAME_AND_AGE
    selectable: SelectableFields = METADATA_FIELDS
