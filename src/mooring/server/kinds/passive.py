"""Kinds that other components list and write, and no component of Mooring acts on: LimitRange, ResourceQuota, device
claims, trust bundles and certificate requests of pods, storage migrations.

Their content is checked by its schema only: a controller that writes one is Kubernetes' own.
"""

from collections.abc import Mapping
from typing import Any, Final

from mooring.api import kinds
from mooring.api.documents import Body
from mooring.api.kinds import Kind
from mooring.server.encoding import part
from mooring.server.kinds import columns
from mooring.server.kinds.columns import (
    AGE,
    NAME,
    NAME_AND_DATE,
    NONE,
    Column,
    Json,
    labels,
    object_at,
    table,
    text,
    text_at,
)
from mooring.server.kinds.field_checks import immutable_fields
from mooring.server.kinds.rules import KindRules, restore_metadata
from mooring.server.selection import selectable


def _quota(*, limits: bool) -> columns.CellReader:
    def read(quota: Json) -> str:
        hard, used = object_at(quota, "status", "hard"), object_at(quota, "status", "used")
        names = [name for name in sorted(hard) if name.startswith("limits.") is limits]
        return ", ".join(
            f"{name}: {columns.amount_at(used, name) or 0}/{columns.amount_at(hard, name)}" for name in names
        )

    return read


def _claim_state(claim: Json) -> str:
    deleted = ["deleted"] if columns.is_deleting(claim) else []
    if not object_at(claim, "status", "allocation"):
        return ",".join(deleted or ["pending"])
    reserved = ["reserved"] if columns.objects_at(claim, "status", "reservedFor") else []
    return ",".join([*deleted, "allocated", *reserved])


def _request_state(request: Json) -> str:
    types = [text_at(condition, "type") for condition in columns.objects_at(request, "status", "conditions")]
    return next((type_ for type_ in reversed(types) if type_ in ("Issued", "Denied", "Failed")), "Pending")


def _migration_state(migration: Json) -> str:
    conditions = columns.objects_at(migration, "status", "conditions")
    types = [text_at(condition, "type") for condition in conditions if text_at(condition, "status") == "True"]
    return next((type_ for type_ in reversed(types) if type_ in ("Running", "Failed", "Succeeded")), "Unknown")


def _migrated(migration: Json) -> str:
    resource = object_at(migration, "spec", "resource")
    return ".".join(filter(None, (text_at(resource, "resource"), text_at(resource, "group"))))


_RESOURCE_QUOTAS: Final = table(
    NAME,
    Column("Request", "Used and allowed requests.", _quota(limits=False)),
    Column("Limit", "Used and allowed limits.", _quota(limits=True)),
    AGE,
)
_RESOURCE_CLAIMS: Final = table(NAME, Column("State", "Whether devices are allocated and reserved.", _claim_state), AGE)
_RESOURCE_SLICES: Final = table(
    NAME,
    Column("Node", "Node of the devices.", text("spec", "nodeName")),
    Column("Driver", "Driver of the devices.", text("spec", "driver")),
    Column("Pool", "Pool of the devices.", text("spec", "pool", "name")),
    AGE,
)
_TAINT_RULES: Final = columns.Printer(
    (
        NAME,
        Column("Key", "Key of the taint.", text("spec", "taint", "key")),
        Column("Value", "Value of the taint.", text("spec", "taint", "value")),
        Column("Effect", "Effect of the taint.", text("spec", "taint", "effect")),
        Column("TimeAdded", "Time since the effect was added.", text("timeAdded")),
        AGE,
    ),
    derive=lambda rule, now: {"timeAdded": columns.since(text_at(rule, "spec", "taint", "timeAdded"), now)},
)
_TRUST_BUNDLES: Final = table(
    NAME, Column("SignerName", "Signer of the anchors.", text("spec", "signerName", empty=NONE))
)
_CERTIFICATE_REQUESTS: Final = table(
    NAME,
    Column("PodName", "Pod of the certificate.", text("spec", "podName")),
    Column("ServiceAccountName", "ServiceAccount of the pod.", text("spec", "serviceAccountName")),
    Column("NodeName", "Node of the pod.", text("spec", "nodeName")),
    Column("SignerName", "Signer that is asked.", text("spec", "signerName")),
    Column("State", "Whether the certificate is issued.", _request_state),
    Column("UnverifiedUserAnnotations", "What the pod tells the signer.", labels("spec", "unverifiedUserAnnotations")),
)
_MIGRATIONS: Final = table(
    Column("Name", "Name of the object.", text("metadata", "name")),
    Column("Resource", "Resource whose objects are rewritten.", _migrated),
    Column("Status", "Progress of the migration.", _migration_state),
)


def _set_time_added(new: Body, old: Body | None, now: str) -> None:
    """The time since when the effect of a device taint holds."""
    taint = part(new, "spec", "taint")
    was = part(old, "spec", "taint") if old is not None else {}
    same_time = taint.get("timeAdded") == was.get("timeAdded")
    if "timeAdded" not in taint or (old is not None and same_time and taint.get("effect") != was.get("effect")):
        taint["timeAdded"] = now


def _default_request(obj: Body) -> None:
    obj.setdefault("spec", {}).setdefault("maxExpirationSeconds", _CERTIFICATE_SECONDS)


#: Lifetime of a pod's certificate.
_CERTIFICATE_SECONDS: Final = 86400

RULES: Final[Mapping[Kind[Any], KindRules]] = {
    kinds.LIMIT_RANGE: KindRules(printer=NAME_AND_DATE),
    kinds.RESOURCE_QUOTA: KindRules(printer=_RESOURCE_QUOTAS, deletion_returns_object=True),
    kinds.RESOURCE_SLICE: KindRules(printer=_RESOURCE_SLICES, deletion_returns_object=True),
    kinds.RESOURCE_CLAIM: KindRules(printer=_RESOURCE_CLAIMS, deletion_returns_object=True),
    kinds.RESOURCE_CLAIM_TEMPLATE: KindRules(deletion_returns_object=True),
    kinds.DEVICE_CLASS: KindRules(deletion_returns_object=True),
    kinds.DEVICE_TAINT_RULE: KindRules(restore=restore_metadata, set_derived=_set_time_added, printer=_TAINT_RULES),
    kinds.TRUST_BUNDLE: KindRules(
        immutable=("spec.signerName",),
        printer=_TRUST_BUNDLES,
        selectable=selectable({"spec.signerName": str}, namespaced=False),
    ),
    kinds.POD_CERTIFICATE_REQUEST: KindRules(
        defaults=_default_request,
        update=lambda new, old: immutable_fields(new, old, "spec"),
        restore=restore_metadata,
        printer=_CERTIFICATE_REQUESTS,
        selectable=selectable({"spec.signerName": str, "spec.podName": str, "spec.nodeName": str}),
    ),
    kinds.STORAGE_VERSION_MIGRATION: KindRules(
        update=lambda new, old: immutable_fields(new, old, "spec"), restore=restore_metadata, printer=_MIGRATIONS
    ),
}
