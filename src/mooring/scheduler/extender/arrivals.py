"""Waiting for a pod that kube-scheduler knows and we do not yet: two watches are never equally quick."""

import asyncio
from collections import defaultdict

from mooring.api.views.pod import Pod
from mooring.client.informer import Informer
from mooring.clock import Clock, set_within


class Arrivals:
    """Call `follow` once, before the first `of`."""

    def __init__(self, pods: Informer[Pod], clock: Clock) -> None:
        self._pods = pods
        self._clock = clock
        self._expected: defaultdict[str, dict[asyncio.Event, None]] = defaultdict(dict)

    async def follow(self) -> None:
        await self._pods.subscribe(self._tell)

    async def of(self, key: str, uid: str, *, seconds: float) -> Pod | None:
        """The pod as it is known here, at once if it is; None if it does not arrive in time."""
        deadline = self._clock.monotonic() + seconds
        while (pod := self._pods.get(key)) is None or pod.uid != uid:
            news = asyncio.Event()
            self._expected[key][news] = None
            try:
                if not await set_within(news, deadline - self._clock.monotonic(), self._clock):
                    return None
            finally:
                del self._expected[key][news]
                if not self._expected[key]:
                    del self._expected[key]
        return pod

    def _tell(self, before: Pod | None, after: Pod | None) -> None:
        if after is not None:
            for news in self._expected.get(after.key, ()):
                news.set()
