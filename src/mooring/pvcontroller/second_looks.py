"""What the server itself says to a step before it is taken: caches of claims, volumes and pods are not equally far.

Only for steps that could not be undone, or that rely on what another object does not say any more. Every write carries
the version of the object it changes; what is looked at here is the other objects it was decided on. A step that the
server speaks against is not taken: once the slower watch gets there, the claim is looked at again.
"""

from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, POD, STORAGE_CLASS, VOLUME
from mooring.api.views.claim import Claim
from mooring.api.views.volume import Volume
from mooring.client.contract import Client
from mooring.pvcontroller.claim_status import LOST
from mooring.pvcontroller.facts import Facts
from mooring.pvcontroller.intents import (
    EndRollback,
    ForsakeVolume,
    PointClaim,
    ReleaseVolume,
    ReserveVolume,
    SetClaimStatus,
    Step,
    UnbindClaim,
)
from mooring.volumes.clean_claims import forsaken_by, is_near, unbound_from


class SecondLooks:
    def __init__(self, client: Client, facts: Facts) -> None:
        self._client = client
        self._facts = facts

    async def against(self, step: Step, claim: Claim) -> str:
        """Why a step for a claim should not be taken on what is known here; "" if nothing speaks against it."""
        match step.write:
            case SetClaimStatus(phase=phase) if phase == LOST:
                # Nobody is told of lost data because two watches are not equally far.
                return "" if await self._knows_volume_of(claim) else "its volume is not what it was"
            case ReserveVolume(by_controller=True) if self._relies_on_no_class(claim):
                # A claim bound before its pod was placed stays so.
                return "its class is there" if await self._is_class_there(claim) else ""
            case PointClaim(volume=name) if self._facts.claim_rollback:
                # Another controller may have ended a rollback in which the volume was let go.
                found = await self._volume(name)
                return "" if found is not None and _belongs(found, claim) else "the volume is not reserved for it"
            case UnbindClaim():
                # Whoever uses the claim writes to it first, so it is safe; but a pod that was just given a node would
                # wait there for ever.
                return "a pod that uses it has a node" if await self._is_near(claim) else ""
            case ForsakeVolume(volume=volume) | ReleaseVolume(volume=volume):
                # If the rollback has been ended, the volume may be the one that was chosen since.
                return "" if await self._is_unbound(claim, volume.name) else "it is not being rolled back"
            case EndRollback() if name := unbound_from(claim):
                # Whoever else is about to let the volume go must fail: the mark stays until the volume has changed.
                left = await self._volume(name)
                has_it = left is not None and (_belongs(left, claim) or forsaken_by(left) == claim.uid)
                return "its volume is still there" if has_it else ""
        return ""

    async def _volume(self, name: str) -> Volume | None:
        try:
            return await self._client.get(VOLUME, name)
        except NotFound:
            return None

    async def _knows_volume_of(self, claim: Claim) -> bool:
        name = claim.spec.volume_name
        if not name:
            return True
        known, actual = self._facts.volume(name), await self._volume(name)
        if known is None or actual is None:
            return known is actual
        return known.metadata.resource_version == actual.metadata.resource_version

    def _relies_on_no_class(self, claim: Claim) -> bool:
        """Whether a volume was chosen for a claim because there is no class that would have it wait."""
        chosen = not claim.spec.volume_name
        return chosen and bool(claim.storage_class) and claim.storage_class not in self._facts.classes

    async def _is_class_there(self, claim: Claim) -> bool:
        try:
            await self._client.get(STORAGE_CLASS, claim.storage_class)
        except NotFound:
            return False
        return True

    async def _is_near(self, claim: Claim) -> bool:
        pods = (await self._client.list(POD, namespace=claim.namespace)).items
        return any(claim.key in pod.claim_keys and is_near(pod) for pod in pods)

    async def _is_unbound(self, claim: Claim, volume: str) -> bool:
        try:
            actual = await self._client.get(CLAIM, claim.name, namespace=claim.namespace)
        except NotFound:
            return False
        return actual.uid == claim.uid and unbound_from(actual) == volume


def _belongs(volume: Volume, claim: Claim) -> bool:
    reference = volume.spec.claim_ref
    return reference is not None and reference.uid == claim.uid
