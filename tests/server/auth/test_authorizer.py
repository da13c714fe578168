"""The decision is always that of the newest revision."""

import msgspec
import pytest
from structlog.testing import capture_logs

from mooring.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from mooring.api.patches.contract import MergePatch
from mooring.server.auth.authorizer import RbacAuthorizer
from mooring.server.auth.policy import binding, role, rule, user
from mooring.server.auth.rbac import ResourceRequest
from mooring.server.contract import User
from mooring.server.objects import Objects
from mooring.store.contract import ABSENT, Store
from mooring.store.state import Limits
from mooring.store.watch_cache import MemoryStore
from support.server.harness import Harness

ALICE = User("alice")
GET_POD = ResourceRequest("get", "", "pods", namespace="default")


class Granting:
    def __init__(self, server: Harness) -> None:
        self.server = server
        self.authorizer = RbacAuthorizer(Objects(server.store))

    async def may(self) -> bool:
        return (await self.authorizer.decide(ALICE, GET_POD)).allowed


@pytest.fixture
async def granting(server: Harness) -> Granting:
    return Granting(server)


async def test_grant_and_removal_take_effect_with_the_write(
    granting: Granting,
) -> None:
    server = granting.server
    assert not await granting.may()
    await server.create(CLUSTER_ROLE, role("r", rule("get", "pods")).body())
    assert not await granting.may()
    await server.create(ROLE_BINDING, binding("b", user("alice"), namespace="default").body() | {
        "roleRef": {"kind": "ClusterRole", "name": "r"}
    })  # fmt: skip
    assert await granting.may()
    await server.patch(CLUSTER_ROLE, "r", MergePatch({"rules": []}))
    assert not await granting.may()
    await server.patch(
        CLUSTER_ROLE, "r", MergePatch({"rules": [{"verbs": ["*"], "apiGroups": [""], "resources": ["*"]}]})
    )
    assert await granting.may()
    await server.delete(ROLE_BINDING, "b")
    assert not await granting.may()


async def test_existing_grants_are_loaded(granting: Granting) -> None:
    await granting.server.create(ROLE, role("r", rule("get", "pods"), namespace="default").body())
    await granting.server.create(ROLE_BINDING, binding("r", user("alice"), namespace="default").body())
    assert await granting.may()
    assert await granting.authorizer.role("default", "r") == (rule("get", "pods"),)
    assert (await granting.authorizer.rules_of(ALICE, "default")).rules == (rule("get", "pods"),)


async def test_overflow_of_changes_reloads_the_index() -> None:
    """More changes than a watch buffers: all objects are read again."""
    granting = Granting(await Harness(MemoryStore(backlog=Limits(changes=3, bytes=1 << 20))).start())
    assert not await granting.may()
    await granting.server.create(CLUSTER_ROLE, role("r", rule("get", "pods")).body())
    for n in range(10):
        await granting.server.create(CLUSTER_ROLE_BINDING, binding(f"b{n}", user(f"u{n}"), role="r").body())
    await granting.server.create(CLUSTER_ROLE_BINDING, binding("alice", user("alice"), role="r").body())
    assert await granting.may()
    await granting.server.delete(CLUSTER_ROLE_BINDING, "alice")
    assert not await granting.may()


async def test_unreadable_role_grants_nothing_and_is_logged() -> None:
    store: Store = MemoryStore()
    odd = msgspec.json.encode({"metadata": {"name": "r"}, "rules": "everything"})
    await store.write(CLUSTER_ROLE.store_key("", "r"), odd, expect=ABSENT)
    with capture_logs() as logs:
        decision = await RbacAuthorizer(Objects(store)).decide(ALICE, GET_POD)
    assert not decision.allowed
    assert [line["event"] for line in logs] == ["RBAC object unreadable"]
