"""The table of checks, and the examination of a cluster with all of them. Pure.

A check runs only if all kinds it needs were listed: with half of the objects it would report what is not so. Files that
contain no object of a kind count as a cluster without one, except for RBAC and Leases, which dumps often leave out.
"""

from collections.abc import Collection, Iterator
from typing import Final

from mooring.api.kinds import (
    CLAIM,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CSI_DRIVER,
    CSI_NODE,
    EVENT,
    LEASE,
    NODE,
    POD,
    ROLE,
    ROLE_BINDING,
    STORAGE_CAPACITY,
    STORAGE_CLASS,
    VOLUME,
    Kind,
)
from mooring.api.views.meta import ApiObject
from mooring.doctor import capacity, classes, components, volumes
from mooring.doctor.findings import Check, Diagnosis, Finding, Severity, SkippedCheck, diagnosis
from mooring.explain.cluster_objects import EXPLAINED_KINDS, SCHEDULING_KINDS, ClusterObjects
from mooring.explain.cluster_view import ClusterView

RBAC_KINDS: Final[tuple[Kind[ApiObject], ...]] = (CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING)
#: What to list for an examination.
EXAMINED_KINDS: Final[tuple[Kind[ApiObject], ...]] = (*EXPLAINED_KINDS, *RBAC_KINDS)

CHECKS: Final = (
    Check(
        (
            "CapacityStale",
            "CapacityOverstated",
            "CapacitySum",
            "CapacityContradictory",
            "CapacityZero",
            "CapacityForeign",
            "CapacityOfNoNode",
            "CapacityDuplicate",
        ),
        (STORAGE_CAPACITY, STORAGE_CLASS, NODE, CSI_NODE, VOLUME, CLAIM),
        capacity.capacity_findings,
    ),
    Check(
        ("CapacityMissing",),
        (STORAGE_CAPACITY, STORAGE_CLASS, CSI_DRIVER, CSI_NODE, NODE),
        capacity.missing_findings,
    ),
    Check(("ImmediateBinding",), (STORAGE_CLASS, CSI_NODE, VOLUME), classes.immediate_findings),
    Check(("ClassTopologyMissing",), (STORAGE_CLASS, NODE), classes.topology_findings),
    Check(("CapacityNotTracked",), (STORAGE_CLASS, CSI_DRIVER, CSI_NODE, STORAGE_CAPACITY), classes.tracking_findings),
    Check(
        ("ProvisionerAbsent", "DriverNotOnNode"),
        (STORAGE_CLASS, CSI_DRIVER, CSI_NODE, NODE, LEASE),
        classes.registration_findings,
    ),
    Check(("VolumeUnreachable", "ClaimLost"), (NODE, VOLUME, CLAIM, POD), volumes.unreachable_findings),
    Check(("NodeLost",), (NODE, POD), volumes.lost_node_findings),
    Check(("ClaimStuck",), (CLAIM, VOLUME, STORAGE_CLASS, POD, NODE), volumes.stuck_findings),
    Check(("ClaimUnused",), (CLAIM, POD, VOLUME), volumes.unused_findings),
    Check(("AttachLimitReached", "AttachLimitNear"), (*SCHEDULING_KINDS,), volumes.limit_findings),
    Check(("TwoSchedulers",), (EVENT,), components.scheduler_findings),
    Check(("SchedulerAbsent",), (POD, EVENT), components.absent_scheduler_findings),
    Check(("PodRejectedByKubelet",), (POD, NODE), components.rejection_findings),
    Check(("ComponentSkew", "ComponentSilent"), (LEASE,), components.component_findings),
    Check(("PermissionMissing",), RBAC_KINDS, components.permission_findings),
)

#: All codes, in the order of the table.
CODES: Final = tuple(code for check in CHECKS for code in check.codes)


def examine(
    objects: ClusterObjects, *, fail_on: Severity = Severity.WARNING, accepted: Collection[str] = ()
) -> Diagnosis:
    """All findings, except those with accepted codes."""
    view = ClusterView(objects)
    skipped: list[SkippedCheck] = []
    findings: list[Finding] = []
    for check in CHECKS:
        if reason := _unlisted(check, objects):
            skipped += (SkippedCheck(code, reason) for code in check.codes if code not in accepted)
        else:
            findings += (one for one in check.find(view) if one.code not in accepted)
    return diagnosis(findings, skipped, fail_on=fail_on)


def _unlisted(check: Check, objects: ClusterObjects) -> str:
    found = (f"{kind.plural}: {objects.unlisted[kind]}" for kind in check.kinds if kind in objects.unlisted)
    return "; ".join(found)


def incomplete(objects: ClusterObjects) -> Iterator[str]:
    """Kinds of every decision that were not all listed, with the reason: without them a clean result means nothing."""
    for kind in SCHEDULING_KINDS:
        if kind in objects.unlisted:
            yield f"{kind.plural}: {objects.unlisted[kind]}"
