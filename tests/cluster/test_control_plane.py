"""What a `--controllers` list means.

What a control plane shows of itself as a whole.
"""

import random
from collections.abc import Mapping
from typing import Any

import pytest

from mooring.api.errors import ServiceUnavailable
from mooring.api.kinds import EVENT, NODE, POD, Kind
from mooring.api.patches.contract import Patch
from mooring.client.contract import V
from mooring.clock import Clock, SystemClock
from mooring.cluster.bootstrap import Layout
from mooring.cluster.control_plane import (
    CONTROLLERS,
    ControlPlane,
    NotReady,
    UnknownController,
    chosen,
    running_control_plane,
)
from mooring.cluster.local_client import LocalClient
from mooring.nodeagent import node_objects
from mooring.nodeagent.node_objects import NodeTemplate, registration
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.store.watch_cache import MemoryStore
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import VirtualClock
from support.builders import pod_body
from support.fake_api_server import FakeApiServer
from support.fake_client import FakeClient

DEFAULT = [one.name for one in CONTROLLERS if one.default]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(["*"], DEFAULT, id="all that are on by default"),
        pytest.param(
            ["*", "-statefulset-controller"],
            [name for name in DEFAULT if name != "statefulset-controller"],
            id="all but one",
        ),
        pytest.param(["statefulset-controller"], ["statefulset-controller"], id="one alone"),
        pytest.param(
            ["*", "namespace-controller"],
            [one.name for one in CONTROLLERS if one.default or one.name == "namespace-controller"],
            id="one more",
        ),
        pytest.param([], [], id="none"),
    ],
)
def test_lists(names: list[str], expected: list[str]) -> None:
    assert [one.name for one in chosen(names)] == expected


def test_unknown_controller_name_is_an_error_listing_the_known() -> None:
    with pytest.raises(UnknownController, match=r"'-stateful' is not in the list of known controllers: .*statefulset-"):
        chosen(["*", "-stateful"])


def test_controllers_have_distinct_names_and_sources() -> None:
    for field in ("name", "source"):
        values = [getattr(one, field) for one in CONTROLLERS]
        assert len(values) == len(set(values))


def test_the_metrics_of_all_components_are_exposed_together() -> None:
    client = FakeClient(FakeApiServer())
    plane = ControlPlane(lambda _: client, Layout(), clock=SystemClock(), rng=random.Random(0))
    exposed = plane.metrics.expose().decode()
    assert 'scheduler_pending_pods{queue="active"} 0.0' in exposed
    assert 'workqueue_depth{name="pod_conditions"} 0.0' in exposed


class SlowEventClient(LocalClient):
    """A client whose events are written slowly."""

    def __init__(self, api: ApiServer, clock: Clock) -> None:
        super().__init__(api, User("tester", ("system:masters",)))
        self._clock = clock

    async def create(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "") -> V:
        if kind is EVENT:
            await self._clock.sleep(1.0)
        return await super().create(kind, body, namespace=namespace)


def test_the_last_events_are_written_before_it_stops() -> None:
    async def main(clock: VirtualClock) -> None:
        api = ApiServer(MemoryStore(), clock, random.Random(0))
        client = SlowEventClient(api, clock)
        async with running_control_plane(
            ControlPlane(lambda _: client, Layout(nodes=0), clock=clock, rng=random.Random(0))
        ):
            await client.create(POD, pod_body(name="last"), namespace="default")
            await clock.sleep(0.5)
        told = await client.list(EVENT, namespace="default")
        assert ("last", "FailedScheduling") in [(one.involved_object.name, one.reason) for one in told.items]

    virtual_time.run_in_virtual_time(main)


class Registry(LocalClient):
    """Refuses what is reported of some nodes."""

    def __init__(self, api: ApiServer, refused: frozenset[str]) -> None:
        super().__init__(api, User("tester", ("system:masters",)))
        self._refused = refused

    async def create(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "") -> V:
        if kind is NODE and body["metadata"]["name"] in self._refused:
            raise ServiceUnavailable("not now")
        return await super().create(kind, body, namespace=namespace)

    async def patch(self, kind: Kind[V], name: str, patch: Patch, *, namespace: str = "", subresource: str = "") -> V:
        if kind is NODE and name in self._refused and subresource == "status":
            raise ServiceUnavailable("not now")
        return await super().patch(kind, name, patch, namespace=namespace, subresource=subresource)


def unready_at_the_start(*bodies: dict[str, Any], refused: frozenset[str] = frozenset()) -> list[str]:
    """Of a cluster of three nodes in which these Nodes are there already."""

    async def main(clock: VirtualClock) -> list[str]:
        api = ApiServer(MemoryStore(), clock, random.Random(0))
        client = Registry(api, refused)
        for body in bodies:
            await client.create(NODE, body)
        async with running_control_plane(
            ControlPlane(lambda _: client, Layout(), clock=clock, rng=random.Random(0))
        ) as plane:
            return plane.unready_nodes()

    return virtual_time.run_in_virtual_time(main)


def test_start_waits_for_every_simulated_node() -> None:
    assert unready_at_the_start() == []


def test_a_start_does_not_wait_for_nodes_that_nothing_here_reports() -> None:
    off = registration(NodeTemplate("node-1"))
    off["metadata"]["annotations"] = {node_objects.POWER: "off"}
    foreign = {"metadata": {"name": "node-2"}}
    assert unready_at_the_start(off, foreign) == ["node-1", "node-2"]


def test_a_start_goes_on_without_nodes_that_do_not_report() -> None:
    assert unready_at_the_start(refused=frozenset({"node-3"})) == ["node-3"]


def test_a_start_in_which_no_node_reports_fails() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        unready_at_the_start(refused=frozenset({"node-1", "node-2", "node-3"}))
    assert caught.group_contains(NotReady, match="any node")
