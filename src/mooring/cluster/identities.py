"""Service accounts and RBAC rules of the components: `mooring-<component>` with ClusterRole `mooring:<component>`.

Rules contain the least that a component needs, including the kinds it reads through shared informers; RBAC cannot
restrict writes to single fields.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from mooring.api import well_known
from mooring.api.kinds import EVENT, SECRET, STORED, Kind
from mooring.api.views.core import PolicyRule
from mooring.server.auth import policy
from mooring.server.auth.authenticator import authenticated
from mooring.server.auth.policy import (
    APPS,
    COORDINATION,
    EVENTS,
    POLICY,
    RBAC,
    SCHEDULING,
    STORAGE,
    BindingRow,
    RoleRow,
    rule,
)
from mooring.server.auth.rbac import service_account
from mooring.server.contract import User

NAMESPACE: Final = "kube-system"

#: Verbs of informers.
_WATCH: Final = "list watch"
#: Also single objects, where the cache may be behind.
_READ: Final = "get list watch"
#: Volumes are held only while a coordinator renews its Lease.
_COORDINATOR_THERE: Final = rule("get", "leases", COORDINATION, names=well_known.COORDINATOR_LEASE)
#: Kinds that volume decisions read.
_VOLUMES_WATCHED: Final = (
    rule(_WATCH, "nodes pods persistentvolumes persistentvolumeclaims"),
    rule(_WATCH, "storageclasses csinodes csidrivers csistoragecapacities volumeattachments", STORAGE),
)


class Identity(msgspec.Struct, frozen=True):
    """Account and rules of one component."""

    component: str
    rules: tuple[PolicyRule, ...]
    #: Namespace -> rules that apply only there.
    local: Mapping[str, tuple[PolicyRule, ...]] = {}

    @property
    def account(self) -> str:
        return f"mooring-{self.component.removeprefix('mooring-')}"

    @property
    def role(self) -> str:
        return f"mooring:{self.component.removeprefix('mooring-')}"

    @property
    def user(self) -> User:
        return authenticated(service_account(NAMESPACE, self.account))

    def roles(self) -> Iterator[RoleRow]:
        yield policy.role(self.role, *self.rules)
        for namespace, rules in self.local.items():
            yield policy.role(self.role, *rules, namespace=namespace)

    def bindings(self) -> Iterator[BindingRow]:
        yield policy.binding(self.role, policy.account(self.account, NAMESPACE))
        for namespace in self.local:
            yield policy.binding(self.role, policy.account(self.account, NAMESPACE), namespace=namespace)


def _identity(
    component: str, *rules: PolicyRule, local: Mapping[str, tuple[PolicyRule, ...]] | None = None
) -> Identity:
    return Identity(component, rules, local or {})


#: The shared informers of all components of a process.
INFORMERS: Final = "informers"
#: Creates the initial objects of a cluster.
BOOTSTRAP: Final = "bootstrap"
#: The dashboard.
PAGE: Final = "page"
GARBAGE_COLLECTOR: Final = "garbage-collector"

#: Kinds whose contents no shared cache holds: a component that may see them watches them with its own account.
UNSHARED: Final[Mapping[Kind[Any], str]] = {SECRET: GARBAGE_COLLECTOR}


def _shared_kinds() -> Iterator[PolicyRule]:
    """All kinds that the garbage collector reads, a superset of those of other components."""
    for group in dict.fromkeys(kind.group for kind in STORED):
        kinds = [kind.plural for kind in STORED if kind.group == group and kind is not EVENT and kind not in UNSHARED]
        if kinds:
            yield rule(_WATCH, " ".join(kinds), group)


_IDENTITIES: Final = (
    # Records events on objects whose change handler raised.
    _identity(INFORMERS, *_shared_kinds(), EVENTS),
    _identity(
        BOOTSTRAP,
        rule("create", "namespaces serviceaccounts persistentvolumes"),
        rule("list", "persistentvolumes"),
        rule("create", "storageclasses csidrivers", STORAGE),
        rule("create", "priorityclasses", SCHEDULING),
    ),
    _identity(
        PAGE,
        rule(_WATCH, "events namespaces nodes persistentvolumeclaims persistentvolumes pods"),
        rule(_WATCH, "csidrivers csinodes csistoragecapacities storageclasses volumeattachments", STORAGE),
        rule(_WATCH, "podgroups", SCHEDULING),
        # Shows whether the provisioner of a class runs; an external one may keep its Lease in any namespace.
        rule("list", "leases", COORDINATION),
    ),
    _identity(
        "persistentvolume-controller",
        rule(_WATCH, "pods"),
        rule("get list patch watch", "persistentvolumes"),
        # unbind: only with the gate ClaimRollback.
        rule("get list patch unbind watch", "persistentvolumeclaims"),
        rule("patch", "persistentvolumes/status persistentvolumeclaims/status"),
        rule(_READ, "storageclasses", STORAGE),
        EVENTS,
    ),
    _identity(
        "volume-protection",
        rule(_WATCH, "pods"),
        rule("list patch watch", "persistentvolumes persistentvolumeclaims"),
        # The condition Unused.
        rule("patch", "persistentvolumeclaims/status"),
        EVENTS,
    ),
    _identity("zonal-volume-upgrade", rule("list patch watch", "persistentvolumes"), rule(_WATCH, "nodes"), EVENTS),
    _identity(
        "preset-node-controller",
        rule(_WATCH, "nodes pods"),
        rule("list patch watch", "persistentvolumes"),
        rule("get list patch watch", "persistentvolumeclaims"),
        rule(_WATCH, "storageclasses csinodes", STORAGE),
        EVENTS,
    ),
    _identity(
        "default-scheduler",
        rule(_WATCH, "nodes namespaces services replicationcontrollers"),
        rule("delete get list watch", "pods"),
        rule("create", "pods/binding"),
        rule("patch", "pods/status"),
        rule("get list patch watch", "persistentvolumes persistentvolumeclaims"),
        rule(_WATCH, "storageclasses csinodes csidrivers csistoragecapacities volumeattachments", STORAGE),
        rule(_WATCH, "replicasets statefulsets", APPS),
        rule(_WATCH, "poddisruptionbudgets", POLICY),
        rule(_WATCH, "podgroups", SCHEDULING),
        rule("patch", "podgroups/status", SCHEDULING),
        EVENTS,
        # Records of groups whose volumes are held, and whether an attempt to provision one has begun.
        local={NAMESPACE: (_COORDINATOR_THERE, rule("create get patch", "configmaps"))},
    ),
    # One per mode: without bind the extender writes nothing.
    _identity("extender", *_VOLUMES_WATCHED, rule(_WATCH, "podgroups", SCHEDULING)),
    _identity(
        "extender-bind",
        *_VOLUMES_WATCHED,
        rule(_WATCH, "podgroups", SCHEDULING),
        rule("get", "pods"),
        rule("create", "pods/binding"),
        rule("get patch", "persistentvolumes persistentvolumeclaims"),
        local={NAMESPACE: (_COORDINATOR_THERE,)},
    ),
    _identity(
        "node-agent",
        rule("create list patch watch", "nodes"),
        rule("patch", "nodes/status"),
        rule("delete list watch", "pods"),
        rule("patch", "pods/status persistentvolumeclaims/status"),
        rule(_WATCH, "persistentvolumes persistentvolumeclaims"),
        rule("get", "configmaps persistentvolumeclaims secrets"),
        rule(_WATCH, "storageclasses csidrivers volumeattachments", STORAGE),
        rule("create get list patch", "csinodes", STORAGE),
        EVENTS,
        local={"kube-node-lease": (rule("create patch", "leases", COORDINATION),)},
    ),
    _identity(
        "statefulset-controller",
        rule("create delete get list patch watch", "pods"),
        rule("create list patch watch", "persistentvolumeclaims"),
        rule(_READ, "statefulsets", APPS),
        rule("patch", "statefulsets/status", APPS),
        rule("create delete get list patch watch", "controllerrevisions", APPS),
        EVENTS,
    ),
    _identity(
        "replicaset-controller",
        rule("create delete get list patch watch", "pods"),
        rule(_READ, "replicasets", APPS),
        rule("patch", "replicasets/status", APPS),
        EVENTS,
    ),
    _identity(
        "deployment-controller",
        rule(_WATCH, "pods"),
        rule("get list patch watch", "deployments", APPS),
        rule("patch", "deployments/status", APPS),
        rule("create delete get list patch watch", "replicasets", APPS),
        EVENTS,
    ),
    _identity(
        "daemonset-controller",
        rule(_WATCH, "nodes"),
        rule("create delete get list patch watch", "pods"),
        rule(_READ, "daemonsets", APPS),
        rule("patch", "daemonsets/status", APPS),
        rule("create delete get list patch watch", "controllerrevisions", APPS),
        EVENTS,
    ),
    _identity(
        "disruption-controller",
        rule(_WATCH, "pods"),
        rule(_WATCH, "replicasets deployments statefulsets", APPS),
        rule(_WATCH, "poddisruptionbudgets", POLICY),
        rule("patch", "poddisruptionbudgets/status", POLICY),
        EVENTS,
    ),
    _identity(
        "podgroup-protection-controller",
        rule(_WATCH, "pods"),
        rule("list patch watch", "podgroups", SCHEDULING),
        EVENTS,
    ),
    _identity(
        "ephemeral-volume-controller",
        rule(_WATCH, "pods"),
        rule("create get list watch", "persistentvolumeclaims"),
        EVENTS,
    ),
    # Dependents may be of any kind, as upstream.
    _identity(GARBAGE_COLLECTOR, rule("delete get list patch watch", "*", "*"), EVENTS),
    _identity(
        "namespace-controller",
        rule("get list watch", "namespaces"),
        rule("patch", "namespaces/status"),
        rule("update", "namespaces/finalize"),
        rule("delete list watch", "*", "*"),
        EVENTS,
    ),
    _identity(
        "node-lifecycle-controller",
        rule("list patch watch", "nodes"),
        rule("patch", "nodes/status pods/status"),
        rule(_WATCH, "pods"),
        rule(_READ, "leases", COORDINATION),
        EVENTS,
    ),
    _identity(
        "taint-eviction-controller",
        rule(_WATCH, "nodes"),
        rule("delete list watch", "pods"),
        rule("patch", "pods/status"),
        EVENTS,
    ),
    _identity("pod-garbage-collector", rule("get list watch", "nodes"), rule("delete list watch", "pods"), EVENTS),
    _identity(
        "service-account-controller",
        rule("get list watch", "namespaces"),
        rule("create list watch", "serviceaccounts"),
        EVENTS,
    ),
    # `escalate`: it writes rules that it does not have itself, as upstream.
    _identity("clusterrole-aggregation-controller", rule("escalate list patch watch", "clusterroles", RBAC), EVENTS),
    _identity(
        "standin-provisioner",
        rule("get list watch", "nodes"),
        rule("create delete list patch watch", "persistentvolumes"),
        rule("get list patch watch", "persistentvolumeclaims"),
        rule(_WATCH, "storageclasses", STORAGE),
        EVENTS,
    ),
    _identity(
        "mooring-coordinator",
        rule(_WATCH, "pods nodes"),
        rule("get", "podgroups", SCHEDULING),
        # Nominates a pod to another node after a rollback.
        rule("patch", "pods/status"),
        rule("get list patch watch", "persistentvolumes"),
        rule(_READ, "persistentvolumeclaims"),
        rule(_WATCH, "csinodes storageclasses volumeattachments", STORAGE),
        EVENTS,
        local={
            NAMESPACE: (
                # Intents of single claims; records of groups with their intents.
                rule("create delete get list patch", "configmaps"),
                rule("create", "leases", COORDINATION),
                rule("get patch", "leases", COORDINATION, names=well_known.COORDINATOR_LEASE),
            )
        },
    ),
    _identity(
        "mooring-provisioner",
        rule(_READ, "nodes"),
        # Volumes are held only for pods and groups with several.
        rule(_WATCH, "pods"),
        rule("get", "podgroups", SCHEDULING),
        rule("create delete get list patch watch", "persistentvolumes"),
        rule("get list patch watch", "persistentvolumeclaims"),
        rule(_READ, "storageclasses csinodes volumeattachments", STORAGE),
        # From the informers of the embedded cluster; elsewhere those of its namespace suffice.
        rule(_WATCH, "csistoragecapacities", STORAGE),
        # A StorageClass may reference secrets in any namespace.
        rule("get", "secrets"),
        EVENTS,
        local={
            NAMESPACE: (
                rule("create delete get list patch watch", "csistoragecapacities", STORAGE),
                rule("create delete get list patch", "configmaps"),
                _COORDINATOR_THERE,
                # Records the last poll; named after the driver.
                rule("create patch", "leases", COORDINATION),
                rule("get", "pods"),
            )
        },
    ),
    _identity(
        "skew-watch",
        EVENTS,
        local={
            NAMESPACE: (
                rule("create list", "leases", COORDINATION),
                rule("patch", "leases", COORDINATION, names="mooring-control-plane-announcement"),
            )
        },
    ),
    _identity(
        "attachdetach-controller",
        rule(_WATCH, "pods nodes persistentvolumes persistentvolumeclaims"),
        rule(_WATCH, "csidrivers", STORAGE),
        rule("create delete list watch", "volumeattachments", STORAGE),
        EVENTS,
    ),
    _identity(
        "csi-attacher",
        rule(_WATCH, "persistentvolumes"),
        rule("get", "secrets"),
        rule(_WATCH, "csinodes", STORAGE),
        rule("get list patch watch", "volumeattachments", STORAGE),
        rule("patch", "volumeattachments/status", STORAGE),
        EVENTS,
    ),
    _identity(
        "selected-node-janitor",
        rule("get list watch", "nodes"),
        rule("delete get list patch watch", "persistentvolumes"),
        rule("get list patch watch", "persistentvolumeclaims"),
        rule("get list watch", "csinodes", STORAGE),
        EVENTS,
        local={NAMESPACE: (rule("get list patch watch", "configmaps"),)},
    ),
    _identity(
        "lost-storage-controller",
        rule("get list watch", "nodes"),
        rule("delete list", "pods"),
        rule("delete get list patch watch", "persistentvolumes"),
        rule("create delete get list watch", "persistentvolumeclaims"),
        rule("get list watch", "storageclasses", STORAGE),
        EVENTS,
        local={NAMESPACE: (rule("create delete list watch", "configmaps"),)},
    ),
    _identity(
        "unused-claim-controller",
        rule(_WATCH, "pods"),
        rule("get patch", "persistentvolumes"),
        rule("create delete get list patch watch", "persistentvolumeclaims"),
        rule("get list watch", "storageclasses", STORAGE),
        rule("list watch", "volumeattachments", STORAGE),
        EVENTS,
        local={NAMESPACE: (rule("create delete get list watch", "configmaps"),)},
    ),
)

IDENTITIES: Final[Mapping[str, Identity]] = {identity.component: identity for identity in _IDENTITIES}


class NoIdentity(LookupError):
    """A component without a row: it must not run with the permissions of another."""

    def __init__(self, component: str) -> None:
        super().__init__(f"component {component!r} has no identity; add what it needs to mooring.cluster.identities")


def identity_of(component: str) -> Identity:
    try:
        return IDENTITIES[component]
    except KeyError:
        raise NoIdentity(component) from None


#: Role of components that run as a process of their own: leader election and ComponentInfo. One per process, which its
#: Leases are named after: no component may renew the Lease of another process.
STANDALONE_ROLE: Final = "mooring:standing-alone"
#: Components that never run as a process of their own.
_WITHOUT_LEASES: Final = (INFORMERS, BOOTSTRAP, PAGE)
#: Component -> process; `controller` for all others.
_PROCESSES: Final[Mapping[str, str]] = {
    "default-scheduler": "scheduler",
    "extender": "extender",
    "extender-bind": "extender",
    "node-agent": "nodeagent",
    "mooring-coordinator": "coordinator",
    "mooring-provisioner": "provisioner",
}
_CONTROLLER: Final = "controller"


def _processes() -> dict[str, list[Identity]]:
    found: dict[str, list[Identity]] = {}
    for identity in _IDENTITIES:
        if identity.component not in _WITHOUT_LEASES:
            found.setdefault(_PROCESSES.get(identity.component, _CONTROLLER), []).append(identity)
    return found


def _leases(process: str) -> tuple[PolicyRule, ...]:
    # RBAC cannot say which names may be created, nor which may be listed; a provisioner's is named after its driver.
    names = "" if process == "provisioner" else f"mooring-{process} mooring-{process}-announcement"
    return rule("create list", "leases", COORDINATION), rule("get patch", "leases", COORDINATION, names=names)


def roles() -> tuple[RoleRow, ...]:
    alone = (policy.role(f"{STANDALONE_ROLE}:{name}", *_leases(name), namespace=NAMESPACE) for name in _processes())
    return (*(row for identity in _IDENTITIES for row in identity.roles()), *alone)


def bindings() -> tuple[BindingRow, ...]:
    alone = (
        policy.binding(
            f"{STANDALONE_ROLE}:{name}",
            *(policy.account(each.account, NAMESPACE) for each in those),
            namespace=NAMESPACE,
        )
        for name, those in _processes().items()
    )
    return (*(row for identity in _IDENTITIES for row in identity.bindings()), *alone)


def accounts() -> tuple[dict[str, Any], ...]:
    """The ServiceAccount objects."""
    return tuple(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": identity.account, "namespace": NAMESPACE}}
        for identity in _IDENTITIES
    )
