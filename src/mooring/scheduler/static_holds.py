"""Existing volumes of a pod that needs several: held first, so that half of them is never given away for good.

While a coordinator is alive, the binder reserves such volumes under the claim's uid instead of giving them to the
claim; the coordinator gives them all once the pod has everything on its node. Without one, volumes are given one by
one, as kube-scheduler does.
"""

from typing import Any

from mooring.api import keys
from mooring.api.patches.contract import MergePatch
from mooring.api.timestamps import to_time
from mooring.api.views.volume import Volume
from mooring.client.contract import Client
from mooring.clock import Clock
from mooring.control.lease_watch import LeaseWatch
from mooring.volumes.holds import objects
from mooring.volumes.plan import BindingPlan, StaticBinding, held_reference


class StaticHolds:
    def __init__(self, client: Client, clock: Clock, *, namespace: str) -> None:
        self._clock = clock
        self._namespace = namespace
        self._coordinator = LeaseWatch(client, clock, name=keys.COORDINATOR_LEASE, namespace=namespace)

    async def wanted(self, plan: BindingPlan) -> bool:
        """Whether the plan can succeed by halves, and somebody is there to see that it does not."""
        return plan.wants_hold and bool(plan.static) and await self._coordinator.live()

    def hold(self, binding: StaticBinding, node: str) -> MergePatch:
        metadata: dict[str, Any] = objects.held_marks(binding.claim, node, since=to_time(self._clock.now()))
        metadata["resourceVersion"] = binding.volume.metadata.resource_version
        reference = held_reference(binding.claim.uid, hold_namespace=self._namespace)
        return MergePatch({"metadata": metadata, "spec": {"claimRef": reference.body()}})

    def lift(self, volume: Volume, claim_uid: str) -> MergePatch:
        return MergePatch(objects.given_up(volume, claim_uid, "", hold_namespace=self._namespace))

    def holds(self, volume: Volume, claim_uid: str) -> bool:
        return objects.held_for(volume, hold_namespace=self._namespace) == claim_uid
