"""Which node group of an autoscaler would help the pending pods, for programs: `GET /api/node-groups?label=KEY`.

The answer is that of `mooring simulate --node-group-label KEY -o json`, from the objects that the page's client may
list. Simulations take seconds of a processor, so one runs at a time, in a thread, and its answer is given again to all
who ask for the same label within a few seconds. A question that needs too many simulations ends with an error.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from mooring.api.errors import ApiError
from mooring.api.kinds import RECENT, Kind
from mooring.api.names import check_qualified_name
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Client, Unreachable
from mooring.clock import Clock
from mooring.whatif.additions import Addition
from mooring.whatif.inventory import KINDS, BadQuestion, Inventory
from mooring.whatif.node_groups import labelled_groups, which_group
from mooring.whatif.question import WhatIfQuestion
from mooring.whatif.recording import recorded_body
from mooring.whatif.results import SimulationResult
from mooring.whatif.run import answer

PATH: Final = "/api/node-groups"
#: Seconds for which an answer is given again.
FRESH_SECONDS: Final = 10.0
#: Seconds after which no further simulation of a question begins.
MAX_SECONDS: Final = 60.0
#: Node groups of a question, questions that wait, and answers that are kept.
MAX_GROUPS: Final = 32
MAX_WAITING: Final = 4
MAX_KEPT: Final = 8

_TOO_LONG: Final = f"The simulation takes longer than {MAX_SECONDS:.0f} s: use mooring simulate --node-group-label."


class JsonAnswer(msgspec.Struct, frozen=True):
    status: int
    body: bytes


class _TakesTooLong(Exception):
    pass


class NodeGroupAdvisor:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn = asyncio.Lock()
        self._under_way: dict[str, asyncio.Task[JsonAnswer]] = {}
        #: By label, with when they were made.
        self._kept: dict[str, tuple[float, JsonAnswer]] = {}
        self._closed = False

    def close(self) -> None:
        """No further simulation begins: a process that ends waits for its threads."""
        self._closed = True

    async def answer(self, client: Client, label: str, *, namespace: str) -> JsonAnswer:
        """For the node groups that the values of a label name; `namespace` is what the page is limited to."""
        if namespace:
            return _error(409, f"The page shows namespace {namespace} only: node groups need all pods of the cluster.")
        if problems := check_qualified_name(label):
            return _error(400, f"The query needs label=KEY, the node label of node groups: {problems[0]}.")
        made, kept = self._kept.get(label, (0.0, None))
        if kept is not None and self._clock.monotonic() - made < FRESH_SECONDS:
            return kept
        task = self._under_way.get(label)
        if task is None:
            if len(self._under_way) >= MAX_WAITING:
                return _error(503, "Too many questions are in progress: try again in a moment.")
            task = asyncio.ensure_future(self._answered(client, label))
            self._under_way[label] = task
            task.add_done_callback(lambda _: self._under_way.pop(label, None))
        # A client that goes away does not take the answer from others.
        return await asyncio.shield(task)

    async def _answered(self, client: Client, label: str) -> JsonAnswer:
        async with self._turn:
            try:
                listed = [item for kind in KINDS for item in await _listed(client, kind)]
            except ApiError as error:
                return _error(502, f"Not all objects can be listed: {error.message}")
            except Unreachable as error:
                return _error(502, f"The API server cannot be reached: {error}.")
            deadline = self._clock.monotonic() + MAX_SECONDS
            may_go_on = partial(self._may_go_on, deadline)
            found = await asyncio.to_thread(_which_group, listed, label, may_go_on)
            if found.status == 200:
                self._kept[label] = (self._clock.monotonic(), found)
                while len(self._kept) > MAX_KEPT:
                    del self._kept[next(iter(self._kept))]
            return found

    def _may_go_on(self, deadline: float) -> bool:
        return not self._closed and self._clock.monotonic() < deadline


async def _listed(client: Client, kind: Kind[ApiObject]) -> list[tuple[Kind[ApiObject], ApiObject]]:
    try:
        return [(kind, item) for item in (await client.list(kind)).items]
    except ApiError:
        if kind in RECENT:
            return []
        raise


def _which_group(
    listed: Sequence[tuple[Kind[ApiObject], ApiObject]], label: str, may_go_on: Callable[[], bool]
) -> JsonAnswer:
    inventory = Inventory()

    def simulate(additions: Sequence[Addition]) -> SimulationResult:
        if not may_go_on():
            raise _TakesTooLong
        return answer(WhatIfQuestion(inventory.copied(), additions=additions))

    try:
        for kind, item in listed:
            inventory.keep(kind, recorded_body(item))
        groups = labelled_groups(inventory, label)
        if len(groups) > MAX_GROUPS:
            return _error(400, f"The label {label} has {len(groups)} values, and at most {MAX_GROUPS} are simulated.")
        return JsonAnswer(200, msgspec.json.encode(which_group(groups, simulate)))
    except BadQuestion as error:
        return _error(400, f"{error}.")
    except _TakesTooLong:
        return _error(503, _TOO_LONG)


def _error(status: int, sentence: str) -> JsonAnswer:
    return JsonAnswer(status, msgspec.json.encode({"error": f"{sentence[:1].upper()}{sentence[1:]}"}))
