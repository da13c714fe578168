"""One side of one measurement: all requests are sent at once, and a watch records completions.

From the first request to the last pod on its node, or the last claim bound. The timeout is bounded: later completions
are not counted.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from bench.kube import metering
from bench.kube.cluster import AT_ONCE, NAMESPACE, create_all
from bench.kube.report import Outcome
from bench.kube.watching import Seen, seen
from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, POD, Kind
from mooring.client.http import HttpClient
from mooring.client.informer import Scope
from support.builders import claim_body, pod_body

#: Which measurement a pod or a claim belongs to.
LABEL = "bench"
#: Seconds for the first pod, which shows that the scheduler has read everything there is.
WARM_UP_SECONDS = 120.0
#: A measurement begins when all processes together use at most this share of a core, over this many seconds; after
#: this many checks it begins in any case.
QUIET_CORES = 0.15
QUIET_SECONDS = 0.5
QUIET_LOOKS = 20


class Run:
    """`process` is the one that is measured, as `metering` calls it; `name` must be of this run alone."""

    def __init__(self, client: HttpClient, *, name: str, process: str, timeout: float) -> None:
        self._client = client
        self._name = name
        self._process = process
        self._timeout = timeout

    def names(self, count: int) -> list[str]:
        """Of pods and their claims."""
        return [f"{self._name}-{number}" for number in range(count)]

    async def place(
        self, what: str, side: str, *, nodes: int, scheduler: str, count: int, of_class: str, with_claims: bool
    ) -> Outcome:
        """Pods for a scheduler, each with a claim or without any. Claims of a class are created first; without a class
        they exist."""
        await self._warm_up(scheduler)
        names = self.names(count)
        if of_class:
            claims = [claim_body(name=name, storage_class=of_class, size="1Gi") for name in names]
            await create_all(self._client, CLAIM, claims, NAMESPACE)
        pods = [self._pod(name, scheduler, [name] if with_claims else []) for name in names]
        try:
            return await self._measure(what, side, nodes, POD, pods, lambda pod: bool(pod.spec.node_name))
        finally:
            await self._remove(names)

    async def bind(self, what: str, side: str, *, count: int, of_class: str) -> Outcome:
        """Claims of a class with as many volumes, for a PV controller."""
        claims = [
            claim_body(name=f"{self._name}-{number}", storage_class=of_class, size="1Gi", labels={LABEL: self._name})
            for number in range(count)
        ]
        return await self._measure(what, side, 0, CLAIM, claims, lambda claim: claim.status.phase == "Bound")

    def _pod(self, name: str, scheduler: str, claims: Sequence[str]) -> dict[str, Any]:
        return pod_body(name=name, scheduler=scheduler, claims=claims, labels={LABEL: self._name})

    async def _warm_up(self, scheduler: str) -> None:
        name = f"{self._name}-first"
        body = pod_body(name=name, scheduler=scheduler, labels={LABEL: name})
        done = asyncio.create_task(self._seen(POD, name, 1, lambda pod: bool(pod.spec.node_name), WARM_UP_SECONDS))
        await create_all(self._client, POD, [body], NAMESPACE)
        if not (await done).count:
            raise RuntimeError(f"{scheduler} placed nothing in {WARM_UP_SECONDS:.0f} s")
        await self._remove([name])

    async def _quiet(self) -> None:
        """Wait until all processes have processed the preparation, including their events."""
        for _ in range(QUIET_LOOKS):
            before = metering.usage()
            await asyncio.sleep(QUIET_SECONDS)
            used = metering.spent(before, metering.usage())
            if sum(one.cpu_seconds for one in used.values()) < QUIET_CORES * QUIET_SECONDS:
                return

    async def _measure(
        self,
        what: str,
        side: str,
        nodes: int,
        kind: Kind[Any],
        bodies: Sequence[dict[str, Any]],
        is_done: Callable[[Any], bool],
    ) -> Outcome:
        await self._quiet()
        before = metering.usage()
        began = time.monotonic()
        watching = asyncio.create_task(self._seen(kind, self._name, len(bodies), is_done, self._timeout))
        await create_all(self._client, kind, bodies, NAMESPACE)
        done = await watching
        used = metering.spent(before, metering.usage())
        measured = used[self._process]
        return Outcome(
            what=what,
            side=side,
            nodes=nodes,
            asked=len(bodies),
            done=done.count,
            seconds=done.last - began,
            cpu_seconds=measured.cpu_seconds,
            peak_bytes=measured.peak_bytes,
            cpu_by_process={name: one.cpu_seconds for name, one in used.items()},
        )

    async def _seen(
        self, kind: Kind[Any], label: str, count: int, is_done: Callable[[Any], bool], timeout: float
    ) -> Seen:
        scope = Scope(namespace=NAMESPACE, labels=f"{LABEL}={label}")
        return await seen(self._client, kind, scope, is_done, count=count, timeout=timeout)

    async def _remove(self, pods: Sequence[str]) -> None:
        """Delete the objects, so that the next run begins with empty nodes and queues."""
        limit = asyncio.Semaphore(AT_ONCE)

        async def remove(name: str) -> None:
            async with limit:
                try:
                    await self._client.delete(POD, name, namespace=NAMESPACE, grace_seconds=0)
                except NotFound:
                    return

        await asyncio.gather(*(remove(name) for name in pods))
