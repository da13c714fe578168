"""The pods of one kind of owner: which are whose, who is to be told when they change, and taking in orphans.

The shell around `ownership` that the controllers of pods share. Each of them decides for itself what to do with its
pods.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

from mooring.api.errors import NotFound
from mooring.api.kinds import POD, Kind
from mooring.api.label_selector import LabelSelector, Operator
from mooring.api.views.meta import ApiObject
from mooring.api.views.pod import Pod
from mooring.client.indexes import BY_OWNER, ORPHANS, labelled
from mooring.control.component import Context
from mooring.control.queue import WorkQueue
from mooring.workloads import ownership

O = TypeVar("O", bound=ApiObject)  # noqa: E741  # an owner

log = structlog.get_logger(__name__)


class OwnedPods(Generic[O]):
    def __init__(
        self,
        context: Context,
        kind: Kind[O],
        queue: WorkQueue[str],
        *,
        selector: Callable[[O], LabelSelector | None],
        named: Callable[[O, Pod], bool] = lambda _, __: True,
    ) -> None:
        self._client = context.client
        self._kind = kind
        self._queue = queue
        self._selector = selector
        self._named = named
        self._owners = context.informers.of(kind)
        self.informer = context.informers.of(POD)
        self.informer.add_index(*BY_OWNER)
        self.informer.add_index(*ORPHANS)
        #: Keys of owners by what `ORPHANS` files the pods under that they might take in.
        self._seekers: defaultdict[str, dict[str, None]] = defaultdict(dict)

    async def watch(self) -> None:
        """From now on owners are queued when their pods change."""
        await self._owners.subscribe(self._on_owner)
        await self.informer.subscribe(self._on_pod)

    def _on_owner(self, before: O | None, after: O | None) -> None:
        if before is not None:
            for place in self._looks_for(before):
                seekers = self._seekers[place]
                del seekers[before.key]
                if not seekers:
                    del self._seekers[place]
        if after is not None:
            for place in self._looks_for(after):
                self._seekers[place][after.key] = None

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        for pod in (before, after):
            owner = pod.controller if pod is not None else None
            if pod is not None and owner is not None and owner.kind == self._kind.kind:
                self._queue.add(f"{pod.namespace}/{owner.name}")
        if after is not None and after.controller is None and not after.deleting:
            for place in ORPHANS.values(after):
                for key in self._seekers.get(place, ()):
                    candidate = self._owners.get(key)
                    if candidate is not None and self._would_take(candidate, after):
                        self._queue.add(key)

    def _looks_for(self, owner: O) -> tuple[str, ...]:
        """Where orphans lie that an owner might take in: under a label its selector asks for, if it asks for one."""
        selector = self._selector(owner)
        if selector is None:
            return ()
        for wanted in selector.requirements:
            if wanted.operator is Operator.IN and len(wanted.values) == 1:
                return (labelled(owner.namespace, wanted.key, wanted.values[0]),)
        return (owner.namespace,)

    def _would_take(self, owner: O, pod: Pod) -> bool:
        selector = self._selector(owner)
        return selector is not None and selector.matches(pod.metadata.labels) and self._named(owner, pod)

    async def of(self, owner: O) -> list[Pod]:
        """The owner's pods, after orphans were taken in and strangers let go."""
        candidates = [
            *self.informer.by_index(BY_OWNER.name, owner.uid),
            *(pod for place in self._looks_for(owner) for pod in self.informer.by_index(ORPHANS.name, place)),
        ]
        found = ownership.sorted_out(
            owner, self._selector(owner), candidates, named=lambda pod: self._named(owner, pod)
        )
        for stranger in found.release:
            await self._release(owner, stranger)
        adopted = []
        if found.adopt and await self._still_there(owner):
            adopted = [pod for orphan in found.adopt if (pod := await self._adopt(owner, orphan)) is not None]
        return found.mine + adopted

    async def _still_there(self, owner: O) -> bool:
        """Pods must not be given to an owner that goes: the cache may be behind."""
        try:
            fresh = await self._client.get(self._kind, owner.name, namespace=owner.namespace)
        except NotFound:
            return False
        return fresh.uid == owner.uid and not fresh.deleting

    async def _adopt(self, owner: O, orphan: Pod) -> Pod | None:
        patch = ownership.adoption(self._kind, owner, orphan)
        try:
            adopted = await self._client.patch(POD, orphan.name, patch, namespace=orphan.namespace)
        except NotFound:
            return None
        log.info("pod adopted", owner=owner.key, pod=orphan.name)
        return adopted

    async def _release(self, owner: O, stranger: Pod) -> None:
        patch = ownership.release(owner, stranger)
        try:
            await self._client.patch(POD, stranger.name, patch, namespace=stranger.namespace)
        except NotFound:
            return
        log.info("pod released", owner=owner.key, pod=stranger.name)
