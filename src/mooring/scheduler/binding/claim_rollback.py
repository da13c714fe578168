"""Requests the rollback of bound but unused claims that keep a pod off every node (feature gate ClaimRollback).

A scheduling cycle with the pod's clean claims taken as unbound decides whether that would help. The claims are then
annotated; the PV controller unbinds them, and until then the pod is rejected by the plugin ClaimsInRollback.
"""

import random
from collections.abc import Callable, Sequence
from typing import Final

import structlog
from msgspec import structs
from structlog.typing import FilteringBoundLogger

from mooring.api import well_known
from mooring.api.errors import ApiError
from mooring.api.kinds import CLAIM, POD
from mooring.api.patches.contract import MergePatch
from mooring.api.quantity import QuantityError
from mooring.api.selectors import SelectorError
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim
from mooring.client.cache import POD_BY_CLAIM
from mooring.client.contract import Unreachable
from mooring.client.recorder import NORMAL, EventRecorder
from mooring.control.component import Context
from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.preemption.nominator import Nominator
from mooring.volumes.claim_rollback import ROLLBACK, detached_claim_uid, may_have_used_volumes, unbind_blocker
from mooring.volumes.matching import ClaimRequirements, requirements_of
from mooring.volumes.state import VolumeState

log: FilteringBoundLogger = structlog.get_logger(__name__)

ROLLING_BACK: Final = "RollingBackClaims"


class ClaimRollbackRequester:
    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._rng = context.rng
        self._pods = context.informers.of(POD)
        self._pods.add_index(*POD_BY_CLAIM)

    def blocking_claims(self, state: CycleState, profile: Profile, nominator: Nominator) -> tuple[Claim, ...]:
        """The clean claims whose volumes keep the pod off every node; none if unbinding them would not help."""
        return blocking_claims(state, profile, self._rng, nominator=nominator, in_use=self._is_in_use)

    def _is_in_use(self, claim: Claim) -> bool:
        return any(may_have_used_volumes(pod) for pod in self._pods.by_index(POD_BY_CLAIM.name, claim.key))

    async def mark(self, pod: Pod, claims: Sequence[Claim], recorder: EventRecorder) -> bool:
        """Annotate the claims; False if a write failed and the pod has to be requeued."""
        for claim in claims:
            meta = {
                "resourceVersion": claim.metadata.resource_version,
                "annotations": {ROLLBACK: well_known.ANNOTATION_SET},
            }
            try:
                await self._client.patch(CLAIM, claim.name, MergePatch({"metadata": meta}), namespace=claim.namespace)
            except (ApiError, Unreachable) as error:
                log.info("claim not marked for rollback", claim=claim.key, pod=pod.key, error=str(error))
                return False
            log.info("claim marked for rollback", claim=claim.key, pod=pod.key)
        names = ", ".join(claim.name for claim in claims)
        text = f"no node fits because of unused volumes; rolling back claims: {names}"
        recorder.record(pod, POD, NORMAL, ROLLING_BACK, text)
        return True


def blocking_claims(
    state: CycleState,
    profile: Profile,
    rng: random.Random,
    *,
    nominator: Nominator = cycle.NO_NOMINATED_PODS,
    in_use: Callable[[Claim], bool] = lambda _: False,
) -> tuple[Claim, ...]:
    """Pure. `in_use` returns whether another pod is about to use a claim."""
    claims = state.claims
    if isinstance(claims, str):
        return ()
    volumes = state.snapshot.volumes
    needs_by_claim: dict[str, ClaimRequirements] = {}
    for claim in claims.bound:
        needs = _needs_if_unbound(claim, volumes)
        if needs is not None and not in_use(claim):
            needs_by_claim[claim.key] = needs
    if not needs_by_claim:
        return ()
    kept = tuple(claim for claim in claims.bound if claim.key not in needs_by_claim)
    unbound = structs.replace(claims, bound=kept, unbound=(*claims.unbound, *needs_by_claim.values()))
    if not cycle.run_cycle(state.with_claims(unbound), profile, rng, nominator=nominator).node:
        return ()
    return tuple(claim for claim in claims.bound if claim.key in needs_by_claim)


def _needs_if_unbound(claim: Claim, volumes: VolumeState) -> ClaimRequirements | None:
    """The requirements of the claim without its volume; None if it keeps its volume. Under another uid, because its
    volume is reserved for the current one."""
    storage_class = volumes.storage_class(claim.storage_class)
    if storage_class is None or not storage_class.delayed:
        # Bound without regard to nodes, and would be so again.
        return None
    if unbind_blocker(claim, volumes.volume(claim.spec.volume_name)) is not None:
        return None
    meta = structs.replace(claim.metadata, uid=detached_claim_uid(claim))
    try:
        return requirements_of(structs.replace(claim, metadata=meta, spec=structs.replace(claim.spec, volume_name="")))
    except (SelectorError, QuantityError):
        return None
