"""What was told about a pod, and what else is worth knowing beside its verdict; a line each."""

from collections.abc import Iterator
from typing import Final

from mooring.api.kinds import POD
from mooring.api.views.event import Event
from mooring.explain.events import moment, teller
from mooring.explain.inspection import Inspection
from mooring.explain.messages.binding import BINDING
from mooring.explain.messages.kubelet import KUBELET
from mooring.explain.messages.lookup import find
from mooring.explain.presence import doubts
from mooring.scheduler.preemption import is_preempted

#: What a scheduler says of a pod it could not place, and Mooring's in figures.
_UNPLACED: Final = ("FailedScheduling", "NotEnoughStorage")
#: What is said of a pod that has its node and does not get its volumes there.
_NOT_MOUNTED: Final = ("FailedMount", "FailedAttachVolume")
_ROLLED_BACK: Final = "ProvisioningRolledBack"

#: Messages about what is over and shows in no object: what they mean is told with them.
_OF_THE_PAST: Final = (*BINDING, *KUBELET)


def notes(found: Inspection) -> Iterator[str]:
    pod, events = found.pod, found.situation.events
    if not pod.finished and not pod.ready:
        said = events.last(POD, pod, *(_NOT_MOUNTED if pod.spec.node_name else _UNPLACED))
        if said is not None:
            yield from _told(said)
    if (nominated := pod.status.nominated_node_name) and not pod.spec.node_name:
        yield _nominated(found, nominated)
    for event in events.about(POD, pod, _ROLLED_BACK):
        yield f"rolled back at {moment(event)}: {event.message}"
    yield from _pinned(found)
    yield from _doubts(found)


def _nominated(found: Inspection, node: str) -> str:
    """Where a pod is expected: schedulers say so while they bind its volumes as well as while they evict others."""
    victims = [pod.key for pod in found.situation.objects.of(POD) if pod.spec.node_name == node and is_preempted(pod)]
    if not victims:
        return f"the scheduler expects it on {node}"
    return f"{', '.join(sorted(victims))} {'is' if len(victims) == 1 else 'are'} being evicted for it on {node}"


def _told(said: Event) -> Iterator[str]:
    yield f"{teller(said) or 'a component'} said at {moment(said)}: {said.message}"
    for message in find(said.message):
        if message in _OF_THE_PAST:
            yield f"  that is: {message.means} What to do: {message.now}"


def _pinned(found: Inspection) -> Iterator[str]:
    """Of a pod that has some volumes and gets no others: what is not going to be undone."""
    bound = [one.claim for one in found.standings if one.state == "Bound"]
    if bound and len(bound) < len(found.standings) and not any(node.fits for node in found.nodes.values()):
        yield (
            f"{', '.join(bound)}: bound, and stays where it is; only volumes that are held and were never given to a "
            "claim are rolled back"
        )


def _doubts(found: Inspection) -> Iterator[str]:
    """Where too little is reported: whether anybody would report more."""
    classes = {claim.storage_class for node in found.nodes.values() for claim in node.volumes if claim.rooms}
    provisioners = found.attempt.snapshot.volumes.provisioners
    return doubts(sorted(provisioners.provisioner(name) for name in classes), found.situation.objects)
