"""Whether the cluster in question gives a pod all of its volumes or none, as its objects tell. Pure.

A coordinator shows itself by a Lease, and holds by their marks; processes announce their feature gates in Leases of
their own. Where nothing is said the answer is upstream's way, claim by claim. People who ask may say otherwise, by the
gates' names.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from mooring.api import keys
from mooring.api.kinds import VOLUME
from mooring.api.timestamps import from_time
from mooring.api.views.lease import Lease
from mooring.api.views.volume import Volume
from mooring.control import announcements
from mooring.control.feature_gates import CLAIM_ROLLBACK, PROVISIONING_ROLLBACK, FeatureGates, Gate, with_defaults
from mooring.sim.whatif.inventory import Inventory
from mooring.volumes.holds.objects import CLAIM as HELD_FOR
from mooring.volumes.plan import HOLD_NAMESPACE, HoldState, hold_state

#: Seconds by which a Lease may be behind the newest one of the cluster and still count as renewed: announcements, which
#: are renewed least often, last as long.
FRESH_SECONDS: Final = float(announcements.LASTS_SECONDS)


#: Feature gates that are to be set like this, whatever the objects tell.
Wanted = Mapping[Gate, bool]


class Rollback(NamedTuple):
    """Who gives up again what keeps pods from running, and where holds point to."""

    #: There is a coordinator. Whether volumes are held by now is the gate's word: it also settles what was held before.
    coordinator: bool
    gates: FeatureGates
    namespace: str


def rollback_of(inventory: Inventory, wanted: Wanted) -> Rollback:
    """What the objects tell, unless it is `wanted` otherwise."""
    leases = _fresh(inventory.leases)
    said = [found for lease in leases if (found := announcements.read(lease)) is not None]
    holding = next((namespace for volume in inventory.of(VOLUME) if (namespace := _hold(volume))), "")
    coordinating = next((lease.namespace for lease in leases if _is_coordinators(lease)), "")
    told = {
        PROVISIONING_ROLLBACK: all(_settings(PROVISIONING_ROLLBACK, said)),
        CLAIM_ROLLBACK: any(_settings(CLAIM_ROLLBACK, said)),
    }
    return Rollback(
        bool(holding or coordinating) or wanted.get(PROVISIONING_ROLLBACK, False),
        with_defaults({**told, **wanted}),
        holding or coordinating or HOLD_NAMESPACE,
    )


def notes(found: Rollback, wanted: Iterable[Gate]) -> list[str]:
    """What people should know of it who did not ask for it."""
    told = []
    if found.coordinator and found.gates.enabled(PROVISIONING_ROLLBACK) and PROVISIONING_ROLLBACK not in wanted:
        told.append("pods get all of their volumes or none, since the cluster has a coordinator")
    if found.gates.enabled(CLAIM_ROLLBACK) and CLAIM_ROLLBACK not in wanted:
        told.append("unused claims may lose their volumes for pods, since the cluster has ClaimRollback on")
    return told


def _settings(gate: Gate, said: Iterable[announcements.Announcement]) -> list[bool]:
    """How the processes that a gate concerns have it."""
    return [each.gates.enabled(gate) for each in said if each.components.intersection(gate.components)]


def _fresh(leases: Sequence[Lease]) -> list[Lease]:
    """Those that somebody still renewed when the cluster was listed."""
    renewed = {lease.key: _epoch(lease.spec.renew_time) for lease in leases}
    newest = max(renewed.values(), default=0.0)
    return [lease for lease in leases if renewed[lease.key] and newest - renewed[lease.key] <= FRESH_SECONDS]


def _is_coordinators(lease: Lease) -> bool:
    return lease.name == keys.COORDINATOR_LEASE and bool(lease.spec.holder_identity)


def _hold(volume: Volume) -> str:
    """Where the hold of a volume points to; "" where it is not held."""
    reference = volume.spec.claim_ref
    if reference is None or HELD_FOR not in volume.metadata.annotations:
        return ""
    state = hold_state(volume, hold_namespace=reference.namespace)
    return reference.namespace if state in (HoldState.HELD, HoldState.ROLLING_BACK) else ""


def _epoch(text: str | None) -> float:
    try:
        return from_time(text or "")
    except ValueError:
        return 0.0
