"""Provisioning state of a claim: selected node, last provisioner event, and whether the provisioner seems to run.

Presence is inferred from Leases and CSINodes and reported as such: a provisioner without leader election has no Lease.
"""

import enum
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from mooring.api import quantity
from mooring.api.kinds import CLAIM, CSI_DRIVER, CSI_NODE, LEASE, NODE, STORAGE_CAPACITY, VOLUME
from mooring.api.quantity import QuantityError
from mooring.api.times import time_or_none
from mooring.api.views.core import Event, Lease
from mooring.api.views.storage import Claim, StorageCapacity, Volume
from mooring.explain.cluster_objects import ClusterObjects, Events, first_time, moment
from mooring.explain.messages import find
from mooring.explain.messages.claims import RESOURCE_EXHAUSTED
from mooring.explain.remedies import data_loss
from mooring.explain.results import ClaimReport
from mooring.explain.volume_candidates import quantity_text
from mooring.provisioner.settings import lease_name
from mooring.volumes.capacity import limit_of
from mooring.volumes.matching import is_reserved_for

#: What a Lease counts for that does not say how long it lasts; client-go's default.
LEASE_SECONDS: Final = 15
#: Clocks differ, and listing takes a while.
CLOCK_SKEW_SECONDS: Final = 60.0


class Presence(enum.Enum):
    RUNNING = "running"
    #: It was there and has not been heard of for too long.
    SILENT = "not responding"
    #: Nothing shows that it is there, and something would.
    ABSENT = "not running"
    UNKNOWN = "unknown"


class ProvisionerPresence(NamedTuple):
    name: str
    presence: Presence
    #: A sentence without its end that says what that rests on.
    why: str


def provisioner(name: str, objects: ClusterObjects) -> ProvisionerPresence:
    """Whether the provisioner of that name seems to be there."""
    leases = [lease for lease in objects.of(LEASE) if lease.name in (name, lease_name(name))]
    if leases:
        newest = max(leases, key=lambda lease: lease.spec.renew_time or "")
        return ProvisionerPresence(name, *_judged(newest, objects.moment))
    nodes = [node.name for node in objects.of(CSI_NODE) if any(one.name == name for one in node.spec.drivers or ())]
    if nodes:
        where = f"{len(nodes)} nodes" if len(nodes) > 1 else nodes[0]
        why = f"driver {name} is registered on {where}; no Lease of its provisioner"
        return ProvisionerPresence(name, Presence.UNKNOWN, why)
    if not objects.of(CSI_NODE) or CSI_NODE in objects.unlisted:
        return ProvisionerPresence(name, Presence.UNKNOWN, "no Leases and no CSINodes were listed")
    known = "its CSIDriver exists" if objects.get(CSI_DRIVER, name) is not None else "no CSIDriver with that name"
    return ProvisionerPresence(name, Presence.ABSENT, f"no Lease, not registered on any node, {known}")


def stale_capacity_notes(names: Iterable[str], objects: ClusterObjects) -> Iterator[str]:
    """Why reported capacity may be stale: the provisioner that publishes it does not run."""
    for name in dict.fromkeys(names):
        state = provisioner(name, objects)
        if state.presence in (Presence.SILENT, Presence.ABSENT):
            yield f"capacity reported by {name} may be stale: its provisioner is {state.presence.value}: {state.why}"


def _judged(lease: Lease, now: float | None) -> tuple[Presence, str]:
    spec = lease.spec
    holder = spec.holder_identity or "no holder"
    seen = f"Lease {lease.key} was last renewed at {spec.renew_time or 'an unknown time'} by {holder}"
    renewed = time_or_none(spec.renew_time)
    if now is None or renewed is None:
        return Presence.UNKNOWN, seen
    late = now - renewed - (spec.lease_duration_seconds or LEASE_SECONDS)
    return (Presence.SILENT if late > CLOCK_SKEW_SECONDS else Presence.RUNNING), seen


#: What provisioners say: that they began, failed, and succeeded.
STARTED: Final = ("Provisioning", "ExternalProvisioning")
FAILED: Final = "ProvisioningFailed"
SUCCEEDED: Final = "ProvisioningSucceeded"


def report_of(claim: Claim, state: str, text: str, *checks: str, **more: Any) -> ClaimReport:  # noqa: ANN401  fields
    """A report whose verdict begins with the claim's key."""
    return ClaimReport(claim.key, state, f"{claim.key} {text}", checks=checks, **more)


def progress(claim: Claim, maker: str, objects: ClusterObjects, events: Events) -> ClaimReport:
    """`maker` is who serves the claim's class."""
    node = claim.selected_node or ""
    place = f" on {node}" if node else ""
    if node and objects.of(NODE) and objects.get(NODE, node) is None:
        verdict = f"has selected node {node}, which does not exist."
        return report_of(claim, "SelectedNodeGone", verdict, stuck=True, node=node)
    leaving = next((each for each in objects.of(VOLUME) if each.deleting and is_reserved_for(each, claim)), None)
    if leaving is not None:
        return _volume_leaving(claim, leaving, node)
    state = provisioner(maker, objects)
    unknown = "" if state.presence is Presence.RUNNING else "it is unknown whether "
    presence = f"{unknown}its provisioner runs: {state.why}"
    listed = objects.get(CSI_NODE, node)
    # A driver that reports nodes has to be on the chosen one; others do without.
    is_unregistered = listed is not None and all(driver.name != maker for driver in listed.spec.drivers or ())
    said = (f"driver {maker} is not registered on {node}", presence) if is_unregistered else (presence,)
    last = events.last(CLAIM, claim, FAILED, SUCCEEDED)
    failed = last if last is not None and last.reason == FAILED else None
    if state.presence in (Presence.ABSENT, Presence.SILENT):
        return _no_provisioner(claim, state, place, node, failed)
    if failed is not None:
        return _failed(claim, maker, failed, node, said, objects)
    started = events.about(CLAIM, claim, *STARTED)
    since = first_time(started[0]) if started else ""
    when = f" since {since}" if since else ""
    verdict = f"waits for provisioner {maker} to provision its volume{place}{when}."
    check = f"check that {maker} runs, and what it logs about {claim.key}"
    return report_of(claim, "WaitingForProvisioner", verdict, check, since=since, node=node, notes=said)


def _volume_leaving(claim: Claim, volume: Volume, node: str) -> ClaimReport:
    """Neither provisioners nor the PV controller go on from here by themselves, upstream's or ours."""
    held = ", ".join(volume.metadata.finalizers) or "none listed"
    verdict = (
        f"{claim.key}: its volume {volume.name} was provisioned and then deleted before the claim was bound, and a "
        "terminating volume is never bound."
    )
    notes = (f"finalizers of {volume.name}: {held}",)
    checks = (data_loss.remove_finalizers(volume.name), data_loss.delete_claim(claim.key, volume))
    return ClaimReport(
        claim.key, "VolumeLeaving", verdict, stuck=True, node=node, volume=volume.name, notes=notes, checks=checks
    )


def _no_provisioner(
    claim: Claim, state: ProvisionerPresence, place: str, node: str, failed: Event | None
) -> ClaimReport:
    verdict = f"waits for a volume{place}, but provisioner {state.name} is {state.presence.value}: {state.why}."
    notes = () if failed is None else (f"its last failure, at {moment(failed)}: {failed.message}",)
    check = f"start provisioner {state.name}"
    return report_of(claim, "NoProvisioner", verdict, check, stuck=True, node=node, notes=notes)


def _failed(
    claim: Claim, maker: str, failed: Event, node: str, notes: tuple[str, ...], objects: ClusterObjects
) -> ClaimReport:
    place = f" for {node}" if node else ""
    verdict = f"{claim.key}: provisioner {maker} failed to provision its volume{place}: {failed.message}"
    state = find(failed.message)
    meaning = (state[-1].meaning,) if state else ()
    stale = _stale(claim, failed, objects) if RESOURCE_EXHAUSTED in state else ()
    verdict = verdict if verdict.endswith(".") else f"{verdict}."
    notes, since = (*meaning, *stale, *notes), moment(failed)
    checks = (state[-1].action if state else f"check what {maker} logs about {claim.key}",)
    return ClaimReport(
        claim.key, "ProvisioningFailed", verdict, stuck=True, since=since, node=node, notes=notes, checks=checks
    )


def _stale(claim: Claim, failed: Event, objects: ClusterObjects) -> tuple[str, ...]:
    """Objects that promise what the driver did not have, said before it said so."""
    asked = quantity_text(claim.request)
    return tuple(
        f"{each.key} has reported enough since {objects.changed[each.key]}, but at {moment(failed)} the driver "
        f"lacked capacity for {asked}: the reported value is stale"
        for each in sorted(objects.of(STORAGE_CAPACITY), key=lambda one: one.key)
        if each.storage_class_name == claim.storage_class
        and objects.changed.get(each.key, "~") < moment(failed)
        and _is_enough(each, claim)
    )


def _is_enough(reported: StorageCapacity, claim: Claim) -> bool:
    try:
        limit = limit_of(reported)
        return limit is not None and limit >= quantity.to_bytes(claim.request)
    except QuantityError:
        return False
