"""Drains nodes as `kubectl drain --ignore-daemonsets` does: evicts what is on them, and asks again what a budget
refuses. Pods that nobody in the simulation would make anew are followed by the copies it is given.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from mooring.api.errors import ApiError, Conflict, NotFound, TooManyRequests
from mooring.api.kinds import POD
from mooring.api.views.pod import Pod
from mooring.client.indexes import POD_BY_NODE
from mooring.control.component import Component, Context
from mooring.sim.whatif.inventory import Body
from mooring.sim.whatif.successors import belongs_to_node

#: Seconds between two tries; kubectl's.
AGAIN: Final = 5.0


class Evictions:
    name = "evictions"

    def __init__(self, context: Context, nodes: Collection[str], copies: Mapping[str, Body]) -> None:
        """`copies` are the pods to make once those of their keys are gone."""
        self._client = context.client
        self._clock = context.clock
        self._pods = context.informers.of(POD)
        self._pods.add_index(*POD_BY_NODE)
        self._nodes = nodes
        self._copies = dict(copies)
        #: What budgets say of pods that are still there, by their keys; and what kept copies from being made.
        self.refused: dict[str, str] = {}
        self.ready = False

    async def run(self) -> None:
        await self._pods.synced.wait()
        self.ready = True
        while self._nodes:
            for pod in [*self._evictable()]:
                await self._evict(pod)
            await self._clock.sleep(0)
            await self._follow()
            await self._clock.sleep(AGAIN)
        await asyncio.Event().wait()

    def _evictable(self) -> Iterator[Pod]:
        for node in sorted(self._nodes):
            for pod in sorted(self._pods.by_index(POD_BY_NODE.name, node), key=lambda pod: pod.key):
                if not belongs_to_node(pod) and not pod.deleting:
                    yield pod

    async def _evict(self, pod: Pod) -> None:
        try:
            await self._client.evict(pod.name, namespace=pod.namespace, uid=pod.uid)
            self.refused.pop(pod.key, None)
        except TooManyRequests as error:
            self.refused[pod.key] = error.message
        except (NotFound, Conflict):
            # SEEN: gone already, or made anew meanwhile; the next round sees it.
            self.refused.pop(pod.key, None)

    async def _follow(self) -> None:
        for key in [key for key in self._copies if self._pods.get(key) is None]:
            body = self._copies.pop(key)
            try:
                await self._client.create(POD, body, namespace=body["metadata"]["namespace"])
            except ApiError as error:
                self.refused[key] = f"cannot be made anew: {error.message}"


def _contract(evictions: Evictions) -> Component:
    return evictions
