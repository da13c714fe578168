"""Whether whoever makes the volumes of a class seems to be there: Leases, and drivers registered on nodes.

A guess by its nature, and told as one: a provisioner without leader election holds no Lease, and a reader may not be
allowed to see them.
"""

import enum
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from mooring.api.kinds import CSI_DRIVER, CSI_NODE, LEASE
from mooring.api.timestamps import from_time
from mooring.api.views.lease import Lease
from mooring.explain.cluster_objects import ClusterObjects
from mooring.provisioner.lease_names import lease_name

#: What a Lease counts for that does not say how long it lasts; client-go's default.
LEASE_SECONDS: Final = 15
#: Clocks differ, and listing takes a while.
SLACK_SECONDS: Final = 60.0


class Presence(enum.Enum):
    THERE = "there"
    #: It was there and has not been heard of for too long.
    SILENT = "silent"
    #: Nothing shows that it is there, and something would.
    ABSENT = "absent"
    UNKNOWN = "unknown"


class Provisioner(NamedTuple):
    name: str
    presence: Presence
    #: A sentence without its end that says what that rests on.
    why: str


def provisioner(name: str, objects: ClusterObjects) -> Provisioner:
    """Whether the provisioner of that name seems to be there."""
    leases = [lease for lease in objects.of(LEASE) if lease.name in (name, lease_name(name))]
    if leases:
        newest = max(leases, key=lambda lease: lease.spec.renew_time or "")
        return Provisioner(name, *_judged(newest, objects.moment))
    nodes = sorted(
        node.name for node in objects.of(CSI_NODE) if any(one.name == name for one in node.spec.drivers or ())
    )
    if nodes:
        where = f"{len(nodes)} nodes" if len(nodes) > 1 else nodes[0]
        return Provisioner(
            name, Presence.UNKNOWN, f"driver {name} is registered on {where}; no Lease of its provisioner"
        )
    if not objects.of(CSI_NODE) or CSI_NODE in objects.unseen:
        return Provisioner(name, Presence.UNKNOWN, "neither Leases nor CSINodes are seen that would tell")
    known = (
        "its CSIDriver exists" if objects.get(CSI_DRIVER, name) is not None else "there is no CSIDriver of that name"
    )
    return Provisioner(name, Presence.ABSENT, f"no Lease, no node has it registered, {known}")


def doubts(names: Iterable[str], objects: ClusterObjects) -> Iterator[str]:
    """Why what drivers report of their capacity may be out of date: nobody is there who would publish it anew."""
    for name in dict.fromkeys(names):
        found = provisioner(name, objects)
        if found.presence in (Presence.SILENT, Presence.ABSENT):
            yield f"what {name} reports may be stale: its provisioner is {found.presence.value}: {found.why}"


def _judged(lease: Lease, now: float | None) -> tuple[Presence, str]:
    spec = lease.spec
    holder = spec.holder_identity or "nobody"
    seen = f"Lease {lease.key} was last renewed at {spec.renew_time or 'no time'} by {holder}"
    if now is None or spec.renew_time is None:
        return Presence.UNKNOWN, seen
    try:
        late = now - from_time(spec.renew_time) - (spec.lease_duration_seconds or LEASE_SECONDS)
    except ValueError:
        return Presence.UNKNOWN, seen
    return (Presence.SILENT if late > SLACK_SECONDS else Presence.THERE), seen
