"""A day in the life of a cluster, in virtual time: no component ever lacks a right, and each uses those to write.

What only happens when things go wrong, or needs storage that makes volumes, does not happen here; those rights are
listed, so that a right that is no longer used is noticed.
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import pytest

from mooring.api import kinds
from mooring.api.patches.contract import MergePatch
from mooring.api.views.core import PolicyRule
from mooring.client.contract import Client
from mooring.cluster.bootstrap import Layout, install_policy
from mooring.cluster.control_plane import CONTROLLERS, ControlPlane, running_control_plane
from mooring.cluster.identities import identity_of
from mooring.cluster.local_client import LocalClient
from mooring.server.api import ApiServer
from mooring.server.auth.access import Authorizer
from mooring.server.auth.authorizer import RbacAuthorizer, Security
from mooring.server.auth.rbac import AuthorizationDecision, Request, ResourceRequest, UserRules
from mooring.server.contract import User
from mooring.server.objects import Objects
from mooring.store.watch_cache import MemoryStore
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import VirtualClock
from support.builders import pod_body

READING: Final = {"get", "list", "watch"}
#: Writes for days that are not like this one.
OTHER_DAYS: Final = {
    "clusterrole-aggregation-controller": {"escalate clusterroles", "patch clusterroles"},
    "attachdetach-controller": {"create volumeattachments", "delete volumeattachments"},
    "daemonset-controller": {"delete controllerrevisions", "patch controllerrevisions", "patch pods"},
    "deployment-controller": {"delete replicasets"},
    # No class of that day allows it; tests/e2e/storage/test_lost_storage.py does.
    "lost-storage-controller": {
        "create persistentvolumeclaims",
        "delete persistentvolumeclaims",
        "delete persistentvolumes",
        "delete pods",
        "patch persistentvolumes",
    },
    "node-lifecycle-controller": {"patch nodes", "patch nodes/status", "patch pods/status"},
    "podgroup-protection-controller": {"patch podgroups"},
    "persistentvolume-controller": {"patch persistentvolumes", "unbind persistentvolumeclaims"},
    "preset-node-controller": {"patch persistentvolumes", "patch persistentvolumeclaims"},
    "replicaset-controller": {"patch pods"},
    "selected-node-janitor": {"delete persistentvolumes", "patch persistentvolumes", "patch persistentvolumeclaims"},
    "standin-provisioner": {
        "create persistentvolumes",
        "delete persistentvolumes",
        "patch persistentvolumes",
        "patch persistentvolumeclaims",
    },
    "statefulset-controller": {
        "delete controllerrevisions",
        "patch controllerrevisions",
        "patch persistentvolumeclaims",
        "patch pods",
    },
    # The same; tests/e2e/storage/test_unused_claims.py.
    "unused-claim-controller": {
        "create persistentvolumeclaims",
        "delete persistentvolumeclaims",
        "patch persistentvolumeclaims",
        "patch persistentvolumes",
    },
    "volume-protection": {"patch persistentvolumes", "patch persistentvolumeclaims/status"},
    "zonal-volume-upgrade": {"patch persistentvolumes"},
}


class Recording:
    """An `Access` that remembers who asked for what, and what was refused."""

    def __init__(self, access: Authorizer) -> None:
        self._access = access
        self.used: dict[str, set[tuple[str, str, str]]] = defaultdict(set)
        self.refused: list[tuple[str, Request]] = []

    async def decide(self, user: User, request: Request) -> AuthorizationDecision:
        decision = await self._access.decide(user, request)
        if isinstance(request, ResourceRequest):
            self.used[user.name].add((request.verb, request.group, request.full_resource))
        if not decision.allowed:
            self.refused.append((user.name, request))
        return decision

    async def rules_of(self, user: User, namespace: str) -> UserRules:
        return await self._access.rules_of(user, namespace)

    async def role(self, namespace: str, name: str) -> Sequence[PolicyRule] | None:
        return await self._access.role(namespace, name)


def template(image: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}


def workload(name: str, **more: object) -> dict[str, Any]:
    selector = {"matchLabels": {"app": name}}
    return {"metadata": {"name": name}, "spec": {"selector": selector, "template": template("one", app=name)} | more}


CLAIM: Final = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
SETS: Final = ((kinds.STATEFUL_SET, "web"), (kinds.DEPLOYMENT, "dep"), (kinds.DAEMON_SET, "ds"))


async def day(admin: Client, clock: VirtualClock) -> None:
    claims = [{"metadata": {"name": "d"}, "spec": CLAIM}]
    own = {"serviceName": "s", "replicas": 2, "volumeClaimTemplates": claims}
    await admin.create(kinds.NAMESPACE, {"metadata": {"name": "n"}})
    for kind, name in SETS:
        body = workload(name, **(own if kind is kinds.STATEFUL_SET else {}))
        await admin.create(kind, body, namespace="n")
    budget = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1}}
    await admin.create(kinds.DISRUPTION_BUDGET, budget, namespace="n")
    scratch = pod_body(name="scratch", namespace="n")
    scratch["spec"]["volumes"] = [{"name": "s", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}]
    await admin.create(kinds.POD, scratch, namespace="n")
    await clock.sleep(60.0)
    pods = (await admin.list(kinds.POD, namespace="n")).items
    assert {pod.status.phase for pod in pods} == {"Running"}
    for kind, name in SETS:
        patch = MergePatch({"spec": {"template": template("two", app=name)}})
        await admin.patch(kind, name, patch, namespace="n")
    await clock.sleep(120.0)
    taint = {"key": "maintenance", "effect": "NoExecute"}
    # On any node: an eviction of a pod that does not end by itself.
    tainted = (await admin.get(kinds.POD, "web-0", namespace="n")).spec.node_name
    await admin.patch(kinds.NODE, tainted, MergePatch({"spec": {"taints": [taint]}}))
    await admin.delete(kinds.POD, "scratch", namespace="n")
    await clock.sleep(120.0)
    nodes = [node.name for node in (await admin.list(kinds.NODE)).items]
    await admin.delete(kinds.NODE, next(name for name in nodes if name != tainted))
    await clock.sleep(120.0)
    await admin.delete(kinds.DEPLOYMENT, "dep", namespace="n", propagation="Foreground")
    await clock.sleep(60.0)
    await admin.delete(kinds.NAMESPACE, "n")
    await clock.sleep(300.0)
    assert "n" not in [namespace.name for namespace in (await admin.list(kinds.NAMESPACE)).items]


def lived() -> Recording:
    async def main(clock: VirtualClock) -> Recording:
        store = MemoryStore()
        access = Recording(RbacAuthorizer(Objects(store)))
        api = ApiServer(store, clock, random.Random(1), Security(access))
        await install_policy(api)
        plane = ControlPlane(
            lambda component: LocalClient(api, identity_of(component).user, access),
            Layout(),
            clock=clock,
            rng=random.Random(2),
        )
        async with running_control_plane(plane):
            await day(LocalClient(api, User("admin", ("system:masters",))), clock)
        return access

    return virtual_time.run_in_virtual_time(main)


@pytest.fixture(scope="module")
def access() -> Recording:
    return lived()


@pytest.mark.req("T32.least-rights")
def test_no_right_is_missing(access: Recording) -> None:
    assert access.refused == []


@pytest.mark.req("T32.least-rights")
@pytest.mark.parametrize("component", sorted(controller.source for controller in CONTROLLERS))
def test_no_controller_may_write_what_it_never_writes(access: Recording, component: str) -> None:
    identity = identity_of(component)
    written = access.used[identity.user.name]
    idle = {
        f"{verb} {resource}"
        for rule in identity.rules
        for verb in set(rule.verbs) - READING
        for resource in rule.resources
        if resource != "events" and not any(_is_use(verb, rule, resource, use) for use in written)
    }
    assert idle <= OTHER_DAYS.get(component, set())


def _is_use(verb: str, rule: PolicyRule, resource: str, use: tuple[str, str, str]) -> bool:
    used_verb, group, used_resource = use
    return verb == used_verb and resource in ("*", used_resource) and bool({"*", group} & set(rule.api_groups))
