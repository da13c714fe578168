"""Mooring components against a real API server inside a block."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from mooring.client.http import HttpClient
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.clock import SystemClock
from mooring.control.component import Component, Context, run_together
from mooring.control.feature_gates import DEFAULTS, FeatureGates


@asynccontextmanager
async def running(
    client: HttpClient, builds: Sequence[Callable[[Context], Component]], *, gates: FeatureGates = DEFAULTS
) -> AsyncIterator[None]:
    clock, rng = SystemClock(), random.Random(1)
    informers = Informers(client, clock, rng)
    recorder = EventRecorder(client, clock, "mooring", rng)
    components = [build(Context(client, informers, recorder, clock, rng, gates)) for build in builds]
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(informers.run()),
            group.create_task(recorder.run()),
            group.create_task(run_together(components)),
        ]
        yield
        for task in tasks:
            task.cancel()
