"""PodGroup protection: a deleted PodGroup stays until its pods have finished.

The API server adds the finalizer at creation; this controller removes it from deleted groups that no unfinished pod
names. As in kube-controller-manager, pods are looked up in the informer's cache: a pod that is created while its group
is deleted may lose the group, and then waits for it like a pod that was created before its group.
"""

from collections.abc import Iterable
from typing import Final

import structlog

from mooring.api import well_known
from mooring.api.errors import NotFound
from mooring.api.kinds import POD, POD_GROUP
from mooring.api.patches.contract import MergePatch
from mooring.api.views.pod_groups import PodGroup
from mooring.api.views.pods import Pod
from mooring.client.cache import POD_BY_GROUP
from mooring.control.component import Context, Reconciler

FINALIZER: Final = well_known.POD_GROUP_PROTECTION

log = structlog.get_logger(__name__)


def is_deletion_blocked(group: PodGroup) -> bool:
    """Whether the group is deleted and only its finalizers keep it, this one among them."""
    return group.deleting and FINALIZER in group.metadata.finalizers


def is_group_used(members: Iterable[Pod]) -> bool:
    """Whether a pod of the group has not finished, with or without a node."""
    return any(not pod.finished for pod in members)


def without_finalizer(group: PodGroup) -> MergePatch:
    """The removal, valid for the version of the group that was read."""
    kept = [name for name in group.metadata.finalizers if name != FINALIZER]
    return MergePatch({"metadata": {"resourceVersion": group.metadata.resource_version, "finalizers": kept or None}})


class PodGroupProtection(Reconciler[str]):
    """Keys of its queue are those of PodGroups; a group that is not deleted costs no request."""

    name = "podgroup-protection-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context, context.work_queue("podgroupprotection", POD_GROUP))
        self._groups = context.informers.of(POD_GROUP)
        self._pods = context.informers.of(POD)
        self._pods.add_index(*POD_BY_GROUP)

    async def _subscribe(self) -> None:
        await self._pods.subscribe(self._on_pod)
        await self._groups.subscribe(self._on_group)

    def _on_group(self, _: PodGroup | None, after: PodGroup | None) -> None:
        if after is not None and is_deletion_blocked(after):
            self._queue.add(after.key)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        """Only a pod that is deleted, replaced or has finished can be the last of its group."""
        if before is not None and before.group_key and (after is None or after.uid != before.uid):
            self._queue.add(before.group_key)
        if after is not None and after.group_key and after.finished:
            self._queue.add(after.group_key)

    async def _sync(self, key: str) -> None:
        group = self._groups.get(key)
        if group is None or not is_deletion_blocked(group):
            return
        if is_group_used(self._pods.by_index(POD_BY_GROUP.name, key)):
            return
        try:
            await self._client.patch(POD_GROUP, group.name, without_finalizer(group), namespace=group.namespace)
        except NotFound:
            log.debug("object already deleted", kind=POD_GROUP.kind, object=key)
            return
        log.info("finalizer removed", kind=POD_GROUP.kind, object=key)
