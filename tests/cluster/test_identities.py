"""Every component under its own identity, with what it needs and no more."""

import asyncio
import random
from typing import Any

import pytest

from mooring.api import kinds
from mooring.api.errors import Forbidden
from mooring.api.kinds import CLAIM, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, EVENT, NODE, POD, SECRET, SERVICE_ACCOUNT, Kind
from mooring.api.patches.contract import MergePatch
from mooring.client.contract import Client
from mooring.client.informer import Informers
from mooring.clock import SystemClock
from mooring.cluster import identities
from mooring.cluster.bootstrap import Layout, install_policy
from mooring.cluster.control_plane import CONTROLLERS, ControlPlane, SharedInformers, build_components
from mooring.cluster.identities import BOOTSTRAP, IDENTITIES, INFORMERS, PAGE, NoIdentity, identity_of
from mooring.cluster.local_client import LocalClient
from mooring.control.component import INTERNAL_ERROR
from mooring.control.version_skew import VersionSkewMonitor
from mooring.server.api import ApiServer
from mooring.server.auth.authorizer import RbacAuthorizer, Security
from mooring.server.auth.policy import COORDINATION, RBAC
from mooring.server.auth.rbac import ALL, ResourceRequest
from mooring.server.contract import User
from mooring.server.objects import Objects
from mooring.store.watch_cache import MemoryStore
from support.builders import claim_body, pod_body

#: Components that are wired only where something is there for them.
OPTIONAL = {"mooring-provisioner", "mooring-coordinator", "csi-attacher", "extender", "extender-bind", "page"}
#: Those whose work is with objects of any kind; their verbs are still few.
ANY_KIND = {"garbage-collector", "namespace-controller"}
ADMIN = User("admin", ("system:masters",))


class World:
    """A guarded API with the policy of a cluster."""

    def __init__(self) -> None:
        store = MemoryStore()
        security = Security(RbacAuthorizer(Objects(store)))
        self.access = security.access
        self.api = ApiServer(store, SystemClock(), random.Random(1), security)
        self.admin: Client = LocalClient(self.api, ADMIN, self.access)

    def client(self, component: str) -> Client:
        return LocalClient(self.api, identity_of(component).user, self.access)


@pytest.fixture
async def world() -> World:
    world = World()
    await install_policy(world.api)
    return world


@pytest.mark.req("T32.identities")
def test_every_component_has_an_identity_and_every_identity_a_component() -> None:
    wired = {source for source, _ in build_components(Layout())} | {controller.source for controller in CONTROLLERS}
    wired.add(VersionSkewMonitor.name)
    assert set(IDENTITIES) - {INFORMERS, BOOTSTRAP} - OPTIONAL == wired
    assert len({identity.account for identity in IDENTITIES.values()}) == len(IDENTITIES)


def test_a_component_without_one_does_not_run() -> None:
    with pytest.raises(
        NoIdentity, match=r"'newcomer' has no identity; add what it needs to mooring\.cluster\.identities"
    ):
        identity_of("newcomer")


@pytest.mark.req("T32.least-rights")
@pytest.mark.parametrize("component", sorted(IDENTITIES))
def test_no_role_is_wider_than_it_must_be(component: str) -> None:
    identity = identity_of(component)
    rules = [*identity.rules, *(rule for local in identity.local.values() for rule in local)]
    for rule in rules:
        assert ALL not in rule.verbs
        assert not {"impersonate", "bind", "deletecollection"} & set(rule.verbs)
        assert not rule.non_resource_urls
        if component not in ANY_KIND:
            assert ALL not in rule.resources
            assert ALL not in rule.api_groups
        if "secrets" in rule.resources:
            assert rule.verbs == ("get",)
    assert ("escalate" in {verb for rule in rules for verb in rule.verbs}) is (
        component == "clusterrole-aggregation-controller"
    )
    assert "system:masters" not in identity.user.groups


@pytest.mark.req("T32.objects")
async def test_rights_are_readable_rbac_objects(world: World) -> None:
    roles = {role.name for role in (await world.admin.list(CLUSTER_ROLE)).items}
    bound = {
        (b.role_ref.name, s.name) for b in (await world.admin.list(CLUSTER_ROLE_BINDING)).items for s in b.subjects
    }
    there = {account.name for account in (await world.admin.list(SERVICE_ACCOUNT, namespace="kube-system")).items}
    for identity in IDENTITIES.values():
        assert identity.role in roles
        assert (identity.role, identity.account) in bound
        assert identity.account in there


async def test_a_restart_changes_nothing(world: World) -> None:
    before = (await world.admin.list(NODE)).resource_version
    await install_policy(world.api)
    assert (await world.admin.list(NODE)).resource_version == before


async def attempt(client: Client, verb: str, kind: Kind[Any]) -> None:
    namespace = "default" if kind.namespaced else ""
    match verb:
        case "get":
            await client.get(kind, "x", namespace=namespace)
        case "list":
            await client.list(kind, namespace=namespace)
        case "create":
            bodies = {POD: pod_body(), kinds.CLAIM: claim_body()}
            await client.create(kind, bodies.get(kind, {"metadata": {"name": "x"}}), namespace=namespace)
        case "patch":
            await client.patch(kind, "x", MergePatch({"metadata": {"labels": {"a": "b"}}}), namespace=namespace)
        case "delete":
            await client.delete(kind, "x", namespace=namespace)
        case "bind":
            await client.bind("x", namespace="default", uid="", node="n")
        case _:
            raise ValueError(verb)


@pytest.mark.req("T32.no-more")
@pytest.mark.parametrize(
    ("component", "verb", "kind"),
    [
        pytest.param("default-scheduler", "get", SECRET, id="the scheduler reads no secrets"),
        pytest.param("default-scheduler", "create", POD, id="the scheduler makes no pods"),
        pytest.param("default-scheduler", "patch", POD, id="the scheduler changes no pods"),
        pytest.param("default-scheduler", "delete", kinds.CLAIM, id="the scheduler deletes no claims"),
        pytest.param("default-scheduler", "delete", kinds.VOLUME, id="the scheduler deletes no volumes"),
        pytest.param("default-scheduler", "create", CLUSTER_ROLE_BINDING, id="the scheduler grants nothing"),
        pytest.param("persistentvolume-controller", "create", kinds.VOLUME, id="the PV controller makes no volumes"),
        pytest.param("persistentvolume-controller", "bind", POD, id="the PV controller places no pods"),
        pytest.param("volume-protection", "delete", kinds.CLAIM, id="protection deletes nothing"),
        pytest.param("node-agent", "create", POD, id="nodes make no pods"),
        pytest.param("node-agent", "list", SECRET, id="nodes read the secrets of their pods, one by one"),
        pytest.param("node-agent", "patch", kinds.VOLUME, id="nodes change no volumes"),
        pytest.param("node-agent", "create", kinds.LEASE, id="nodes have leases in their namespace only"),
        pytest.param("statefulset-controller", "bind", POD, id="the StatefulSet controller places no pods"),
        pytest.param("statefulset-controller", "delete", kinds.CLAIM, id="the StatefulSet controller keeps claims"),
        pytest.param("garbage-collector", "create", POD, id="the garbage collector makes nothing"),
        pytest.param("namespace-controller", "patch", POD, id="the namespace controller changes no contents"),
        pytest.param("service-account-controller", "delete", SERVICE_ACCOUNT, id="accounts are only made"),
        pytest.param("clusterrole-aggregation-controller", "create", CLUSTER_ROLE, id="roles are only filled"),
        pytest.param("mooring-provisioner", "list", SECRET, id="the provisioner lists no secrets"),
        pytest.param("mooring-provisioner", "create", kinds.CONFIG_MAP, id="the provisioner's records stay at home"),
        pytest.param("extender", "bind", POD, id="an extender that only filters places no pods"),
        pytest.param("extender", "patch", kinds.VOLUME, id="nor does it give volumes away"),
        pytest.param("extender", "patch", kinds.CLAIM, id="or send claims to nodes"),
        pytest.param("extender-bind", "create", POD, id="one that binds makes no pods"),
        pytest.param("extender-bind", "delete", POD, id="and evicts none"),
        pytest.param("extender-bind", "delete", kinds.VOLUME, id="and deletes no volumes"),
        pytest.param(INFORMERS, "get", SECRET, id="the caches only watch"),
        pytest.param(BOOTSTRAP, "delete", NODE, id="who sets the cluster up takes nothing down"),
    ],
)
async def test_what_a_component_must_not_do_it_cannot_do(
    world: World, component: str, verb: str, kind: Kind[Any]
) -> None:
    with pytest.raises(Forbidden) as refused:
        await attempt(world.client(component), verb, kind)
    assert f'User "{identity_of(component).user.name}" cannot ' in refused.value.message


SYSTEM = "kube-system"
#: What gives power over others, and which components may do it all the same. No other may.
DANGEROUS: dict[ResourceRequest, set[str]] = {
    ResourceRequest("get", "", "secrets", namespace="default", name="x"): {
        "csi-attacher",
        "garbage-collector",
        "mooring-provisioner",
        "node-agent",
    },
    ResourceRequest("list", "", "secrets", namespace="default"): {"garbage-collector", "namespace-controller"},
    ResourceRequest("watch", "", "secrets"): {"garbage-collector", "namespace-controller"},
    ResourceRequest("create", "", "secrets", namespace="default"): set(),
    ResourceRequest("patch", "", "secrets", namespace="default", name="x"): {"garbage-collector"},
    ResourceRequest("create", "", "serviceaccounts", "token", namespace="default", name="default"): set(),
    ResourceRequest("create", "", "serviceaccounts", namespace="default"): {BOOTSTRAP, "service-account-controller"},
    ResourceRequest("impersonate", "", "users", name="system:admin"): set(),
    ResourceRequest("create", "authentication.k8s.io", "tokenreviews"): set(),
    ResourceRequest("create", RBAC, "clusterroles"): set(),
    ResourceRequest("create", RBAC, "clusterrolebindings"): set(),
    ResourceRequest("create", RBAC, "roles", namespace=SYSTEM): set(),
    ResourceRequest("create", RBAC, "rolebindings", namespace=SYSTEM): set(),
    ResourceRequest("update", RBAC, "clusterroles", name="edit"): set(),
    ResourceRequest("patch", RBAC, "clusterroles", name="edit"): {
        "clusterrole-aggregation-controller",
        "garbage-collector",
    },
    ResourceRequest("escalate", RBAC, "clusterroles", name="edit"): {"clusterrole-aggregation-controller"},
    ResourceRequest("bind", RBAC, "clusterroles", name="edit"): set(),
    ResourceRequest("deletecollection", "", "pods", namespace="default"): set(),
    ResourceRequest("create", "", "pods", "exec", namespace="default", name="x"): set(),
    ResourceRequest("create", "", "pods", "binding", namespace="default", name="x"): {
        "default-scheduler",
        "extender-bind",
    },
    ResourceRequest("create", "", "nodes"): {"node-agent"},
    ResourceRequest("update", "", "nodes", name="x"): set(),
    ResourceRequest("delete", "", "nodes", name="x"): {"garbage-collector", "namespace-controller"},
    ResourceRequest("delete", "", "persistentvolumes", name="x"): {
        "garbage-collector",
        "lost-storage-controller",
        "mooring-provisioner",
        "namespace-controller",
        "selected-node-janitor",
        "standin-provisioner",
    },
    ResourceRequest("get", "", "configmaps", namespace="default", name="x"): {"garbage-collector", "node-agent"},
    ResourceRequest("patch", "", "configmaps", namespace="default", name="x"): {"garbage-collector"},
    # Who leads: a Lease that another process renews.
    ResourceRequest("patch", COORDINATION, "leases", namespace=SYSTEM, name="kube-scheduler"): {
        "garbage-collector",
        "mooring-provisioner",
    },
    ResourceRequest("patch", COORDINATION, "leases", namespace=SYSTEM, name="mooring-coordinator"): {
        "garbage-collector",
        "mooring-coordinator",
        "mooring-provisioner",
    },
    ResourceRequest("patch", COORDINATION, "leases", namespace=SYSTEM, name="mooring-scheduler"): {
        "default-scheduler",
        "garbage-collector",
        "mooring-provisioner",
    },
    ResourceRequest("patch", COORDINATION, "leases", namespace="kube-node-lease", name="n1"): {
        "garbage-collector",
        "node-agent",
    },
    ResourceRequest("patch", COORDINATION, "leases", namespace="default", name="x"): {"garbage-collector"},
}


@pytest.mark.req("T32.no-more")
@pytest.mark.parametrize("component", sorted(IDENTITIES))
async def test_power_over_others_is_where_the_table_says_and_nowhere_else(world: World, component: str) -> None:
    user = identity_of(component).user
    able = {request for request in DANGEROUS if (await world.access.decide(user, request)).allowed}
    assert able == {request for request, components in DANGEROUS.items() if component in components}


@pytest.mark.req("T32.no-more")
async def test_the_page_changes_nothing(world: World) -> None:
    user = identity_of(PAGE).user
    for kind in kinds.STORED:
        for verb in ("create", "update", "patch", "delete", "deletecollection"):
            for namespace in ("", "default", SYSTEM):
                request = ResourceRequest(verb, kind.group, kind.plural, namespace=namespace, name="x")
                assert not (await world.access.decide(user, request)).allowed, request


async def test_shared_caches_hold_no_secrets_and_the_garbage_collector_still_looks_after_them(world: World) -> None:
    with pytest.raises(Forbidden):
        await world.client(INFORMERS).list(SECRET)
    plane = ControlPlane(world.client, Layout(), clock=SystemClock(), rng=random.Random(1))
    caches = asyncio.create_task(plane._informers.run())
    async with asyncio.timeout(10):
        await plane._informers.of(SECRET).synced.wait()
    caches.cancel()


async def test_object_that_a_change_handler_fails_with_is_counted_and_gets_an_event(world: World) -> None:
    """Handlers of all components share the informers, which write the event under their own identity."""
    plane = ControlPlane(world.client, Layout(), clock=SystemClock(), rng=random.Random(1))
    await world.admin.create(CLAIM, claim_body(name="poison"), namespace="default")

    def fail(before: object, after: object) -> None:
        raise LookupError("a bug")

    plane._informers.of(CLAIM).on_change(fail)
    tasks = [asyncio.create_task(part.run()) for part in (plane._informers, *plane._recorders)]
    async with asyncio.timeout(10):
        await plane._informers.of(CLAIM).synced.wait()
        await plane._recorders[0].flush()
    for task in tasks:
        task.cancel()
    [event] = (await world.admin.list(EVENT)).items
    assert (event.involved_object.name, event.reason) == ("poison", INTERNAL_ERROR)
    assert b'mooring_internal_errors_total{name="informer of persistentvolumeclaims"} 1.0' in plane.metrics.expose()


@pytest.mark.req("T32.no-more")
@pytest.mark.parametrize("component", sorted(set(IDENTITIES) - {"clusterrole-aggregation-controller"}))
async def test_component_cannot_escalate_its_own_rights(world: World, component: str) -> None:
    client, identity = world.client(component), identity_of(component)
    everything = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    metadata = {"name": "mine"}
    with pytest.raises(Forbidden):
        await client.create(CLUSTER_ROLE, {"metadata": metadata, "rules": everything})
    role = {"kind": "ClusterRole", "name": "cluster-admin"}
    with pytest.raises(Forbidden):
        await client.create(CLUSTER_ROLE_BINDING, {"metadata": metadata, "roleRef": role})
    with pytest.raises(Forbidden):
        await client.patch(CLUSTER_ROLE, identity.role, MergePatch({"rules": everything}))


async def test_a_token_of_its_account_makes_a_component_elsewhere_the_same_user(world: World) -> None:
    """Names must agree with those that service account tokens give."""
    user = identity_of("default-scheduler").user
    assert user.name == "system:serviceaccount:kube-system:mooring-default-scheduler"
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
    assert identities.NAMESPACE == "kube-system"


async def test_shared_caches_respect_each_components_rights(world: World) -> None:
    shared = Informers(world.client(INFORMERS), SystemClock(), random.Random(1))
    scheduler = SharedInformers(shared, identity_of("default-scheduler"))
    assert scheduler.of(POD) is shared.of(POD)
    with pytest.raises(Forbidden, match=r'mooring-default-scheduler" cannot list resource "secrets"'):
        scheduler.of(SECRET)
    with pytest.raises(RuntimeError, match="run by the ControlPlane"):
        await scheduler.run()


async def test_a_right_that_is_taken_away_is_gone_for_components_too(world: World) -> None:
    client = world.client("pod-garbage-collector")
    await client.list(POD)
    await world.admin.delete(CLUSTER_ROLE_BINDING, identity_of("pod-garbage-collector").role)
    with pytest.raises(Forbidden):
        await client.list(POD)
    await install_policy(world.api)
    await client.list(POD)
