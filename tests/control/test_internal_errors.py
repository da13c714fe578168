"""An unexpected exception in a queue, loop or change handler is counted, and the object it is about gets an event."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from mooring.api.errors import Conflict
from mooring.api.kinds import CLAIM, NAMESPACE
from mooring.api.views.storage import Claim
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.cluster.local_client import LocalClient
from mooring.control.component import INTERNAL_ERROR, Context, InternalErrors
from mooring.control.invariants import Invariant, InvariantViolated
from mooring.control.metrics import Metrics
from mooring.control.workqueue import WorkQueue, repeat, work
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.store.watch_cache import MemoryStore
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import VirtualClock
from support.builders import claim_body
from support.partial_control_plane import Plane

#: Runs until cancelled, and calls the function with every claim.
Place = Callable[[Context, Callable[[Claim], None]], Awaitable[None]]


async def queue(context: Context, handle: Callable[[Claim], None]) -> None:
    await _work(context, context.work_queue("claims", CLAIM), lambda claim: claim.key, handle)


async def queue_by_uid(context: Context, handle: Callable[[Claim], None]) -> None:
    claims = context.informers.of(CLAIM)

    def find(uid: str) -> Claim | None:
        return next((claim for claim in claims.items() if claim.uid == uid), None)

    await _work(context, context.work_queue("claims", CLAIM, find=find), lambda claim: claim.uid, handle)


async def queue_of_other_keys(context: Context, handle: Callable[[Claim], None]) -> None:
    await _work(context, context.work_queue("claims"), lambda claim: claim.key, handle)


async def _work(
    context: Context, keys: WorkQueue[str], key_of: Callable[[Claim], str], handle: Callable[[Claim], None]
) -> None:
    claims = context.informers.of(CLAIM)

    async def sync(key: str) -> None:
        handle(next(claim for claim in claims.items() if key_of(claim) == key))

    for claim in claims.items():
        keys.add(key_of(claim))
    await work(keys, sync, workers=1, name="controller")


async def step(context: Context, handle: Callable[[Claim], None]) -> None:
    async def look() -> None:
        # The poisoned one is the last: a bug ends the step.
        for claim in sorted(context.informers.of(CLAIM).items(), key=lambda claim: claim.name == "poison"):
            handle(claim)

    await repeat(look, lambda: context.clock.sleep(60.0), name="resync", report=context.internal_error)


async def step_by_object(context: Context, handle: Callable[[Claim], None]) -> None:
    async def look() -> None:
        for claim in context.informers.of(CLAIM).items():
            with context.isolate_errors("resync", claim, CLAIM):
                handle(claim)

    await repeat(look, lambda: context.clock.sleep(60.0), name="resync", report=context.internal_error)


async def handler(context: Context, handle: Callable[[Claim], None]) -> None:
    context.informers.of(CLAIM).on_change(lambda before, after: handle(after) if after is not None else None)
    await asyncio.Event().wait()


def in_place(place: Place, handle: Callable[[Claim], None]) -> tuple[Metrics, list[str]]:
    """The metrics, and the events of the claim `poison`, after a place was at work for a while."""

    async def main(clock: VirtualClock) -> tuple[Metrics, list[str]]:
        rng, metrics = random.Random(0), Metrics(clock)
        client = LocalClient(ApiServer(MemoryStore(), clock, rng), User("tester", ("system:masters",)))
        plane = Plane(client, clock)
        await plane.create(NAMESPACE, {"metadata": {"name": "default"}})
        count = metrics.count_internal_error
        recorder = EventRecorder(client, clock, "tester", rng, count_internal_error=count)
        informers = Informers(client, clock, rng, report=InternalErrors(recorder, count))
        context = Context(client, informers, recorder, clock, rng, observer=metrics.queue, count_internal_error=count)
        for name in ("a", "poison", "z"):
            await plane.create(CLAIM, claim_body(name=name))
        informers.of(CLAIM)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(informers.run()), group.create_task(recorder.run())]
            await informers.wait_synced()
            tasks.append(group.create_task(_run(place, context, handle)))
            await plane.pass_time(30.0)
            assert not tasks[-1].done(), "it must go on"
            events = await plane.events_about("poison")
            for task in tasks:
                task.cancel()
        return metrics, events

    return virtual_time.run_in_virtual_time(main)


async def _run(place: Place, context: Context, handle: Callable[[Claim], None]) -> None:
    await place(context, handle)


def counted(metrics: Metrics, name: str) -> float | None:
    return metrics.registry.get_sample_value("mooring_internal_errors_total", {"name": name})


@pytest.mark.parametrize(
    ("place", "name", "about"),
    [
        pytest.param(queue, "claims", True, id="queue of objects"),
        pytest.param(queue_by_uid, "claims", True, id="queue of uids"),
        pytest.param(queue_of_other_keys, "claims", False, id="queue of other keys"),
        pytest.param(step, "resync", False, id="step of a loop"),
        pytest.param(step_by_object, "resync", True, id="one object in a step of a loop"),
        pytest.param(handler, "informer of persistentvolumeclaims", True, id="change handler"),
    ],
)
def test_unexpected_exception_is_counted_and_the_others_go_on(place: Place, name: str, about: bool) -> None:
    handled: list[str] = []

    def handle(claim: Claim) -> None:
        if claim.name == "poison" and "poison" not in handled:
            handled.append("poison")
            raise LookupError("a bug")
        handled.append(claim.name)

    metrics, events = in_place(place, handle)
    assert {"a", "poison", "z"} <= set(handled)
    assert counted(metrics, name) == 1.0
    text = f"{INTERNAL_ERROR}: internal error in {name}: LookupError: a bug"
    assert events == ([text] if about else [])


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(Conflict("modified"), id="refusal"),
        pytest.param(
            InvariantViolated(Invariant.COMMIT_MATCHES_CLAIM, "counted where it was raised"), id="invariant violated"
        ),
    ],
)
def test_expected_exception_in_a_loop_over_objects_is_not_counted(error: Exception) -> None:
    def handle(claim: Claim) -> None:
        if claim.name == "poison":
            raise error

    metrics, events = in_place(step_by_object, handle)
    assert counted(metrics, "resync") is None
    assert events == []


def test_event_that_cannot_be_written_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*given: object) -> None:
        raise LookupError("a bug in the recorder")

    monkeypatch.setattr(EventRecorder, "_put", broken)

    def handle(claim: Claim) -> None:
        if claim.name == "poison":
            raise LookupError("a bug")

    metrics, events = in_place(handler, handle)
    assert counted(metrics, "events of tester") == 1.0
    assert events == []
