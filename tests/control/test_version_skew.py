"""Processes that announce themselves and report each other, against the real API server in memory."""

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from mooring.api.errors import Forbidden
from mooring.api.kinds import LEASE, NAMESPACE, Kind
from mooring.client.contract import ObjectList, V
from mooring.clock import Clock
from mooring.cluster.local_client import LocalClient
from mooring.control.component import Component, Context
from mooring.control.component_info import ComponentInfo
from mooring.control.feature_gates import CLAIM_ROLLBACK, FeatureRollout, parse_feature_gates
from mooring.control.version_skew import VersionSkewMonitor
from support.partial_control_plane import Build, Plane, flaky, run_plane
from support.provisioner.crashing_process import alive

SKEW = "VolumeScheduling is true in controller and false in scheduler, and both have to agree on it"


def watch(process: str, component: str, gates: str = "", registry: CollectorRegistry | None = None) -> Build:
    def build(context: Context) -> Component:
        mine = ComponentInfo(process, "1.0", parse_feature_gates(gates), frozenset({component}))
        return VersionSkewMonitor(context, mine, registry=registry)

    return build


@pytest.mark.parametrize("share", [pytest.param(0.0, id="on a good day"), pytest.param(0.3, id="with lost answers")])
@pytest.mark.req("T35.skew")
@pytest.mark.level("s")
def test_gates_that_do_not_fit_are_reported_once(share: float) -> None:
    registry = CollectorRegistry()

    async def scenario(plane: Plane) -> None:
        await plane.client.create(NAMESPACE, {"metadata": {"name": "kube-system"}})
        await plane.pass_time(1000.0)
        assert SKEW in [
            line.removeprefix("ComponentSkew: ") for line in await plane.events_about("scheduler-announcement")
        ]
        assert registry.get_sample_value("mooring_component_skew", {"process": "scheduler"}) == 1.0
        assert len(await plane.events_about("scheduler-announcement")) == 1

    builds = [
        watch("controller", "persistentvolume-controller", registry=registry),
        watch("scheduler", "scheduler", "VolumeScheduling=false"),
    ]
    run_plane(builds, scenario, client=flaky(share))


def test_component_with_an_expired_lease_is_not_counted() -> None:
    registry = CollectorRegistry()
    body = ComponentInfo("scheduler", "0.9", parse_feature_gates(""), frozenset({"scheduler"})).body(
        now="2026-01-01T00:00:00.000000Z"
    )

    async def scenario(plane: Plane) -> None:
        await plane.client.create(NAMESPACE, {"metadata": {"name": "kube-system"}})
        await plane.client.create(LEASE, body, namespace="kube-system")
        await plane.pass_time(30.0)
        assert registry.get_sample_value("mooring_component_skew", {"process": "scheduler"}) == 1.0
        await plane.pass_time(200.0)
        assert registry.get_sample_value("mooring_component_skew", {"process": "scheduler"}) == 0.0

    run_plane([watch("controller", "persistentvolume-controller", registry=registry)], scenario)


def test_processes_that_fit_together_say_nothing() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.client.create(NAMESPACE, {"metadata": {"name": "kube-system"}})
        await plane.pass_time(600.0)
        assert await plane.events_about("scheduler-announcement") == []
        assert await plane.names(LEASE) == ["controller-announcement", "scheduler-announcement"]

    run_plane([watch("controller", "persistentvolume-controller"), watch("scheduler", "scheduler")], scenario)


class WrongClock:
    """A component's own clock, so many seconds off the others'."""

    def __init__(self, clock: Clock, ahead: float) -> None:
        self._clock = clock
        self._ahead = ahead
        self.monotonic = clock.monotonic
        self.sleep = clock.sleep

    def now(self) -> float:
        return self._clock.now() + self._ahead


@pytest.mark.parametrize(
    ("ahead", "side"), [pytest.param(3600.0, "ahead of", id="ahead"), pytest.param(-3600.0, "behind", id="behind")]
)
@pytest.mark.req("T35.clocks")
@pytest.mark.level("s")
def test_a_clock_that_is_wrong_is_reported_once(ahead: float, side: str) -> None:
    registry = CollectorRegistry()

    def wrong(context: Context) -> Component:
        mine = ComponentInfo("scheduler", "1.0", parse_feature_gates(""), frozenset({"scheduler"}))
        return VersionSkewMonitor(replace(context, clock=WrongClock(context.clock, ahead)), mine)

    async def scenario(plane: Plane) -> None:
        await plane.client.create(NAMESPACE, {"metadata": {"name": "kube-system"}})
        await plane.pass_time(600.0)
        [said] = await plane.events_about("scheduler-announcement")
        assert f"the clock of scheduler is more than 5 s {side} that of controller" in said
        assert registry.get_sample_value("mooring_component_skew", {"process": "scheduler"}) == 1.0

    run_plane([watch("controller", "persistentvolume-controller", registry=registry), wrong], scenario)


@pytest.mark.req("T35.versions")
@pytest.mark.level("s")
def test_a_provisioner_of_another_version_is_reported_and_one_per_node_tells_its_log() -> None:
    """One per node compares, seldom, and writes nothing: a thousand of them must not cost anything."""

    def provisioner(context: Context) -> Component:
        mine = ComponentInfo(
            "mooring-provisioner-x", "0.9", parse_feature_gates(""), frozenset({"mooring-provisioner"})
        )
        return VersionSkewMonitor(context, mine, namespace="mooring-system", announces=False)

    def coordinator(context: Context) -> Component:
        mine = ComponentInfo("mooring-coordinator", "1.0", parse_feature_gates(""), frozenset({"mooring-coordinator"}))
        return VersionSkewMonitor(context, mine, namespace="mooring-system")

    async def scenario(plane: Plane) -> None:
        await plane.client.create(NAMESPACE, {"metadata": {"name": "mooring-system"}})
        await plane.pass_time(1300.0)
        assert await plane.names(LEASE) == ["mooring-coordinator-announcement"]
        assert await plane.events_about("mooring-coordinator-announcement") == []

    with capture_logs() as logs:
        run_plane([provisioner, coordinator], scenario)
    told = [line["reason"] for line in logs if line["event"] == "component skew detected"]
    assert told == ["mooring-provisioner-x is of version 0.9, mooring-coordinator of version 1.0"]


class Instances:
    """Monitors of several instances, each with its own view of what is held back."""

    def __init__(self) -> None:
        self.contexts: dict[str, Context] = {}
        self.monitors: dict[str, VersionSkewMonitor] = {}
        self.leading: set[str] = set()

    def build(self, process: str, component: str, instance: str, gates: str = "ClaimRollback=true") -> Build:
        def build(context: Context) -> Component:
            parsed = parse_feature_gates(gates)
            context = self.contexts[instance] = replace(context, gates=parsed, rollout=FeatureRollout())
            mine = ComponentInfo(process, "1.0", parsed, frozenset({component}))
            self.monitors[instance] = VersionSkewMonitor(
                context, mine, instance=instance, leads=lambda: instance in self.leading
            )
            return self.monitors[instance]

        return build

    def active(self) -> set[str]:
        return {name for name, context in self.contexts.items() if context.is_active(CLAIM_ROLLBACK)}


@pytest.mark.parametrize(
    "share", [pytest.param(0.0, id="all requests succeed"), pytest.param(0.3, id="lost responses")]
)
@pytest.mark.req("T35.upgrade", "T35.downgrade")
@pytest.mark.level("s")
def test_feature_is_active_only_while_every_instance_announces_it(share: float) -> None:
    all_instances = Instances()
    older = Instances()
    builds = [
        all_instances.build("scheduler", "scheduler", "s1"),
        all_instances.build("scheduler", "scheduler", "s2"),
        all_instances.build("controller", "persistentvolume-controller", "c1"),
    ]
    all_instances.leading = {"s1", "c1"}

    async def scenario(plane: Plane) -> None:
        assert all_instances.active() == set(), "nothing is known before the first comparison"
        await plane.client.create(NAMESPACE, {"metadata": {"name": "kube-system"}})
        await plane.pass_time(90.0)
        assert all_instances.active() == {"s1", "s2", "c1"}
        # A standby of an older version joins, and never leads.
        standby = older.build("scheduler", "scheduler", "s3", "ClaimRollback=false")
        async with alive(plane, standby):
            await plane.pass_time(90.0)
            assert all_instances.active() == set()
        # Its announcement expires: it was killed.
        await plane.pass_time(300.0)
        assert all_instances.active() == {"s1", "s2", "c1"}
        lease = await plane.client.get(LEASE, "scheduler-announcement", namespace="kube-system")
        names = [name for name in lease.metadata.annotations if name.startswith("instance.mooring.dev/")]
        assert sorted(names) == ["instance.mooring.dev/s1", "instance.mooring.dev/s2"]

    run_plane(builds, scenario, client=flaky(share))


@pytest.mark.req("T35.upgrade")
@pytest.mark.level("s")
def test_expired_instances_do_not_count_and_are_removed() -> None:
    held = Instances()
    dead = ComponentInfo("scheduler", "0.9", parse_feature_gates(""), frozenset({"scheduler"}))
    body = dead.body(now="2026-01-01T00:00:00.000000Z", instance="dead")

    async def scenario(plane: Plane) -> None:
        await plane.client.create(NAMESPACE, {"metadata": {"name": "kube-system"}})
        await plane.client.create(LEASE, body, namespace="kube-system")
        await plane.pass_time(30.0)
        assert held.active() == set(), "it may still run"
        await plane.pass_time(120.0)
        assert held.active() == {"s1"}
        lease = await plane.client.get(LEASE, "scheduler-announcement", namespace="kube-system")
        assert "instance.mooring.dev/dead" not in lease.metadata.annotations

    run_plane([held.build("scheduler", "scheduler", "s1")], scenario)


@pytest.mark.req("T35.upgrade")
@pytest.mark.level("s")
def test_without_permission_to_list_leases_components_start_and_use_their_features() -> None:
    held = Instances()

    class Denied(LocalClient):
        async def list(self, kind: Kind[V], **how: Any) -> ObjectList[V]:  # noqa: ANN401 - selectors
            if kind.plural == LEASE.plural:
                raise Forbidden("leases is forbidden")
            return await super().list(kind, **how)

    async def scenario(plane: Plane) -> None:
        await plane.client.create(NAMESPACE, {"metadata": {"name": "kube-system"}})
        await plane.pass_time(5.0)
        assert held.monitors["s1"].compared.is_set()
        assert held.active() == {"s1"}

    run_plane([held.build("scheduler", "scheduler", "s1")], scenario, client=Denied)
