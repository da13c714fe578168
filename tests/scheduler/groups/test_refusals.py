"""Requests of the group path that are refused again and again: every loop pauses, and the gang runs once it may.

The real scheduler, coordinator and PV controller. Requests are counted, so that a loop without a pause fails even where
each of its rounds takes some time.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Unpack

import pytest

from mooring.api.errors import AlreadyExists, ApiError, Conflict, Forbidden, ServiceUnavailable, TooManyRequests
from mooring.api.kinds import POD, VOLUME, Kind
from mooring.api.patches.contract import Patch
from mooring.client.contract import Deletion, ObjectList, Unreachable, V
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.scheduler.component import Scheduler
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.volumes.binding import HOLD_NAMESPACE
from mooring.volumes.holds import group_record, objects
from support.builders import volume_body
from support.builders.held_groups import GATES, HeldGroup, coordinator
from support.partial_control_plane import Plane, run_plane
from support.partial_control_plane.counting import CountingClient

REFUSED_SECONDS = 120.0
#: Three components that look twice a second at most make some hundreds.
MOST_REQUESTS = 1500


class RefusingClient(CountingClient):
    """Fails requests by `verb plural`, for as long as they are listed."""

    def __init__(self, api: ApiServer, user: User, counted: Counter[str], refused: dict[str, Exception]) -> None:
        super().__init__(api, user, counted)
        self._refused = refused

    def _check(self, verb: str, plural: str, namespace: str = HOLD_NAMESPACE) -> None:
        error = self._refused.get(f"{verb} {plural}")
        if error is not None and (plural != "configmaps" or namespace == HOLD_NAMESPACE):
            self._counted[f"{verb} {plural}"] += 1
            raise error

    async def get(self, kind: Kind[V], name: str, *, namespace: str = "") -> V:
        self._check("get", kind.plural, namespace)
        return await super().get(kind, name, namespace=namespace)

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> ObjectList[V]:
        if labels:
            self._check("list", kind.plural)
        return await super().list(kind, namespace=namespace, labels=labels, fields=fields)

    async def create(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "") -> V:
        self._check("create", kind.plural, namespace)
        return await super().create(kind, body, namespace=namespace)

    async def patch(self, kind: Kind[V], name: str, patch: Patch, *, namespace: str = "", subresource: str = "") -> V:
        self._check("patch", f"{kind.plural}/{subresource}" if subresource else kind.plural, namespace)
        return await super().patch(kind, name, patch, namespace=namespace, subresource=subresource)

    async def delete(self, kind: Kind[V], name: str, *, namespace: str = "", **options: Unpack[Deletion]) -> None:
        self._check("delete", kind.plural, namespace)
        await super().delete(kind, name, namespace=namespace, **options)

    async def bind(self, pod: str, *, namespace: str, uid: str, node: str) -> None:
        self._check("bind", "pods")
        await super().bind(pod, namespace=namespace, uid=uid, node=node)


async def is_running(group: HeldGroup) -> bool:
    pods = [await group.plane.get(POD, f"g-{number}") for number in range(group.size)]
    return all(pod.spec.node_name for pod in pods)


def run_refused(refused: Mapping[str, Exception], *, malformed: bool = False) -> Counter[str]:
    """Requests while these are refused; afterwards the gang must run."""
    requests: Counter[str] = Counter()
    active: dict[str, Exception] = {}

    async def scenario(plane: Plane) -> None:
        group = HeldGroup(plane, 0, 3, "")
        await group.begin()
        group.size = 3
        for number in range(3):
            await plane.client.create(
                VOLUME, volume_body(name=f"pv-{number}", node="n1", storage_class="fast", size="10Gi")
            )
        await plane.pass_time(10)
        name = group_record.record_name(group.uid)
        if malformed:
            await plane.client.create(objects.INTENT_RECORD, {"metadata": {"name": name}}, namespace=HOLD_NAMESPACE)
        active.update(refused)
        requests.clear()
        for number in range(3):
            await group.member(number)
        await plane.pass_time(REFUSED_SECONDS)
        active.clear()
        counted.update(requests)
        if malformed:
            await plane.client.delete(objects.INTENT_RECORD, name, namespace=HOLD_NAMESPACE)
        await plane.until(lambda: is_running(group), within=120)

    counted: Counter[str] = Counter()
    run_plane(
        [Scheduler, coordinator, PersistentVolumeController],
        scenario,
        client=lambda api, user: RefusingClient(api, user, requests, active),
        gates=GATES,
    )
    return Counter({key: number for key, number in counted.items() if not key.endswith(("leases", "events"))})


CONFLICT = Conflict("the object has been modified")


@pytest.mark.parametrize(
    "refused",
    [
        pytest.param({"patch configmaps": CONFLICT}, id="swaps of the record are lost"),
        pytest.param({"create configmaps": AlreadyExists("exists")}, id="the record is created by others"),
        pytest.param({"create configmaps": Forbidden("no")}, id="the record is forbidden"),
        pytest.param({"get configmaps": ServiceUnavailable("later")}, id="the record is not read"),
        pytest.param({"get configmaps": ApiError("a bug of the server")}, id="the record is not read: internal error"),
        pytest.param({"list configmaps": Unreachable("lost")}, id="the coordinator gets no record"),
        pytest.param({"patch persistentvolumes": CONFLICT}, id="volumes change all the time"),
        pytest.param({"patch persistentvolumes": TooManyRequests("slow down")}, id="volumes are throttled"),
        pytest.param({"list persistentvolumes": ApiError("a bug of the server")}, id="volumes are not listed"),
        pytest.param({"get podgroups": Forbidden("no")}, id="the coordinator may not read the group"),
        pytest.param({"patch podgroups/status": CONFLICT}, id="the condition is not written"),
        pytest.param({"bind pods": CONFLICT}, id="pods are not bound"),
    ],
)
def test_refused_requests_are_repeated_with_pauses(refused: Mapping[str, Exception]) -> None:
    requests = run_refused(refused)
    assert sum(requests[key] for key in refused) > 0, "the request is part of the path"
    assert sum(requests.values()) < MOST_REQUESTS, requests


def test_malformed_record_stops_the_group_with_pauses() -> None:
    requests = run_refused({}, malformed=True)
    assert 0 < requests["create configmaps"] < 10
    assert sum(requests.values()) < MOST_REQUESTS, requests
