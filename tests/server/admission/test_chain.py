"""RBAC escalation checks: a user grants only rules that the user has."""

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mooring.api.errors import Forbidden, Invalid, NotFound
from mooring.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, LEASE, ROLE, ROLE_BINDING, Kind
from mooring.api.patches.contract import MergePatch
from mooring.server.api import ApiServer
from mooring.server.auth.authorizer import Security
from mooring.server.auth.policy import path_rule, rule
from mooring.server.contract import Target, User, WriteOptions
from support.server.harness import Harness, decoded
from support.server.policies import Policy, binding_view

CAROL = User("carol", ("system:authenticated",))
RBAC = "rbac.authorization.k8s.io"
OWNER = User("root", ("system:masters",))
AGGREGATION: dict[str, Any] = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
READ_PODS = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "secrets"]}


class Writer:
    """Carol, who may write roles and bindings, and whatever else a test grants her."""

    def __init__(self, server: Harness) -> None:
        self.policy = Policy(defaults=False)
        self.policy.grant(
            "carol", rule("create update patch", "roles rolebindings clusterroles clusterrolebindings", RBAC)
        )
        self.api = ApiServer(server.store, server.clock, random.Random(1), Security(self.policy))
        self.user = CAROL

    async def create(self, kind: Kind[Any], body: dict[str, Any], namespace: str = "default") -> dict[str, Any]:
        target = Target(kind, namespace if kind.namespaced else "")
        return decoded((await self.api.create(self.user, target, body, WriteOptions())).body)

    async def patch(self, kind: Kind[Any], name: str, body: dict[str, Any]) -> None:
        target = Target(kind, "default" if kind.namespaced else "", name)
        await self.api.patch(self.user, target, MergePatch(body), WriteOptions())

    async def apply(self, kind: Kind[Any], name: str, body: dict[str, Any]) -> None:
        target = Target(kind, "default" if kind.namespaced else "", name)
        stated = {"apiVersion": kind.api_version, "kind": kind.kind} | body
        stated["metadata"] = {"name": name} | body.get("metadata", {})
        await self.api.apply(self.user, target, stated, WriteOptions(field_manager="m"), force=True)

    async def update(self, kind: Kind[Any], body: dict[str, Any]) -> dict[str, Any]:
        target = Target(kind, "default" if kind.namespaced else "", body["metadata"]["name"])
        return decoded((await self.api.update(self.user, target, body, WriteOptions())).body)

    async def seed(self, kind: Kind[Any]) -> dict[str, Any]:
        """An object `x` that grants what Carol does not have, written by an administrator."""
        if kind in (ROLE_BINDING, CLUSTER_ROLE_BINDING):
            self.policy.grant("dave", rule("get list", "pods secrets"))
            body = a_binding("granted-2")
        else:
            body = a_role(READ_PODS)
        body["metadata"]["name"] = "x"
        target = Target(kind, "default" if kind.namespaced else "")
        return decoded((await self.api.create(OWNER, target, body, WriteOptions())).body)

    async def refusal(self, kind: Kind[Any], body: dict[str, Any]) -> str:
        with pytest.raises(Forbidden) as refused:
            await self.create(kind, body)
        return refused.value.message


@pytest.fixture
async def writer(server: Harness) -> Writer:
    return Writer(server)


def a_role(*rules: dict[str, Any], name: str = "x", **more: object) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules)} | more


def a_binding(role: str, kind: str = "ClusterRole", *, user: str = "z") -> dict[str, Any]:
    subjects = [{"kind": "User", "name": user}]
    return {"metadata": {"name": "b"}, "roleRef": {"kind": kind, "name": role}, "subjects": subjects}


async def test_a_role_with_more_than_its_writer_has(writer: Writer) -> None:
    paths = {"verbs": ["get"], "nonResourceURLs": ["/x"]}
    assert await writer.refusal(CLUSTER_ROLE, a_role(READ_PODS, paths)) == (
        'clusterroles.rbac.authorization.k8s.io "x" is forbidden: user "carol" (groups=["system:authenticated"]) is '
        "attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}\n'
        '{NonResourceURLs:["/x"], Verbs:["get"]}'
    )


async def test_a_role_with_what_its_writer_has(writer: Writer) -> None:
    writer.policy.grant("carol", rule("get list watch", "pods secrets"), path_rule("get", "/x/*"))
    await writer.create(CLUSTER_ROLE, a_role(READ_PODS, {"verbs": ["get"], "nonResourceURLs": ["/x/y"]}))


async def test_what_one_has_in_a_namespace_can_be_granted_there(writer: Writer) -> None:
    writer.policy.grant("carol", rule("get list", "pods secrets"), namespace="default")
    await writer.create(ROLE, a_role(READ_PODS))
    assert "not currently held" in await writer.refusal(CLUSTER_ROLE, a_role(READ_PODS))
    with pytest.raises(Forbidden, match="not currently held"):
        await writer.create(ROLE, a_role(READ_PODS), namespace="other")


async def test_escalate_allows_any_role(writer: Writer) -> None:
    writer.policy.grant("carol", rule("escalate", "clusterroles", RBAC))
    await writer.create(CLUSTER_ROLE, a_role(READ_PODS))


async def test_escalate_by_name_does_not_reach_a_create(writer: Writer) -> None:
    """A POST has no name in its URL, so only the right to escalate every role counts; an update has one."""
    writer.policy.grant("carol", rule("escalate", "clusterroles", RBAC, names="x"))
    assert "not currently held" in await writer.refusal(CLUSTER_ROLE, a_role(READ_PODS))
    for name in "xy":
        await writer.api.create(OWNER, Target(CLUSTER_ROLE), a_role(name=name), WriteOptions())
    await writer.patch(CLUSTER_ROLE, "x", {"rules": [READ_PODS]})
    with pytest.raises(Forbidden, match="not currently held"):
        await writer.patch(CLUSTER_ROLE, "y", {"rules": [READ_PODS]})
    await writer.apply(CLUSTER_ROLE, "x", {"rules": [READ_PODS]})


async def test_masters_may_grant_anything(writer: Writer) -> None:
    writer.user = User("root", ("system:masters",))
    await writer.create(CLUSTER_ROLE, a_role(READ_PODS))
    await writer.create(CLUSTER_ROLE_BINDING, a_binding("nowhere"))


LABELLED = {"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}}}


@pytest.mark.parametrize("how", ["patch", "apply", "update"])
@pytest.mark.parametrize("kind", [ROLE, CLUSTER_ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING])
async def test_role_label_change_is_checked(writer: Writer, kind: Kind[Any], how: str) -> None:
    """By its labels a role becomes part of aggregated roles: who lacks its rules may not label it."""
    written = await writer.seed(kind)
    relabelled = written | {"metadata": written["metadata"] | LABELLED["metadata"]}
    writes: dict[str, Callable[[], Awaitable[object]]] = {
        "patch": lambda: writer.patch(kind, "x", LABELLED),
        "apply": lambda: writer.apply(kind, "x", LABELLED),
        "update": lambda: writer.update(kind, relabelled),
    }
    with pytest.raises(Forbidden, match="not currently held"):
        await writes[how]()
    writer.policy.grant("carol", rule("get list", "pods secrets"))
    await writer.patch(kind, "x", LABELLED)


GC_FIELDS = {
    "finalizers": ["example.com/kept"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}],
}


@pytest.mark.parametrize("kind", [ROLE, CLUSTER_ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING])
async def test_owners_and_finalizers_grant_nothing(writer: Writer, kind: Kind[Any]) -> None:
    written = await writer.seed(kind)
    written = await writer.update(kind, written | {"metadata": written["metadata"] | GC_FIELDS})
    await writer.patch(kind, "x", {"metadata": {"finalizers": None, "ownerReferences": None}})
    with pytest.raises(Forbidden, match="not currently held"):
        # Not a replay of what was read: nothing tells it from a new grant.
        await writer.update(kind, {**written, "metadata": {"name": "x"}})


async def test_a_change_of_rules_is_judged(writer: Writer) -> None:
    await writer.seed(CLUSTER_ROLE)
    with pytest.raises(Forbidden, match="not currently held"):
        await writer.patch(CLUSTER_ROLE, "x", {"rules": [READ_PODS | {"verbs": ["delete"]}]})
    await writer.patch(CLUSTER_ROLE, "x", {"rules": []})


async def test_only_administrators_end_an_aggregation(writer: Writer) -> None:
    """A user who could drop the rule of an aggregated role could keep it from being tightened."""
    await writer.api.create(OWNER, Target(CLUSTER_ROLE), a_role(**AGGREGATION), WriteOptions())
    for change in ({"aggregationRule": None}, {"metadata": {"labels": {"a": "b"}}}, {"rules": []}):
        with pytest.raises(Forbidden, match="must have cluster-admin privileges to use the aggregationRule"):
            await writer.patch(CLUSTER_ROLE, "x", change | {"metadata": {"annotations": {"changed": "yes"}}})
    writer.policy.grant("carol", rule("*", "*", "*"), path_rule("*", "*"))
    await writer.patch(CLUSTER_ROLE, "x", {"aggregationRule": None})


async def test_empty_aggregation_is_invalid(writer: Writer) -> None:
    with pytest.raises(Invalid):
        await writer.create(CLUSTER_ROLE, a_role(aggregationRule={"clusterRoleSelectors": []}))


async def test_missing_roles_are_listed_in_the_error(writer: Writer) -> None:
    writer.policy.index.put_binding(binding_view(a_binding("nowhere", user="carol")))
    assert (await writer.refusal(CLUSTER_ROLE, a_role(READ_PODS))).endswith(
        '\n{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}'
        '; resolution errors: [clusterroles.rbac.authorization.k8s.io "nowhere" not found]'
    )


async def test_only_administrators_aggregate(writer: Writer) -> None:
    assert await writer.refusal(CLUSTER_ROLE, a_role(**AGGREGATION)) == (
        'clusterroles.rbac.authorization.k8s.io "x" is forbidden: '
        "must have cluster-admin privileges to use the aggregationRule"
    )
    writer.policy.grant("carol", rule("*", "*", "*"), path_rule("*", "*"))
    await writer.create(CLUSTER_ROLE, a_role(**AGGREGATION))


async def test_a_binding_hands_out_what_its_writer_has(writer: Writer) -> None:
    writer.policy.grant("carol", rule("get", "pods"))
    await writer.create(CLUSTER_ROLE_BINDING, a_binding("granted-2"))
    writer.policy.grant("dave", rule("get", "secrets"))
    with pytest.raises(Forbidden, match=r'not currently held:\n\{APIGroups:\[""\], Resources:\["secrets"\]'):
        await writer.create(ROLE_BINDING, a_binding("granted-3"))


async def test_bind_allows_any_binding_of_the_role(writer: Writer) -> None:
    writer.policy.grant("dave", rule("get", "secrets"))
    writer.policy.grant("carol", rule("bind", "clusterroles", RBAC, names="granted-2"))
    await writer.create(ROLE_BINDING, a_binding("granted-2"))


async def test_a_role_in_the_namespace_is_looked_up_there(writer: Writer) -> None:
    writer.policy.grant("dave", rule("get", "secrets"), namespace="default")
    with pytest.raises(Forbidden, match="not currently held"):
        await writer.create(ROLE_BINDING, a_binding("granted-2", "Role"))


async def test_a_role_that_is_not_there(writer: Writer) -> None:
    with pytest.raises(NotFound, match=r'^clusterrolebindings\.rbac\.authorization\.k8s\.io "nowhere" not found$'):
        await writer.create(CLUSTER_ROLE_BINDING, a_binding("nowhere"))


async def test_an_update_that_creates_needs_the_right_to_create(writer: Writer) -> None:
    writer.policy.grant("carol", rule("update", "leases", "coordination.k8s.io"))
    lease = {"metadata": {"name": "l"}}
    target = Target(LEASE, "default", "l")
    with pytest.raises(Forbidden, match='cannot create resource "leases"'):
        await writer.api.update(CAROL, target, lease, WriteOptions())
    applied = lease | {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    options = WriteOptions(field_manager="m")
    with pytest.raises(Forbidden, match='cannot create resource "leases"'):
        await writer.api.apply(CAROL, target, applied, options, force=False)
    writer.policy.grant("carol", rule("create", "leases", "coordination.k8s.io"))
    await writer.api.update(CAROL, target, lease, WriteOptions())
