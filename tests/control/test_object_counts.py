"""What counts as remembered, and how it is shown."""

import asyncio
import random
from collections import deque
from functools import partial

import msgspec

from mooring.api.kinds import POD
from mooring.api.views.pods import Pod
from mooring.client.event_series import EventBudget
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.clock import SystemClock
from mooring.control.component import ComponentGroup, Context
from mooring.control.metrics import Metrics
from mooring.control.object_counts import remembered
from mooring.control.workqueue import WorkQueue
from mooring.volumes.topology import TopologyIndex
from support.builders import pod_body
from support.fake_api_server import FakeApiServer
from support.fake_client import FakeClient


def a_context() -> Context:
    clock, rng = SystemClock(), random.Random(1)
    client = FakeClient(FakeApiServer())
    return Context(client, Informers(client, clock, rng), EventRecorder(client, clock, "x", rng), clock, rng)


class Part:
    """As components are made: of queues, sets, parts, and callbacks that know parts."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._by_node: dict[str, list[str]] = {}
        self._waiting: deque[str] = deque()

    def note(self, name: str) -> None:
        self._seen.add(name)


Part.__module__ = "mooring.test"


class Whole:
    name = "whole"
    ready = True

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pods = context.informers
        self._part = Part()
        self._other = Part()
        self._notify = self._other.note
        self._later = partial(Part.note, Part())
        self.queue: WorkQueue[str] = context.work_queue("whole")

    async def run(self) -> None:
        await asyncio.Event().wait()


Whole.__module__ = "mooring.test"


async def test_every_container_is_counted_and_what_is_shared_is_not() -> None:
    whole = Whole(a_context())
    assert sum(remembered(ComponentGroup("all", [whole])).values()) == 1, "the component itself, in a list"
    whole._part.note("a")
    whole._part._by_node["n"] = ["p", "q"]
    whole._notify("b")
    whole._later("c")
    whole.queue.add("default/p")
    whole._context.recorder.record(_pod(), POD, "Normal", "Said", "something")
    counted = {path: count for path, count in remembered(whole).items() if count}
    assert counted == {
        "part.seen": 1,
        "part.by_node": 3,
        "other.seen": 1,
        "later.seen": 1,
        "queue.waiting": 1,
    }
    assert not [path for path in counted if "context" in path]
    assert sum(remembered(whole._context.recorder).values()) > 0, "it is a root of its own"


def test_only_a_deep_count_looks_into_many_entries() -> None:
    part = Part()
    part._by_node = {f"n{number}": ["p"] for number in range(1000)}
    assert remembered(part)["by_node"] == 1000
    assert remembered(part, deep=True)["by_node"] == 2000


def test_parts_with_slots_are_looked_into() -> None:
    budget = EventBudget()
    budget.take("uid", 0.0)
    assert sum(remembered(budget).values()) == 1
    topology = TopologyIndex()
    topology.put("n1", {"a": "b"})
    assert sum(remembered(topology, deep=True).values()) > 0


async def test_informer_caches_are_counted_and_their_handlers_are_not() -> None:
    api = FakeApiServer()
    informers = Informers(FakeClient(api), SystemClock(), random.Random(1))
    part = Part()
    pods = informers.of(POD)
    await FakeClient(api).create(POD, pod_body(name="a"), namespace="default")
    running = asyncio.create_task(informers.run())
    await pods.synced.wait()
    await pods.subscribe(lambda _, after: part.note(after.name if after else ""))
    before = sum(remembered(informers, deep=True).values())
    await FakeClient(api).create(POD, pod_body(name="b"), namespace="default")
    async with asyncio.timeout(5):
        while pods.get("default/b") is None:  # noqa: ASYNC110  # told by the informer's own task
            await asyncio.sleep(0.01)
    assert sum(remembered(informers, deep=True).values()) == before + 2, "in the cache and among the newest changes"
    running.cancel()


async def test_it_is_a_metric_by_component_and_attribute() -> None:
    metrics = Metrics(SystemClock())
    whole = Whole(a_context())
    whole._part.note("a")
    metrics.memory.add("whole", whole)
    assert b'mooring_remembered_objects{component="whole",what="part"} 1.0' in metrics.expose()


def _pod() -> Pod:
    return POD.decode(msgspec.json.encode(pod_body(name="p")))
