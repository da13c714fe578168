"""Who may write `status`: nobody at creation, only the `status` subresource afterwards, and it nothing else.

Also what a status begins as. Spec and status are apart so that a user's manifest and a controller's report never
overwrite each other.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from mooring.api.kinds import (
    CLAIM,
    DAEMON_SET,
    DISRUPTION_BUDGET,
    NAMESPACE,
    NODE,
    POD,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    VOLUME,
    VOLUME_ATTACHMENT,
    Kind,
)
from mooring.server.body import Body, meta, rows
from mooring.server.qos import qos_class

Initial = Callable[[Body, str], Body]


def _pod(obj: Body, now: str) -> Body:
    status: Body = {"phase": "Pending", "qosClass": qos_class(obj)}
    if rows(obj, "spec", "schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastTransitionTime": now,
            }
        ]
    return status


#: Counts that are shown even while they are zero.
_DAEMONS: Final = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
_BUDGET: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")

#: What a new object's status is; for kinds with a status that are not named, empty.
_INITIAL: Final[Mapping[Kind[Any], Initial]] = {
    POD: _pod,
    CLAIM: lambda obj, now: {"phase": "Pending"},
    VOLUME: lambda obj, now: {"phase": "Pending", "lastPhaseTransitionTime": now},
    NAMESPACE: lambda obj, now: {"phase": "Active"},
    VOLUME_ATTACHMENT: lambda obj, now: {"attached": False},
    STATEFUL_SET: lambda obj, now: {"replicas": 0, "availableReplicas": 0},
    REPLICA_SET: lambda obj, now: {"replicas": 0},
    REPLICATION_CONTROLLER: lambda obj, now: {"replicas": 0},
    DAEMON_SET: lambda obj, now: dict.fromkeys(_DAEMONS, 0),
    DISRUPTION_BUDGET: lambda obj, now: dict.fromkeys(_BUDGET, 0),
    # A node registers itself together with what it has to offer: the one kind that may bring its status along.
    NODE: lambda obj, now: obj["status"],
}

#: What `/status` takes over of metadata is labels, annotations, finalizers, owners; of pods, not the owners,
#: because upstream once had node agents that sent them back damaged.
_OWNERS: Final = "ownerReferences"
#: What is derived from the spec at creation stays where a report leaves it out.
_QOS: Final = "qosClass"


def begin_status(kind: Kind[Any], obj: Body, now: str) -> None:
    """Replaces what the client sent by what a new object's status is."""
    if not kind.has_status:
        return
    initial = _INITIAL.get(kind)
    obj["status"] = initial(obj, now) if initial else {}


def isolate_status(kind: Kind[Any], new: Body, old: Body, subresource: str) -> None:
    """Takes back whatever the endpoint that was written to has no say in."""
    if not kind.has_status:
        return
    if subresource == "status":
        # In the order of the objects: a set's would make the stored bytes depend on hashing.
        for field in (*new, *old):
            if field not in ("metadata", "status"):
                _restore(field, new, old)
        if kind is POD:
            _restore(_OWNERS, meta(new), meta(old))
            new["status"].setdefault(_QOS, old["status"][_QOS])
    else:
        _restore("status", new, old)
        if kind is NAMESPACE and not subresource:
            # Who holds a namespace is for the `finalize` subresource to say.
            _restore("finalizers", new["spec"], old["spec"])


def date_phase(kind: Kind[Any], new: Body, old: Body, now: str) -> None:
    """A volume says since when it has been in its phase, unless the writer does."""
    if kind is not VOLUME:
        return
    is_now, was = new.get("status", {}), old.get("status", {})
    dated = "lastPhaseTransitionTime"
    if is_now.get("phase") != was.get("phase") and is_now.get(dated) == was.get(dated):
        new["status"] = is_now | {dated: now}


def _restore(field: str, new: Body, old: Body) -> None:
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)
