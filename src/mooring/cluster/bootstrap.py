"""Initial objects and RBAC policy of an embedded cluster.

Missing objects, rules and subjects are created at every start; what users added or changed stays. As upstream, roles
and bindings with `rbac.authorization.kubernetes.io/autoupdate: "false"` are not touched.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from mooring.api import kinds, well_known
from mooring.api.errors import AlreadyExists, NotFound
from mooring.api.patches.contract import MergePatch
from mooring.api.views.core import ClusterRole, PolicyRule, Role, Subject, aggregated_rules
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Client
from mooring.cluster import identities
from mooring.cluster.local_client import LocalClient
from mooring.cluster.storage import Storage
from mooring.nodeagent.node_objects import NodeTemplate
from mooring.server.auth import policy
from mooring.server.auth.coverage import uncovered
from mooring.server.auth.default_policy import CONTROLLER_BINDINGS, CONTROLLER_ROLES, DEFAULT_BINDINGS, DEFAULT_ROLES
from mooring.server.auth.policy import BindingRow, RoleRow, rule_body, subject_body
from mooring.server.auth.rbac import SYSTEM_MASTERS, compacted
from mooring.server.contract import Api, DeleteOptions, ListOptions, Target, User, WriteOptions
from mooring.server.kinds.policy import SYSTEM_CLASSES

NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
LOCAL_CLASS: Final = "local"
REGION: Final = "region-1"
#: The i-th local volume of every node has i times this size.
VOLUME_STEP_GI: Final = 10

#: Objects that are created side by side: a commit of the store takes as many, and a signal stops a start within the
#: time that these take.
CREATED_TOGETHER: Final = 512

#: Called with the activity, the number of steps done, and the total, 0 if unknown.
Progress = Callable[[str, int, int], None]


def no_progress(what: str, done: int, total: int) -> None:
    """Discard the progress."""


class Layout(msgspec.Struct, frozen=True):
    """Number of nodes, zones, racks per zone and local volumes per node.

    Zones first: of six nodes in three zones with two racks, node-1 and node-4 are in zone-a, in its racks 1 and 2.
    """

    nodes: int = 3
    zones: int = 3
    local_volumes: int = 2
    #: Of each zone; 0 labels none.
    racks: int = 0
    #: Prefix of node names.
    prefix: str = "node"

    def rows(self) -> tuple[NodeTemplate, ...]:
        zones = [_zone(number % self.zones) for number in range(self.nodes)]
        return tuple(
            NodeTemplate(
                name=f"{self.prefix}-{number + 1}",
                zone=zone,
                region=REGION,
                # Names of racks are unique across zones.
                labels={well_known.RACK: f"{zone}-rack-{number // self.zones % self.racks + 1}"} if self.racks else {},
            )
            for number, zone in enumerate(zones)
        )


def _zone(number: int) -> str:
    """zone-a … zone-z, then zone-27 and so on."""
    return f"zone-{chr(ord('a') + number)}" if number < 26 else f"zone-{number + 1}"


def local_class(*, default: bool = True) -> dict[str, Any]:
    return {
        "metadata": {"name": LOCAL_CLASS, "annotations": {well_known.DEFAULT_CLASS: "true"} if default else {}},
        "provisioner": well_known.NO_PROVISIONER,
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Retain",
    }


def local_volume(node: str, number: int) -> dict[str, Any]:
    """A local PersistentVolume with affinity to one node."""
    here = {"key": well_known.HOSTNAME, "operator": "In", "values": [node]}
    return {
        "metadata": {"name": f"local-{node}-{number}"},
        "spec": {
            "capacity": {"storage": f"{number * VOLUME_STEP_GI}Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": LOCAL_CLASS,
            "local": {"path": f"/mnt/disks/{number}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }


def volumes(layout: Layout) -> Iterator[dict[str, Any]]:
    for row in layout.rows():
        for number in range(1, layout.local_volumes + 1):
            yield local_volume(row.name, number)


async def system_namespaces(client: Client) -> None:
    await _ensure_all(client, kinds.NAMESPACE, ({"metadata": {"name": name}} for name in NAMESPACES))


async def system_priority_classes(client: Client) -> None:
    classes = ({"metadata": {"name": name}, "value": value} for name, value in SYSTEM_CLASSES.items())
    await _ensure_all(client, kinds.PRIORITY_CLASS, classes)


async def bootstrap(
    client: Client, layout: Layout, storage: Storage | None = None, progress: Progress = no_progress
) -> None:
    """Create the objects of the layout; with `storage`, one of its classes is the default instead of `local`."""
    await system_namespaces(client)
    for name in NAMESPACES:
        await _ensure(client, kinds.SERVICE_ACCOUNT, {"metadata": {"name": "default"}}, namespace=name)
    await system_priority_classes(client)
    await _ensure(client, kinds.STORAGE_CLASS, local_class(default=storage is None))
    if storage is not None:
        await _ensure(client, kinds.CSI_DRIVER, storage.driver_object())
        await _ensure_all(client, kinds.STORAGE_CLASS, storage.class_objects())
    await _create_volumes(client, layout, progress)


async def _create_volumes(client: Client, layout: Layout, progress: Progress) -> None:
    """Those that do not exist. After a restart a list is far cheaper than as many refused creations."""
    existing = {volume.name for volume in (await client.list(kinds.VOLUME)).items}
    missing = [body for body in volumes(layout) if body["metadata"]["name"] not in existing]
    total = layout.nodes * layout.local_volumes
    for start in range(0, len(missing), CREATED_TOGETHER):
        progress("local volumes", total - len(missing) + start, total)
        await _ensure_all(client, kinds.VOLUME, missing[start : start + CREATED_TOGETHER])


async def _ensure_all(
    client: Client, kind: kinds.Kind[ApiObject], bodies: Iterable[dict[str, Any]], *, namespace: str = ""
) -> None:
    """Written concurrently, so that a store with group commit groups them."""
    async with asyncio.TaskGroup() as group:
        for body in bodies:
            group.create_task(_ensure(client, kind, body, namespace=namespace))


async def _ensure(client: Client, kind: kinds.Kind[ApiObject], body: dict[str, Any], *, namespace: str = "") -> None:
    with contextlib.suppress(AlreadyExists):
        await client.create(kind, body, namespace=namespace)


V = TypeVar("V", bound=ApiObject)

#: The server's own user.
SERVER: Final = User("system:apiserver", (SYSTEM_MASTERS, "system:authenticated"))

ROLES: Final[tuple[RoleRow, ...]] = (*DEFAULT_ROLES, *CONTROLLER_ROLES)
BINDINGS: Final[tuple[BindingRow, ...]] = (*DEFAULT_BINDINGS, *CONTROLLER_BINDINGS)

_STRICT: Final = WriteOptions(field_validation="Strict", field_manager="mooring-apiserver")


async def reconcile(api: Api, roles: Iterable[RoleRow] = ROLES, bindings: Iterable[BindingRow] = BINDINGS) -> None:
    """Namespaces of the rows must exist. Written concurrently, so that a store with group commit groups them."""
    async with asyncio.TaskGroup() as group:
        for row in roles:
            group.create_task(_reconcile_role(api, row))
    await _fill_aggregated(api)
    async with asyncio.TaskGroup() as group:
        for binding_row in bindings:
            group.create_task(_reconcile_binding(api, binding_row))


async def _reconcile_role(api: Api, row: RoleRow) -> None:
    kind: kinds.Kind[Role] = kinds.ROLE if row.namespace else kinds.CLUSTER_ROLE
    target = Target(kind, row.namespace, row.name)
    found = await _find_or_create(api, kind, target, row.body())
    if found is None:
        return
    patch: dict[str, Any] = {}
    if missing := uncovered(found.rules or (), row.rules):
        patch["rules"] = [rule_body(rule) for rule in (*(found.rules or ()), *compacted(missing))]
    if labels := {key: value for key, value in row.labels.items() if found.metadata.labels.get(key) != value}:
        patch["metadata"] = {"labels": labels}
    if row.made_of and isinstance(found, ClusterRole) and found.aggregation_rule is None:
        patch["aggregationRule"] = row.body()["aggregationRule"]
    if patch:
        await api.patch(SERVER, target, MergePatch(patch), _STRICT)


async def _reconcile_binding(api: Api, row: BindingRow) -> None:
    kind = kinds.ROLE_BINDING if row.namespace else kinds.CLUSTER_ROLE_BINDING
    target, body = Target(kind, row.namespace, row.name), row.body()
    found = await _find_or_create(api, kind, target, body)
    if found is None:
        return
    if (found.role_ref.kind, found.role_ref.name) != (body["roleRef"]["kind"], body["roleRef"]["name"]):
        # A roleRef is immutable: a binding with another one is replaced, as upstream.
        await api.delete(SERVER, target, DeleteOptions(uid=found.uid))
        await _find_or_create(api, kind, target, body)
        return
    known = {_identity(subject) for subject in found.subjects}
    if missing := [subject for subject in row.subjects if _identity(subject) not in known]:
        subjects = [subject_body(subject) for subject in (*found.subjects, *missing)]
        await api.patch(SERVER, target, MergePatch({"subjects": subjects}), _STRICT)


async def _find_or_create(api: Api, kind: kinds.Kind[V], target: Target, body: Mapping[str, Any]) -> V | None:
    """The existing object, if it may be changed; None if it was created or is protected."""
    try:
        found = kind.decode(await api.get(SERVER, target))
    except NotFound:
        labels = {policy.BOOTSTRAPPING: policy.DEFAULTS} | body["metadata"].get("labels", {})
        metadata = body["metadata"] | {"labels": labels, "annotations": {policy.AUTO_UPDATE: "true"}}
        try:
            await api.create(SERVER, Target(target.kind, target.namespace), {**body, "metadata": metadata}, _STRICT)
            return None
        except AlreadyExists:
            # Race: another server on the same store is starting.
            found = kind.decode(await api.get(SERVER, target))
    return None if found.metadata.annotations.get(policy.AUTO_UPDATE) == "false" else found


async def _fill_aggregated(api: Api) -> None:
    """Fill aggregated roles at once, without waiting for the controller."""
    page = await api.list(SERVER, Target(kinds.CLUSTER_ROLE), ListOptions())
    roles = {role.name: role for role in map(kinds.CLUSTER_ROLE.decode, page.items)}
    for _ in roles:
        changed = {name: rules for name, role in roles.items() if (rules := _changed_rules(role, roles.values()))}
        if not changed:
            return
        for name, rules in changed.items():
            roles[name] = msgspec.structs.replace(roles[name], rules=rules)
            patch = MergePatch({"rules": [rule_body(rule) for rule in rules]})
            await api.patch(SERVER, Target(kinds.CLUSTER_ROLE, name=name), patch, _STRICT)


def _changed_rules(role: ClusterRole, roles: Iterable[ClusterRole]) -> Sequence[PolicyRule]:
    if role.aggregation_rule is None:
        return ()
    rules = aggregated_rules(role, roles)
    return rules if rules != (role.rules or ()) else ()


def _identity(subject: Subject) -> tuple[str, str, str]:
    return subject.kind, subject.namespace, subject.name


async def install_policy(api: Api) -> None:
    """Create missing namespaces, roles, bindings and accounts; existing rules and subjects are kept."""
    client = LocalClient(api, SERVER)
    await system_namespaces(client)
    await reconcile(api, (*ROLES, *identities.roles()), (*BINDINGS, *identities.bindings()))
    await _ensure_all(client, kinds.SERVICE_ACCOUNT, identities.accounts(), namespace=identities.NAMESPACE)
