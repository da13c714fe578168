"""The scheduler's counts, as a scraper reads them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from prometheus_client import CollectorRegistry

from mooring.api.errors import Conflict
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.scheduler.component import Scheduler
from mooring.scheduler.metrics import SchedulerMetrics
from mooring.scheduler.queue import SchedulingQueue
from mooring.scheduler.registry import DEFAULT
from support.builders import claim_body, class_body, node_body, pod_body, volume_body
from support.scheduler.cluster import SmallWorld, in_world


class Scraped:
    """One scheduler for two names, and what its registry says."""

    def __init__(self, world: SmallWorld) -> None:
        self._registry = CollectorRegistry()
        profiles = {"default-scheduler": DEFAULT, "second": DEFAULT}
        self.scheduler = Scheduler(world.context, profiles=profiles, registry=self._registry)

    def value(self, name: str, **labels: str) -> float:
        value = self._registry.get_sample_value(name, labels)
        assert value is not None, f"there is no {name} {labels}"
        return value

    def counted(self, name: str, **labels: str) -> float:
        """The same, of a count whose labels appear with the first of a kind."""
        return self._registry.get_sample_value(name, labels) or 0.0

    def attempts(self, result: str, profile: str = "default-scheduler") -> float:
        return self.value("scheduler_schedule_attempts_total", result=result, profile=profile)

    def pending(self, queue: str) -> float:
        pods = self.value("scheduler_pending_pods", queue=queue)
        assert self.value("scheduler_queued_entities", queue=queue, type="pod") == pods
        return pods


def scraped(scenario: Callable[[SmallWorld, Scraped], Awaitable[None]]) -> None:
    async def whole(world: SmallWorld) -> None:
        seen = Scraped(world)
        task = asyncio.create_task(seen.scheduler.run())
        await world.settle()
        await scenario(world, seen)
        task.cancel()

    in_world(whole)


def test_everything_is_there_at_zero_from_the_start() -> None:
    async def scenario(world: SmallWorld, seen: Scraped) -> None:
        assert [seen.attempts(result, "second") for result in ("scheduled", "unschedulable", "error")] == [0, 0, 0]
        assert [seen.pending(queue) for queue in ("active", "backoff", "unschedulable", "gated")] == [0, 0, 0, 0]

    scraped(scenario)


def test_attempts_are_counted_by_result_and_profile() -> None:
    async def scenario(world: SmallWorld, seen: Scraped) -> None:
        world.put(NODE, node_body(name="n1"))
        world.put(POD, pod_body(name="small"))
        world.put(POD, pod_body(name="other", scheduler="second"))
        world.put(POD, pod_body(name="huge", requests={"cpu": "100"}))
        world.put(POD, pod_body(name="foreign", scheduler="third"))
        await world.settle()
        assert seen.attempts("scheduled") == 1
        assert seen.attempts("scheduled", "second") == 1
        assert seen.attempts("unschedulable") == 1
        assert seen.value("scheduler_scheduling_algorithm_duration_seconds_count") == 3
        assert seen.value("scheduler_pod_scheduling_attempts_count") == 2
        labels = {"result": "scheduled", "profile": "second"}
        assert seen.value("scheduler_scheduling_attempt_duration_seconds_count", **labels) == 1
        assert world.node_of("foreign") == ""

    scraped(scenario)


def test_waiting_pods_are_counted_where_they_wait() -> None:
    async def scenario(world: SmallWorld, seen: Scraped) -> None:
        world.put(POD, pod_body(name="nowhere"))
        world.put(POD, pod_body(name="gated", gates=["wait"]))
        await world.settle()
        assert seen.pending("unschedulable") == 1
        assert seen.pending("gated") == 1
        world.put(NODE, node_body(name="n1"))
        await world.settle(0.1)
        # Its first backoff of a second is not over.
        assert (seen.pending("unschedulable"), seen.pending("backoff")) == (0, 1)
        await world.settle(2)
        assert seen.pending("backoff") == 0
        assert seen.value("scheduler_pod_scheduling_attempts_sum") == 2

    scraped(scenario)


def test_a_binding_that_fails_is_an_error() -> None:
    async def scenario(world: SmallWorld, seen: Scraped) -> None:

        world.put(NODE, node_body(name="n1"))
        world.client.faults["bind"] = [Conflict("modified")]
        world.put(POD, pod_body())
        await world.settle()
        assert (seen.attempts("error"), seen.attempts("scheduled")) == (1, 0)
        await world.settle(2)
        assert (seen.attempts("error"), seen.attempts("scheduled")) == (1, 1)

    scraped(scenario)


def test_bound_volumes_are_counted() -> None:
    async def scenario(world: SmallWorld, seen: Scraped) -> None:
        world.put(NODE, node_body(name="n1"))
        world.put(STORAGE_CLASS, class_body())
        world.put(VOLUME, volume_body(name="v1", node="n1"))
        world.put(CLAIM, claim_body(name="data"))
        world.put(POD, pod_body(claims=["data"]))
        await world.settle()
        world.finish_bindings()
        await world.settle()
        assert world.node_of("pod-1") == "n1"
        assert seen.value("mooring_scheduler_volume_bindings_total", kind="static") == 1
        assert seen.value("mooring_scheduler_volume_bindings_total", kind="provisioned") == 0

    scraped(scenario)


def test_every_metric_is_documented() -> None:
    registry = CollectorRegistry()
    SchedulerMetrics(registry, ["default-scheduler"], SchedulingQueue(()))
    page = (Path(__file__).parents[2] / "docs" / "scheduler.md").read_text()
    families = {family.name for family in registry.collect()}
    assert families
    assert {name for name in families if f"`{name}" not in page} == set()


def test_preemption_is_counted_with_its_victims() -> None:
    async def scenario(world: SmallWorld, seen: Scraped) -> None:
        world.put(NODE, node_body(name="n1"))
        for number in range(2):
            world.put(POD, pod_body(name=f"old-{number}", node="n1", requests={"cpu": "2"}))
        await world.settle()
        world.put(POD, pod_body(name="urgent", priority=1, requests={"cpu": "4"}))
        await world.settle()
        assert seen.value("scheduler_preemption_attempts_total") == 1
        assert seen.value("scheduler_preemption_victims_sum") == 2
        assert seen.value("scheduler_preemption_victims_count") == 1

    scraped(scenario)
