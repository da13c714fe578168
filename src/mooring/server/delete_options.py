"""`meta/v1.DeleteOptions` as it comes over the wire, read into what the verbs take.

It arrives as the body of a DELETE, as its query, or inside an Eviction; the checks are the same. What the options do
to an object is `deletion`'s question.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from mooring.api.errors import BadRequest, Cause, invalid
from mooring.api.field_errors import bad_value, unsupported
from mooring.server.contract import DeleteOptions

PROPAGATIONS: Final = ("Foreground", "Background", "Orphan")


class Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class AskedDeletion(msgspec.Struct, frozen=True, rename="camel"):
    kind: str = "DeleteOptions"
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: Preconditions | None = None
    dry_run: tuple[str, ...] | None = None


def from_body(body: Mapping[str, Any]) -> AskedDeletion:
    """Raises BadRequest where the body is something else."""
    try:
        asked = msgspec.convert(body, AskedDeletion)
    except msgspec.ValidationError as error:
        raise BadRequest(f"the body of a DELETE request must be DeleteOptions: {error}") from error
    if asked.kind not in ("", "DeleteOptions"):
        raise BadRequest(f'the body of a DELETE request must be DeleteOptions, not "{asked.kind}"')
    return asked


def checked(asked: AskedDeletion) -> DeleteOptions:
    """Raises Invalid where a value is impossible."""
    causes = dry_run_causes(asked.dry_run or ())
    policy, orphan = asked.propagation_policy, asked.orphan_dependents
    if policy is not None and orphan is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(bad_value("propagationPolicy", policy, why))
    if policy is not None and policy not in PROPAGATIONS:
        causes.append(unsupported("propagationPolicy", policy, (*PROPAGATIONS, "nil")))
    if causes:
        raise invalid("DeleteOptions", "", causes, group="meta.k8s.io")
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    must = asked.preconditions or Preconditions()
    return DeleteOptions(
        grace_seconds=asked.grace_period_seconds,
        propagation=policy or "",
        uid=must.uid or "",
        resource_version=must.resource_version or "",
        dry_run=bool(asked.dry_run),
    )


def dry_run_causes(values: Sequence[str]) -> list[Cause]:
    """`dryRun` knows one value, here and in the options of every other write."""
    return [] if set(values) <= {"All"} else [unsupported("dryRun", list(values), ["All"])]
