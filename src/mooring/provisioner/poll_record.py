"""When a publisher has last asked its driver about everything: one Lease per publisher, for people and for `mooring
capacity`. Objects say when their figures changed; this says how long nothing else can have changed unseen."""

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import ApiError, NotFound
from mooring.api.kinds import LEASE
from mooring.api.patches.contract import MergePatch
from mooring.api.timestamps import to_micro_time
from mooring.client.contract import Unreachable
from mooring.control.component import Context
from mooring.provisioner.capacity_objects import MANAGER, Publisher, owner_body
from mooring.provisioner.lease_names import lease_name

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Polls that may be missed before the Lease counts as run out.
LASTING_POLLS = 3


class PollRecord:
    def __init__(self, context: Context, publisher: Publisher, namespace: str, interval: float) -> None:
        self._client = context.client
        self._clock = context.clock
        self._publisher = publisher
        self._namespace = namespace
        self._lasts = max(int(interval * LASTING_POLLS), 1)
        self.name = record_name(publisher)

    async def write(self) -> None:
        """Best effort: a missing record hides no figure."""
        spec = {
            "holderIdentity": self._publisher.managed_by,
            "leaseDurationSeconds": self._lasts,
            "renewTime": to_micro_time(self._clock.now()),
        }
        try:
            try:
                await self._client.patch(LEASE, self.name, MergePatch({"spec": spec}), namespace=self._namespace)
            except NotFound:
                metadata: dict[str, object] = {"name": self.name, "labels": self._publisher.labels}
                if self._publisher.owner is not None:
                    metadata["ownerReferences"] = [owner_body(self._publisher.owner)]
                await self._client.create(LEASE, {"metadata": metadata, "spec": spec}, namespace=self._namespace)
        except (ApiError, Unreachable) as error:
            log.info("time of the last poll not recorded", why=str(error))


def record_name(publisher: Publisher) -> str:
    """Of the driver, and of the node where every node has its publisher."""
    suffix = publisher.managed_by.removeprefix(MANAGER)
    return f"capacity-{lease_name(publisher.driver)}{suffix}".lower()
