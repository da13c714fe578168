"""A pod is let near its claims' volumes: noted on the claims before it happens, and refused where they are given up.

What keeps clean claims honest (`volumes.clean_claims`). For every node that starts pods, played or run.
"""

from mooring.api import timestamps
from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM
from mooring.api.patches.contract import StrategicPatch
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.control.component import Context
from mooring.control.feature_gates import CLAIM_ROLLBACK
from mooring.nodeagent.admission import Refusal
from mooring.volumes.clean_claims import dirty, is_clean, rolls_back


class ClaimUse:
    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._clock = context.clock
        self._claims = context.informers.of(CLAIM)
        self._heeds_rollback = context.gates.enabled(CLAIM_ROLLBACK)

    async def withdrawn(self, pod: Pod) -> Refusal | None:
        """Claims that are being unbound are not to be used: whoever made the pod has to make another.

        A refusal is final, so it is not made on what may be yesterday's news.
        """
        for claim in self._claims_of(pod) if self._heeds_rollback else ():
            if rolls_back(claim) and await self._still_rolls_back(claim):
                return Refusal("ClaimRollback", f"PVC {claim.key} is being rolled back")
        return None

    async def _still_rolls_back(self, claim: Claim) -> bool:
        try:
            return rolls_back(await self._client.get(CLAIM, claim.name, namespace=claim.namespace))
        except NotFound:
            return False

    async def mark_dirty(self, pod: Pod) -> None:
        """Say that a pod is let near the volumes, before it is; a claim that was unbound meanwhile is a conflict.

        Also while the gate is off: a claim that was called clean before must not be so when it is on again.
        """
        for claim in self._claims_of(pod):
            if is_clean(claim):
                condition = dirty(pod.key, pod.spec.node_name, now=timestamps.to_time(self._clock.now()))
                meta = {"uid": claim.uid, "resourceVersion": claim.metadata.resource_version}
                patch = StrategicPatch({"metadata": meta, "status": {"conditions": [condition]}})
                await self._client.patch(CLAIM, claim.name, patch, namespace=claim.namespace, subresource="status")

    def _claims_of(self, pod: Pod) -> list[Claim]:
        return [claim for key in pod.claim_keys if (claim := self._claims.get(key)) is not None]
