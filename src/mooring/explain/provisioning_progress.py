"""Where the making of a claim's volume stands: asked for since when and on which node, what the provisioner answered
last and what follows from that, and whether a provisioner is there at all."""

from typing import Final

from mooring.api import quantity
from mooring.api.kinds import CLAIM, CSI_NODE, NODE, STORAGE_CAPACITY, VOLUME
from mooring.api.quantity import QuantityError
from mooring.api.views.claim import Claim
from mooring.api.views.event import Event
from mooring.api.views.storage import StorageCapacity
from mooring.api.views.volume import Volume
from mooring.explain import data_loss
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.events import Events, began, moment
from mooring.explain.messages.lookup import find
from mooring.explain.messages.provisioning import RESOURCE_EXHAUSTED
from mooring.explain.mismatches import amount
from mooring.explain.presence import Presence, Provisioner, provisioner
from mooring.explain.verdicts import ClaimStanding
from mooring.volumes.capacity import limit_of
from mooring.volumes.matching import points_to

#: What provisioners say: that they began, failed, and succeeded.
STARTED: Final = ("Provisioning", "ExternalProvisioning")
FAILED: Final = "ProvisioningFailed"
SUCCEEDED: Final = "ProvisioningSucceeded"


def progress(claim: Claim, maker: str, objects: ClusterObjects, events: Events) -> ClaimStanding:
    """`maker` is who serves the claim's class."""
    node = claim.selected_node or ""
    place = f" on {node}" if node else ""
    if node and objects.of(NODE) and objects.get(NODE, node) is None:
        return _node_gone(claim, node)
    leaving = next((each for each in objects.of(VOLUME) if each.deleting and points_to(each, claim)), None)
    if leaving is not None:
        return _volume_leaving(claim, leaving, node)
    who = provisioner(maker, objects)
    known = "is there" if who.presence is Presence.THERE else "may or may not be there"
    said = tuple(note for note in (_registered(maker, node, objects), f"its provisioner {known}: {who.why}") if note)
    failed = _last_failure(claim, events)
    if who.presence in (Presence.ABSENT, Presence.SILENT):
        return _nobody(claim, who, place, node, failed)
    if failed is not None:
        return _failed(claim, maker, failed, node, said, objects)
    started = events.about(CLAIM, claim, *STARTED)
    since = began(started[0]) if started else ""
    when = f" since {since}" if since else ""
    verdict = f"{claim.key} waits for provisioner {maker} to make its volume{place}{when}."
    checks = (f"see whether {maker} is well, and what it logs about {claim.key}",)
    return ClaimStanding(claim.key, "WaitingForProvisioner", verdict, since=since, node=node, notes=said, checks=checks)


def exhausted(event: Event) -> bool:
    """Whether a driver had no room, in the one word that has another node tried."""
    return RESOURCE_EXHAUSTED in find(event.message)


def _last_failure(claim: Claim, events: Events) -> Event | None:
    last = events.last(CLAIM, claim, FAILED, SUCCEEDED)
    return last if last is not None and last.reason == FAILED else None


def _node_gone(claim: Claim, node: str) -> ClaimStanding:
    verdict = f"{claim.key} is to have its volume made for node {node}, which does not exist."
    return ClaimStanding(claim.key, "SelectedNodeGone", verdict, stuck=True, node=node)


def _volume_leaving(claim: Claim, volume: Volume, node: str) -> ClaimStanding:
    """Neither provisioners nor the PV controller go on from here by themselves, upstream's or ours."""
    held = ", ".join(volume.metadata.finalizers) or "none that is shown"
    verdict = (
        f"{claim.key}: its volume {volume.name} was made and then deleted before the claim was bound, and no claim is "
        f"bound to a volume on its way out."
    )
    notes = (f"what keeps {volume.name}, finalizers: {held}",)
    checks = (data_loss.remove_finalizers(volume.name), data_loss.delete_claim(claim.key, volume))
    return ClaimStanding(
        claim.key, "VolumeLeaving", verdict, stuck=True, node=node, volume=volume.name, notes=notes, checks=checks
    )


def _nobody(claim: Claim, who: Provisioner, place: str, node: str, failed: Event | None) -> ClaimStanding:
    verdict = f"{claim.key} waits for a volume{place}, but provisioner {who.name} is {who.presence.value}: {who.why}."
    notes = () if failed is None else (f"it said at {moment(failed)}: {failed.message}",)
    checks = (f"start provisioner {who.name}",)
    return ClaimStanding(claim.key, "NoProvisioner", verdict, stuck=True, node=node, notes=notes, checks=checks)


def _failed(
    claim: Claim, maker: str, failed: Event, node: str, notes: tuple[str, ...], objects: ClusterObjects
) -> ClaimStanding:
    place = f" for {node}" if node else ""
    verdict = f"{claim.key}: provisioner {maker} could not make its volume{place}: {failed.message}"
    found = find(failed.message)
    meaning = (found[-1].means,) if found else ()
    stale = _stale(claim, failed, objects) if exhausted(failed) else ()
    return ClaimStanding(
        claim.key,
        "ProvisioningFailed",
        verdict if verdict.endswith(".") else f"{verdict}.",
        stuck=True,
        since=moment(failed),
        node=node,
        notes=(*meaning, *stale, *notes),
        checks=(found[-1].now,) if found else (f"see what {maker} logs about {claim.key}",),
    )


def _registered(maker: str, node: str, objects: ClusterObjects) -> str:
    """A driver that reports nodes has to be on the chosen one; others do without."""
    listed = objects.get(CSI_NODE, node) if node else None
    if listed is None or any(driver.name == maker for driver in listed.spec.drivers or ()):
        return ""
    return f"driver {maker} is not registered on {node}"


def _stale(claim: Claim, failed: Event, objects: ClusterObjects) -> tuple[str, ...]:
    """Objects that promise what the driver did not have, said before it said so."""
    asked = amount(claim.request)
    return tuple(
        f"{each.key} has reported enough since {objects.changed[each.key]}, but at {moment(failed)} there was no room "
        f"for {asked}: its figure is stale"
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
