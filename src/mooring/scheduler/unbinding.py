"""Claims that are bound, unused, and keep a pod from every node: finds them and has them unbound.

With the feature gate ClaimRollback, for a pod that found no node. The question is put to the cycle itself: would there
be a node if the clean claims of the pod had no volumes yet? Then they are marked; what the mark means is for the PV
controller and the API server, and until it is gone the pod is refused (`plugins.claims_in_rollback`).
"""

import random
from collections.abc import Callable, Sequence
from typing import Final

import structlog
from msgspec import structs
from structlog.typing import FilteringBoundLogger

from mooring.api import keys
from mooring.api.errors import ApiError
from mooring.api.kinds import CLAIM, POD
from mooring.api.label_selector import SelectorError
from mooring.api.patches.contract import MergePatch
from mooring.api.quantity import QuantityError
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.client.contract import Unreachable
from mooring.client.indexes import POD_BY_CLAIM
from mooring.client.recorder import NORMAL, EventRecorder
from mooring.control.component import Context
from mooring.scheduler import cycle
from mooring.scheduler.contract import Cycle
from mooring.scheduler.nominations import Nominations
from mooring.scheduler.profile import Profile
from mooring.volumes.clean_claims import ROLLBACK, forsaken_uid, is_near, why_kept
from mooring.volumes.matching import Needs, needs_of
from mooring.volumes.state import VolumeState

log: FilteringBoundLogger = structlog.get_logger(__name__)

ROLLING_BACK: Final = "RollingBackClaims"


class Unbinding:
    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._rng = context.rng
        self._pods = context.informers.of(POD)
        self._pods.add_index(*POD_BY_CLAIM)

    def in_the_way(self, attempt: Cycle, profile: Profile, nominations: Nominations) -> tuple[Claim, ...]:
        """The clean claims without whose volumes the pod would have a node; none if that would not help."""
        return in_the_way(attempt, profile, self._rng, nominations=nominations, needed=self._is_needed)

    def _is_needed(self, claim: Claim) -> bool:
        return any(is_near(pod) for pod in self._pods.by_index(POD_BY_CLAIM.name, claim.key))

    async def mark(self, pod: Pod, claims: Sequence[Claim], recorder: EventRecorder) -> bool:
        """Have the claims unbound; False when one could not be marked, and the pod has to be looked at again."""
        for claim in claims:
            meta = {"resourceVersion": claim.metadata.resource_version, "annotations": {ROLLBACK: keys.YES}}
            try:
                await self._client.patch(CLAIM, claim.name, MergePatch({"metadata": meta}), namespace=claim.namespace)
            except (ApiError, Unreachable) as error:
                log.info("claim not marked for rollback", claim=claim.key, pod=pod.key, why=str(error))
                return False
            log.info("claim marked for rollback", claim=claim.key, pod=pod.key)
        names = ", ".join(claim.name for claim in claims)
        text = f"no node fits because of volumes that no pod has used, which are given up: those of {names}"
        recorder.record(pod, POD, NORMAL, ROLLING_BACK, text)
        return True


def in_the_way(
    attempt: Cycle,
    profile: Profile,
    rng: random.Random,
    *,
    nominations: Nominations = cycle.NO_NOMINATIONS,
    needed: Callable[[Claim], bool] = lambda _: False,
) -> tuple[Claim, ...]:
    """Pure. `needed` says of which claims others are about to make use."""
    claims = attempt.claims
    if isinstance(claims, str):
        return ()
    volumes = attempt.snapshot.volumes
    wishes: dict[str, Needs] = {}
    for claim in claims.bound:
        wish = _wish(claim, volumes)
        if wish is not None and not needed(claim):
            wishes[claim.key] = wish
    if not wishes:
        return ()
    kept = tuple(claim for claim in claims.bound if claim.key not in wishes)
    supposed = structs.replace(claims, bound=kept, unbound=(*claims.unbound, *wishes.values()))
    if not cycle.run(attempt.supposing(supposed), profile, rng, nominations=nominations).node:
        return ()
    return tuple(claim for claim in claims.bound if claim.key in wishes)


def _wish(claim: Claim, volumes: VolumeState) -> Needs | None:
    """What the claim would ask for if it had no volume; None where it keeps the one it has.

    Under another uid, or the volume it has now would be the only one for it.
    """
    storage_class = volumes.storage_class(claim.storage_class)
    if storage_class is None or not storage_class.delayed:
        # SEEN: bound without regard to nodes, and would be again.
        return None
    if why_kept(claim, volumes.volume(claim.spec.volume_name)) is not None:
        return None
    meta = structs.replace(claim.metadata, uid=forsaken_uid(claim))
    try:
        return needs_of(structs.replace(claim, metadata=meta, spec=structs.replace(claim.spec, volume_name="")))
    except (SelectorError, QuantityError):
        return None
