"""Rules for namespaces: who may hold them, and that their phase says whether they go."""

from collections.abc import Iterator

from mooring.api.errors import Cause
from mooring.api.field_errors import bad_value
from mooring.server.body import Body, is_deleting, part
from mooring.server.deletion import TERMINATING
from mooring.server.validation.metadata import validate_finalizers


def validate_namespace(obj: Body) -> Iterator[Cause]:
    yield from validate_finalizers(part(obj, "spec").get("finalizers", []), "spec.finalizers")


def validate_namespace_update(new: Body, old: Body) -> Iterator[Cause]:
    yield from validate_namespace(new)


def validate_namespace_report(new: Body, old: Body) -> Iterator[Cause]:
    """For both subresources: each leaves what is the other's as it was."""
    yield from validate_namespace(new)
    phase = part(new, "status").get("phase", "")
    if is_deleting(new) and phase != TERMINATING:
        yield bad_value("status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")
    if not is_deleting(new) and phase != "Active":
        yield bad_value("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")
