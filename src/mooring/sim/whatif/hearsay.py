"""What components say about objects, kept in memory instead of as Event objects: the last warning about each.

In a what-if world nobody watches events, and writing them would cost a third of the run.
"""

import asyncio
import random

from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Client
from mooring.client.recorder import WARNING, EventRecorder
from mooring.clock import Clock


class Hearsay(EventRecorder):
    """One for all components: what matters is what was said last."""

    def __init__(self, client: Client, clock: Clock, rng: random.Random) -> None:
        super().__init__(client, clock, "what-if", rng)
        self._warnings: dict[tuple[str, str], dict[str, str]] = {}

    def record(self, regarding: ApiObject, kind: Kind[ApiObject], event_type: str, reason: str, message: str) -> None:
        if event_type == WARNING:
            self._warnings.setdefault((kind.kind, regarding.key), {})[reason] = message

    def warning(self, kind: Kind[ApiObject], key: str, reason: str) -> str:
        """The last warning of a reason about an object; "" where there was none."""
        return self._warnings.get((kind.kind, key), {}).get(reason, "")

    async def run(self) -> None:
        """Nothing is written."""
        await asyncio.Event().wait()
