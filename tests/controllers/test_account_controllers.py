"""Cluster roles made of others.

Every namespace has a default service account.
"""

from typing import Any

from mooring.api.kinds import CLUSTER_ROLE, NAMESPACE, SERVICE_ACCOUNT
from mooring.api.patches.contract import MergePatch
from mooring.api.views.core import PolicyRule
from mooring.controllers.account_controllers import RoleAggregationController, ServiceAccountController
from mooring.controllers.namespace_controller import NamespaceController
from support.partial_control_plane import Plane, flaky, run_plane

LABEL = "example.com/aggregate-to-all"


def part(name: str, resource: str, **labels: str) -> dict[str, Any]:
    rules = [{"verbs": ["get"], "apiGroups": [""], "resources": [resource]}]
    return {"metadata": {"name": name, "labels": labels or {LABEL: "true"}}, "rules": rules}


def whole(name: str = "all", **labels: str) -> dict[str, Any]:
    selectors = [{"matchLabels": {LABEL: "true"}}]
    return {"metadata": {"name": name, "labels": labels}, "aggregationRule": {"clusterRoleSelectors": selectors}}


async def resources(plane: Plane, name: str = "all") -> list[str]:
    rules: tuple[PolicyRule, ...] = (await plane.client.get(CLUSTER_ROLE, name)).rules or ()
    return [resource for rule in rules for resource in rule.resources]


def test_it_follows_its_parts() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(CLUSTER_ROLE, part("b", "pods"))
        await plane.create(CLUSTER_ROLE, whole())
        await plane.create(CLUSTER_ROLE, part("a", "nodes"))
        await plane.create(CLUSTER_ROLE, part("other", "secrets", another="label"))
        await plane.pass_time()
        assert await resources(plane) == ["nodes", "pods"]
        await plane.client.patch(CLUSTER_ROLE, "a", MergePatch({"metadata": {"labels": {LABEL: None}}}))
        await plane.client.patch(CLUSTER_ROLE, "other", MergePatch({"metadata": {"labels": {LABEL: "true"}}}))
        await plane.pass_time()
        assert await resources(plane) == ["pods", "secrets"]
        await plane.client.delete(CLUSTER_ROLE, "b")
        await plane.pass_time()
        assert await resources(plane) == ["secrets"]

    run_plane([RoleAggregationController], scenario, client=flaky(0.3))


def test_one_may_be_part_of_another() -> None:
    async def scenario(plane: Plane) -> None:
        outer = whole("outer") | {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"outer": "yes"}}]}}
        await plane.create(CLUSTER_ROLE, outer)
        await plane.create(CLUSTER_ROLE, whole("inner", outer="yes"))
        await plane.create(CLUSTER_ROLE, part("a", "nodes"))
        await plane.pass_time()
        assert await resources(plane, "outer") == await resources(plane, "inner") == ["nodes"]

    run_plane([RoleAggregationController], scenario)


def test_what_people_write_into_it_is_replaced_and_other_roles_are_left_alone() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(CLUSTER_ROLE, part("a", "nodes"))
        await plane.create(CLUSTER_ROLE, whole() | {"rules": part("x", "secrets")["rules"]})
        await plane.pass_time()
        assert await resources(plane) == await resources(plane, "a") == ["nodes"]

    run_plane([RoleAggregationController], scenario)


def test_aggregated_rules_are_deduplicated_without_self_selection() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(CLUSTER_ROLE, whole("all", **{LABEL: "true"}))
        for name in ("a", "b"):
            await plane.create(CLUSTER_ROLE, part(name, "nodes"))
        await plane.pass_time()
        assert await resources(plane) == ["nodes"]

    run_plane([RoleAggregationController], scenario)


async def accounts(plane: Plane) -> list[str]:
    return [account.key for account in (await plane.client.list(SERVICE_ACCOUNT)).items]


def test_old_and_new_namespaces_get_one() -> None:
    async def scenario(plane: Plane) -> None:
        for name in ("a", "b"):
            await plane.create(NAMESPACE, {"metadata": {"name": name}})
        await plane.pass_time()
        assert await accounts(plane) == ["a/default", "b/default", "default/default"]

    run_plane([ServiceAccountController], scenario, client=flaky(0.3))


def test_one_that_is_deleted_comes_back_and_others_are_not_missed() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.pass_time()
        await plane.client.create(SERVICE_ACCOUNT, {"metadata": {"name": "mine"}}, namespace="default")
        first = await plane.get(SERVICE_ACCOUNT, "default")
        await plane.client.delete(SERVICE_ACCOUNT, "default", namespace="default")
        await plane.client.delete(SERVICE_ACCOUNT, "mine", namespace="default")
        await plane.pass_time()
        assert await accounts(plane) == ["default/default"]
        assert (await plane.get(SERVICE_ACCOUNT, "default")).uid != first.uid

    run_plane([ServiceAccountController], scenario)


def test_a_namespace_that_goes_is_left_to_go() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(NAMESPACE, {"metadata": {"name": "a"}})
        await plane.pass_time()
        await plane.client.delete(NAMESPACE, "a")
        await plane.pass_time()
        assert await plane.names(NAMESPACE) == ["default"]
        assert await accounts(plane) == ["default/default"]

    run_plane([ServiceAccountController, NamespaceController], scenario, client=flaky(0.2))
