"""A pod whose handling raises is set aside, with an event and a metric, while the others go on."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import pytest
from prometheus_client import CollectorRegistry

from mooring.api import errors
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.views.pods import Pod
from mooring.scheduler.cluster_events import QueueingHint
from mooring.scheduler.component import FAILED, Scheduler
from mooring.scheduler.framework.interface import CycleState, NodeRejection
from mooring.scheduler.plugins.volume_binding import VolumeBinding
from mooring.scheduler.registry import DEFAULT
from mooring.volumes.binding import BindingPlan
from support.builders import claim_body, class_body, node_body, pod_body, volume_body
from support.scheduler.cluster import SmallWorld, in_world

PROFILE = "default-scheduler"


class Poisoned:
    """A plugin with a bug that pods of one name bring about."""

    name = "Poisoned"
    events_to_register: Iterable[QueueingHint] = ()

    def __init__(self, where: str) -> None:
        self._where = where

    def filter(self, cycle: CycleState) -> Iterable[NodeRejection]:
        self._fail_if("filter", cycle.pod)
        return ()

    def reserve(self, cycle: CycleState, node: str) -> BindingPlan:
        self._fail_if("reserve", cycle.pod)
        return VolumeBinding().reserve(cycle, node)

    def _fail_if(self, where: str, pod: Pod) -> None:
        if where == self._where and pod.name == "poison":
            raise LookupError("a bug in a plugin")


def with_scheduler(scenario: Callable[[SmallWorld, CollectorRegistry], Awaitable[None]], *, poisoned: str = "") -> None:
    async def whole(world: SmallWorld) -> None:
        world.put(NODE, node_body(name="n1"))
        registry = CollectorRegistry()
        profiles = {PROFILE: DEFAULT.with_first_plugins(Poisoned(poisoned))}
        task = asyncio.create_task(Scheduler(world.context, profiles=profiles, registry=registry).run())
        try:
            await world.settle()
            await scenario(world, registry)
            assert not task.done(), "the scheduler must not stop"
        finally:
            task.cancel()

    in_world(whole)


def internal_errors(registry: CollectorRegistry, stage: str) -> float:
    return registry.get_sample_value("mooring_scheduler_internal_errors_total", {"stage": stage}) or 0.0


@pytest.mark.parametrize("where", ["filter", "reserve"])
def test_decision_error_affects_one_pod_only(where: str) -> None:
    async def scenario(world: SmallWorld, registry: CollectorRegistry) -> None:
        world.put(POD, pod_body(name="poison"))
        world.put(POD, pod_body(name="sound"))
        await world.settle(0.5)
        assert world.node_of("sound") == "n1"
        assert internal_errors(registry, "decision") == 1.0
        assert world.recorder.messages(FAILED) == ["internal error in decision: LookupError: a bug in a plugin"]
        [condition] = world.body(POD, "poison")["status"]["conditions"]
        assert (condition["type"], condition["reason"]) == ("PodScheduled", "SchedulerError")
        await world.settle(300.0)
        assert 5 <= internal_errors(registry, "decision") <= 60, "it is tried again, with growing pauses"

    with_scheduler(scenario, poisoned=where)


def test_binding_error_releases_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: SmallWorld, registry: CollectorRegistry) -> None:
        bind = world.client.bind

        async def broken(pod: str, *, namespace: str, uid: str, node: str) -> None:
            if pod == "poison":
                raise LookupError("a bug in the binder")
            await bind(pod, namespace=namespace, uid=uid, node=node)

        monkeypatch.setattr(world.client, "bind", broken)
        world.put(POD, pod_body(name="poison", requests={"cpu": "3"}))
        await world.settle(0.1)
        world.put(POD, pod_body(name="sound", requests={"cpu": "3"}))
        await world.settle(0.5)
        assert world.node_of("sound") == "n1", "there is room for one of them"
        assert internal_errors(registry, "binding") == 1.0
        assert "internal error in binding: LookupError: a bug in the binder" in world.recorder.messages(FAILED)

    with_scheduler(scenario)


@pytest.mark.parametrize(
    "refusal",
    [pytest.param(kind("no"), id=str(kind.code)) for kind in (*errors.FAMILY, errors.ApiError)],
)
@pytest.mark.parametrize("request_line", ["get leases", "patch persistentvolumes", "bind", "get persistentvolumes"])
def test_any_refusal_while_binding_fails_one_attempt_only(refusal: errors.ApiError, request_line: str) -> None:
    """A pod with two claims asks whether a coordinator is there: one 500 or 401 as the answer ended the process."""

    async def scenario(world: SmallWorld, registry: CollectorRegistry) -> None:
        world.put(STORAGE_CLASS, class_body())
        for name in ("a", "b"):
            world.put(VOLUME, volume_body(name=name, node="n1"))
            world.put(CLAIM, claim_body(name=name))
        world.client.faults[request_line] = [refusal]
        if request_line == "get persistentvolumes":
            world.client.faults["patch persistentvolumes"] = [errors.ApiError("first")]
        world.put(POD, pod_body(claims=["a", "b"]))
        for _ in range(40):
            await world.settle(1.0)
            world.finish_bindings()
        assert world.node_of("pod-1") == "n1"
        assert internal_errors(registry, "binding") == 0.0

    with_scheduler(scenario)
