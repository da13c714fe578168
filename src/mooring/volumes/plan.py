"""What binding a pod's claims on one node takes, and the states a volume passes through on the way.

The scheduler makes a `BindingPlan` for the chosen node only; the binder carries it out. A volume's state is read
off its `claimRef`, one field of one object, so that every change of state is one compare-and-swap:

    FREE ──► COMMITTED                           a pod with one volume to bind
    FREE ──► HELD ──► COMMITTED                  all volumes of the pod are held on one node
    FREE ──► HELD ──► FREE                       static volume: the hold is lifted, it is never deleted
             HELD ──► ROLLING_BACK ──► (gone)    provisioned volume that blocks its pod; it was never bound

COMMITTED never goes back. `holds/` has the rules of holding and rolling back; while no coordinator is there to follow
them, every plan commits at once, claim by claim, as kube-scheduler does.
"""

import enum
from typing import Final

import msgspec

from mooring.api.views.claim import Claim
from mooring.api.views.meta import ObjectReference
from mooring.api.views.volume import Volume

#: Where the claims would be that nobody can have: a namespace that ordinary users must not be able to write to.
HOLD_NAMESPACE: Final = "kube-system"
HOLD_PREFIX: Final = "hold-"
ROLLBACK_PREFIX: Final = "rollback-"


class HoldState(enum.Enum):
    FREE = "free"
    HELD = "held"
    COMMITTED = "committed"
    ROLLING_BACK = "rolling back"


def hold_state(volume: Volume, *, hold_namespace: str) -> HoldState:
    """A claimRef without uid into the hold namespace is ours; any other claimRef belongs to a claim."""
    reference = volume.spec.claim_ref
    if reference is None:
        return HoldState.FREE
    if reference.namespace == hold_namespace and not reference.uid:
        if reference.name.startswith(HOLD_PREFIX):
            return HoldState.HELD
        if reference.name.startswith(ROLLBACK_PREFIX):
            return HoldState.ROLLING_BACK
    return HoldState.COMMITTED


def held_reference(claim_uid: str, *, hold_namespace: str) -> ObjectReference:
    """The claimRef that reserves a volume for a claim without letting anybody bind it."""
    return ObjectReference(namespace=hold_namespace, name=f"{HOLD_PREFIX}{claim_uid}")


class StaticBinding(msgspec.Struct, frozen=True):
    """Bind this claim to this existing volume."""

    claim: Claim
    volume: Volume


class Provisioning(msgspec.Struct, frozen=True):
    """Ask the class's provisioner for a volume that the node can reach."""

    claim: Claim


class BindingPlan(msgspec.Struct, frozen=True):
    """Everything to be written before the pod may be bound to `node`. Empty when all claims are bound."""

    node: str
    static: tuple[StaticBinding, ...] = ()
    provision: tuple[Provisioning, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.static and not self.provision

    @property
    def wants_hold(self) -> bool:
        """More than one volume to bind: only then can half of it succeed."""
        return len(self.static) + len(self.provision) > 1
