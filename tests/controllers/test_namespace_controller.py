"""Namespaces that go: everything in them first, and nothing that is not theirs."""

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pytest

from mooring.api.errors import Forbidden, NotFound
from mooring.api.kinds import CLAIM, CONFIG_MAP, LEASE, NAMESPACE, POD, SECRET, SERVICE_ACCOUNT, STORED, Kind
from mooring.api.patches.contract import MergePatch
from mooring.client.contract import Client, ObjectList, V
from mooring.cluster.local_client import LocalClient
from mooring.controllers.namespace_controller import MAX_CONCURRENT_DELETES, STAGES, NamespaceController
from mooring.pvcontroller.protection import VolumeProtection
from mooring.server.api import ApiServer
from mooring.server.contract import User
from support.builders import Body, claim_body, pod_body
from support.partial_control_plane import Connect, FlakyClient, Plane, run_plane

CONTROLLER = [NamespaceController]
WITHOUT_FINALIZERS = MergePatch({"metadata": {"finalizers": None}})


async def make(plane: Plane, *names: str, **fields: object) -> None:
    """A namespace with a ConfigMap of each name."""
    await plane.client.create(NAMESPACE, {"metadata": {"name": "acc"}} | fields)
    for name in names:
        await plane.client.create(CONFIG_MAP, {"metadata": {"name": name}}, namespace="acc")


async def is_gone(plane: Plane) -> bool:
    try:
        await plane.client.get(NAMESPACE, "acc")
    except NotFound:
        return True
    return False


async def deleted(plane: Plane, *, within: float = 5.0) -> float:
    """Delete the namespace; how long it takes to go."""
    await plane.client.delete(NAMESPACE, "acc")
    return await plane.until(lambda: is_gone(plane), within=within)


async def conditions(plane: Plane) -> dict[str, str]:
    """Reason by type of the conditions that are true."""
    namespace = await plane.client.get(NAMESPACE, "acc")
    return {one.type: one.message for one in namespace.status.conditions if one.status == "True"}


async def counted(plane: Plane) -> int:
    return sum([len((await plane.client.list(kind, namespace="acc")).items) for kind in STORED if kind.namespaced])


def test_every_namespaced_kind_is_removed_once() -> None:
    removed = [kind for stage in STAGES for kind in stage]
    assert removed[0] is POD
    assert len(removed) == len(set(removed))
    assert set(removed) == {kind for kind in STORED if kind.namespaced}


def test_an_empty_namespace_goes_at_once() -> None:
    async def scenario(plane: Plane) -> None:
        await make(plane)
        assert await deleted(plane) < 1.0

    run_plane(CONTROLLER, scenario)


def test_its_contents_go_with_it_and_those_of_others_stay() -> None:
    async def scenario(plane: Plane) -> None:
        await make(plane, *(f"c{number}" for number in range(3 * MAX_CONCURRENT_DELETES)))
        for kind in (SECRET, SERVICE_ACCOUNT, LEASE):
            await plane.client.create(kind, {"metadata": {"name": "one"}}, namespace="acc")
        await plane.client.create(POD, pod_body(name="one", namespace="acc"), namespace="acc")
        await plane.client.create(CONFIG_MAP, {"metadata": {"name": "other"}}, namespace="default")
        await deleted(plane)
        assert await counted(plane) == 0
        assert await plane.names(CONFIG_MAP) == ["other"]

    run_plane(CONTROLLER, scenario)


def test_a_namespace_that_stays_is_left_alone() -> None:
    async def scenario(plane: Plane) -> None:
        await make(plane, "a")
        before = await plane.client.get(NAMESPACE, "acc")
        await plane.client.delete(CONFIG_MAP, "a", namespace="acc")
        await plane.client.create(POD, pod_body(name="one", namespace="acc"), namespace="acc")
        await plane.client.delete(POD, "one", namespace="acc")
        await plane.pass_time()
        assert await plane.client.get(NAMESPACE, "acc") == before

    run_plane(CONTROLLER, scenario)


def test_pods_end_before_anything_else_goes() -> None:
    async def scenario(plane: Plane) -> None:
        await make(plane, "a")
        await plane.client.create(POD, pod_body(name="web", namespace="acc", node="node-1"), namespace="acc")
        await plane.client.delete(NAMESPACE, "acc")
        await plane.pass_time(10.0)
        assert (await plane.client.get(POD, "web", namespace="acc")).deleting
        assert await plane.names(CONFIG_MAP) == ["a"]
        assert await conditions(plane) == {
            "NamespaceContentRemaining": "Some resources are remaining: pods. has 1 resource instances"
        }
        await plane.client.delete(POD, "web", namespace="acc", grace_seconds=0)
        assert await plane.until(lambda: is_gone(plane)) < 1.0, "what was waited for wakes us"

    run_plane(CONTROLLER, scenario)


def test_pod_terminating_past_its_grace_period_is_reported() -> None:
    async def scenario(plane: Plane) -> None:
        await make(plane)
        await plane.client.create(POD, pod_body(name="web", namespace="acc", node="node-1"), namespace="acc")
        await plane.client.delete(NAMESPACE, "acc")
        await plane.pass_time(90.0)
        assert (await conditions(plane))["NamespaceDeletionContentFailure"] == (
            "Failed to delete all resource types, 1 remaining: "
            "unexpected items still remain in namespace: acc for gvr: /v1, Resource=pods"
        )

    run_plane(CONTROLLER, scenario)


def test_remaining_finalizers_are_reported() -> None:
    async def scenario(plane: Plane) -> None:
        await make(plane)
        held = {"metadata": {"name": "a", "finalizers": ["a.io/x"]}}
        await plane.client.create(CONFIG_MAP, held, namespace="acc")
        await plane.client.delete(NAMESPACE, "acc")
        await plane.pass_time(3600.0)
        version = (await plane.client.get(NAMESPACE, "acc")).metadata.resource_version
        assert await conditions(plane) == {
            "NamespaceContentRemaining": "Some resources are remaining: configmaps. has 1 resource instances",
            "NamespaceFinalizersRemaining": (
                "Some content in the namespace has finalizers remaining: a.io/x in 1 resource instances"
            ),
        }
        await plane.pass_time(600.0)
        assert (await plane.client.get(NAMESPACE, "acc")).metadata.resource_version == version, "nothing new to say"
        await plane.client.patch(CONFIG_MAP, "a", WITHOUT_FINALIZERS, namespace="acc")
        await plane.until(lambda: is_gone(plane), within=61.0)

    run_plane(CONTROLLER, scenario)


def test_claims_go_when_protection_lets_them() -> None:
    async def scenario(plane: Plane) -> None:
        await make(plane)
        await plane.client.create(CLAIM, claim_body(name="data", namespace="acc"), namespace="acc")
        await plane.client.create(POD, pod_body(name="db", namespace="acc", claims=["data"]), namespace="acc")
        assert await deleted(plane) < 2.0

    run_plane([NamespaceController, VolumeProtection], scenario)


def test_others_may_hold_the_namespace_after_us() -> None:
    async def scenario(plane: Plane) -> None:
        await make(plane, "a", spec={"finalizers": ["mooring.dev/mine"]})
        await plane.client.delete(NAMESPACE, "acc")
        await plane.pass_time()
        namespace = await plane.client.get(NAMESPACE, "acc")
        assert namespace.spec.finalizers == ("mooring.dev/mine",)
        assert await conditions(plane) == {}
        assert await plane.names(CONFIG_MAP) == []

    run_plane(CONTROLLER, scenario)


def test_finalizers_and_labels_of_the_namespace_itself_are_kept() -> None:
    async def scenario(plane: Plane) -> None:
        metadata = {"name": "acc", "labels": {"team": "x"}, "annotations": {"a": "b"}, "finalizers": ["a.io/x"]}
        before = (await plane.client.create(NAMESPACE, {"metadata": metadata})).metadata
        await plane.client.delete(NAMESPACE, "acc")
        await plane.pass_time()
        after = await plane.client.get(NAMESPACE, "acc")
        assert after.spec.finalizers == ()
        assert (after.metadata.labels, after.metadata.annotations) == (before.labels, before.annotations)
        assert after.metadata.finalizers == ("a.io/x",)
        await plane.client.patch(NAMESPACE, "acc", WITHOUT_FINALIZERS)
        assert await is_gone(plane)

    run_plane(CONTROLLER, scenario)


C = TypeVar("C", bound=LocalClient)


def kept(make_client: Callable[[ApiServer, User], C], clients: list[C]) -> Connect:
    """The component's client, kept where the test can look at it."""

    def connect(server: ApiServer, user: User) -> Client:
        clients.append(make_client(server, user))
        return clients[-1]

    return connect


class Stubborn(LocalClient):
    """ConfigMaps named `stone` cannot be deleted until the test allows it."""

    softened = False

    async def delete(self, kind: Kind[V], name: str, **options: object) -> None:
        if name == "stone" and not self.softened:
            raise Forbidden("stones stay")
        await super().delete(kind, name, **options)  # type: ignore[arg-type]  # passed on


def test_failed_deletion_is_reported_and_blocks_nothing_else() -> None:
    clients: list[Stubborn] = []

    async def scenario(plane: Plane) -> None:
        await make(plane, "a", "stone", "z")
        await plane.client.create(SECRET, {"metadata": {"name": "s"}}, namespace="acc")
        await plane.client.delete(NAMESPACE, "acc")
        await plane.pass_time(3600.0)
        assert await plane.names(CONFIG_MAP) == ["stone"]
        assert await plane.names(SECRET) == []
        message = "Failed to delete all resource types, 1 remaining: stones stay"
        assert (await conditions(plane))["NamespaceDeletionContentFailure"] == message
        clients[0].softened = True
        await plane.until(lambda: is_gone(plane), within=61.0)

    run_plane(CONTROLLER, scenario, client=kept(Stubborn, clients))


class TakenOver(LocalClient):
    """At some point another instance finishes the work, and the namespace comes again with a ConfigMap of the same
    name."""

    def __init__(self, server: ApiServer, user: User) -> None:
        super().__init__(server, user)
        self.others: Client = LocalClient(server, user)
        self.done = False

    async def take_over(self) -> None:
        if self.done:
            return
        self.done = True
        await self.others.delete(CONFIG_MAP, "a", namespace="acc")
        old = await self.others.get(NAMESPACE, "acc")
        metadata = {"name": "acc", "resourceVersion": old.metadata.resource_version}
        await self.others.update(NAMESPACE, {"metadata": metadata}, subresource="finalize")
        await self.others.create(NAMESPACE, {"metadata": {"name": "acc"}})
        await self.others.create(CONFIG_MAP, {"metadata": {"name": "a"}}, namespace="acc")


class TakenOverBeforeTheList(TakenOver):
    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> ObjectList[V]:
        if kind is CONFIG_MAP and namespace == "acc":
            await self.take_over()
        return await super().list(kind, namespace=namespace, labels=labels, fields=fields)


class TakenOverBeforeTheDeletion(TakenOver):
    async def delete(self, kind: Kind[V], name: str, **options: object) -> None:
        await self.take_over()
        await super().delete(kind, name, **options)  # type: ignore[arg-type]  # passed on


@pytest.mark.parametrize("client", [TakenOverBeforeTheList, TakenOverBeforeTheDeletion])
def test_the_contents_of_a_namesake_are_not_touched(client: type[TakenOver]) -> None:
    async def scenario(plane: Plane) -> None:
        await make(plane, "a")
        old = await plane.client.get(NAMESPACE, "acc")
        await plane.client.delete(NAMESPACE, "acc")
        await plane.pass_time(300.0)
        new = await plane.client.get(NAMESPACE, "acc")
        assert new.uid != old.uid
        assert new.status.conditions == ()
        assert await plane.names(CONFIG_MAP) == ["a"]

    run_plane(CONTROLLER, scenario, client=client)


class Forgetful(FlakyClient):
    """Loses lists and updates too."""

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> ObjectList[V]:
        return await self._maybe(super().list, kind, namespace=namespace, labels=labels, fields=fields)

    async def update(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "", subresource: str = "") -> V:
        return await self._maybe(super().update, kind, body, namespace=namespace, subresource=subresource)


def forgetful(seed: int) -> Connect:
    return lambda server, user: Forgetful(server, user, random.Random(seed), 0.1)


@pytest.mark.parametrize("seed", range(10))
def test_lost_requests_and_answers_only_cost_time(seed: int) -> None:
    async def scenario(plane: Plane) -> None:
        await make(plane, *"abcdef")
        await deleted(plane, within=600.0)
        assert await counted(plane) == 0

    run_plane(CONTROLLER, scenario, client=forgetful(seed))


class Counted(LocalClient):
    """Knows how many deletions were asked for, and how many at once; each takes a moment."""

    asked = 0
    under_way = 0
    most = 0

    async def delete(self, kind: Kind[V], name: str, **options: object) -> None:
        self.asked += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        for _ in range(10):
            await asyncio.sleep(0)
        await super().delete(kind, name, **options)  # type: ignore[arg-type]  # passed on
        self.under_way -= 1


def test_deletions_go_side_by_side_but_not_all_at_once() -> None:
    clients: list[Counted] = []

    async def scenario(plane: Plane) -> None:
        await make(plane, *(f"c{number}" for number in range(4 * MAX_CONCURRENT_DELETES)))
        await deleted(plane)

    run_plane(CONTROLLER, scenario, client=kept(Counted, clients))
    assert clients[0].most == MAX_CONCURRENT_DELETES


def test_what_is_on_its_way_out_is_not_deleted_again() -> None:
    clients: list[Counted] = []

    async def scenario(plane: Plane) -> None:
        await make(plane)
        held = {"metadata": {"name": "a", "finalizers": ["a.io/x"]}}
        await plane.client.create(CONFIG_MAP, held, namespace="acc")
        await plane.client.delete(NAMESPACE, "acc")
        await plane.pass_time(600.0)

    run_plane(CONTROLLER, scenario, client=kept(Counted, clients))
    assert clients[0].asked == 1


def test_several_namespaces_go_at_once() -> None:
    async def scenario(plane: Plane) -> None:
        names = [f"ns-{number}" for number in range(25)]
        for name in names:
            await plane.client.create(NAMESPACE, {"metadata": {"name": name}})
            body: Body = {"metadata": {"name": "a"}}
            await plane.client.create(CONFIG_MAP, body, namespace=name)
        for name in names:
            await plane.client.delete(NAMESPACE, name)

        async def only_default() -> bool:
            return await plane.names(NAMESPACE) == ["default"]

        await plane.until(only_default, within=5.0)
        assert await plane.names(CONFIG_MAP) == []

    run_plane(CONTROLLER, scenario)
