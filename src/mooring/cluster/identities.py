"""Who each component of the cluster is, and the least it needs: one row of rights per component.

Every component acts under a service account of its own, `mooring-<component>` in kube-system, bound to a cluster role
`mooring:<component>`. In the embedded cluster the API server puts these objects in place at start; a component that
runs elsewhere gets the same identity from a token of its account. What a component reads through the informers it
shares with others is a right like any other, and is checked when it reaches for them.

Rights are only as wide as RBAC can say: a scheduler that may patch claims may patch any field of them.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from mooring.api import keys
from mooring.api.kinds import EVENT, SECRET, STORED, Kind
from mooring.api.views.access import PolicyRule
from mooring.server.authentication.service_accounts import service_account
from mooring.server.authentication.tokens import authenticated
from mooring.server.authorization.policy import BindingRow, RoleRow, account, binding, role, rule
from mooring.server.authorization.policy_words import APPS, COORDINATION, EVENTS, POLICY, RBAC, STORAGE
from mooring.server.contract import User

NAMESPACE: Final = "kube-system"

#: What informers ask for.
_WATCH: Final = "list watch"
#: The same, and the object itself when the copy is not enough.
_READ: Final = "get list watch"
#: Whether volumes may be held: only while a coordinator shows that it is there.
_COORDINATOR_THERE: Final = rule("get", "leases", COORDINATION, names=keys.COORDINATOR_LEASE)
#: What decisions about volumes are made on.
_VOLUMES_WATCHED: Final = (
    rule(_WATCH, "nodes pods persistentvolumes persistentvolumeclaims"),
    rule(_WATCH, "storageclasses csinodes csidrivers csistoragecapacities volumeattachments", STORAGE),
)


class Identity(msgspec.Struct, frozen=True):
    """One component."""

    component: str
    rules: tuple[PolicyRule, ...]
    #: What it may do in one namespace only.
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
        yield role(self.role, *self.rules)
        for namespace, rules in self.local.items():
            yield role(self.role, *rules, namespace=namespace)

    def bindings(self) -> Iterator[BindingRow]:
        yield binding(self.role, account(self.account, NAMESPACE))
        for namespace in self.local:
            yield binding(self.role, account(self.account, NAMESPACE), namespace=namespace)


def _identity(
    component: str, *rules: PolicyRule, local: Mapping[str, tuple[PolicyRule, ...]] | None = None
) -> Identity:
    return Identity(component, rules, local or {})


#: Whose watches fill the caches that all components of a process share.
INFORMERS: Final = "informers"
#: Who creates what a cluster has from the beginning.
BOOTSTRAP: Final = "bootstrap"
#: As whom the page looks at the cluster.
PAGE: Final = "page"
GARBAGE_COLLECTOR: Final = "garbage-collector"

#: Kinds whose contents no shared cache holds: a component that may see them watches them with its own account.
UNSHARED: Final[Mapping[Kind[Any], str]] = {SECRET: GARBAGE_COLLECTOR}


def _shared_kinds() -> Iterator[PolicyRule]:
    """All that the garbage collector looks at, which is more than any other component does."""
    for group in dict.fromkeys(kind.group for kind in STORED):
        kinds = [kind.plural for kind in STORED if kind.group == group and kind is not EVENT and kind not in UNSHARED]
        if kinds:
            yield rule(_WATCH, " ".join(kinds), group)


_IDENTITIES: Final = (
    _identity(INFORMERS, *_shared_kinds()),
    _identity(
        BOOTSTRAP,
        rule("create", "namespaces serviceaccounts persistentvolumes"),
        rule("create", "storageclasses csidrivers", STORAGE),
        rule("create", "priorityclasses", "scheduling.k8s.io"),
    ),
    _identity(
        PAGE,
        rule(_WATCH, "events namespaces nodes persistentvolumeclaims persistentvolumes pods"),
        rule(_WATCH, "csidrivers csinodes csistoragecapacities storageclasses volumeattachments", STORAGE),
        # Whether the provisioner of a class seems to be there; an external one may keep its Lease in any namespace.
        rule("list", "leases", COORDINATION),
    ),
    _identity(
        "persistentvolume-controller",
        rule(_WATCH, "pods"),
        rule("get list patch watch", "persistentvolumes"),
        # Only with the gate ClaimRollback are claims unbound.
        rule("get list patch unbind watch", "persistentvolumeclaims"),
        rule("patch", "persistentvolumes/status persistentvolumeclaims/status"),
        rule(_READ, "storageclasses", STORAGE),
        EVENTS,
    ),
    _identity(
        "volume-protection",
        rule(_WATCH, "pods"),
        rule("list patch watch", "persistentvolumes persistentvolumeclaims"),
        # Only with the gate PersistentVolumeClaimUnusedSinceTime.
        rule("patch", "persistentvolumeclaims/status"),
        EVENTS,
    ),
    _identity("zonal-volume-upgrade", rule("list patch watch", "persistentvolumes"), rule(_WATCH, "nodes"), EVENTS),
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
        EVENTS,
        local={NAMESPACE: (_COORDINATOR_THERE,)},
    ),
    # One per mode: who is only asked which nodes will do changes nothing.
    _identity("extender", *_VOLUMES_WATCHED),
    _identity(
        "extender-bind",
        *_VOLUMES_WATCHED,
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
        rule("get", "configmaps secrets"),
        rule(_WATCH, "storageclasses csidrivers volumeattachments", STORAGE),
        rule("create get patch", "csinodes", STORAGE),
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
        "ephemeral-volume-controller",
        rule(_WATCH, "pods"),
        rule("create get list watch", "persistentvolumeclaims"),
        EVENTS,
    ),
    # What it collects may be of any kind, as with upstream's own.
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
        rule(_WATCH, "leases", COORDINATION),
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
    # It writes rules it does not have, which is what `escalate` is for; upstream's has the same right.
    _identity("clusterrole-aggregation-controller", rule("escalate list patch watch", "clusterroles", RBAC), EVENTS),
    _identity(
        "standin-provisioner",
        rule("get list watch", "nodes"),
        rule("create delete list patch watch", "persistentvolumes"),
        rule("list patch watch", "persistentvolumeclaims"),
        rule(_WATCH, "storageclasses", STORAGE),
        EVENTS,
    ),
    _identity(
        "mooring-coordinator",
        rule(_WATCH, "pods nodes"),
        rule("get list patch watch", "persistentvolumes"),
        rule(_READ, "persistentvolumeclaims"),
        rule(_WATCH, "csinodes storageclasses volumeattachments", STORAGE),
        EVENTS,
        local={
            NAMESPACE: (
                rule("get", "configmaps"),
                rule("create", "leases", COORDINATION),
                rule("get patch", "leases", COORDINATION, names=keys.COORDINATOR_LEASE),
            )
        },
    ),
    _identity(
        "mooring-provisioner",
        rule(_READ, "nodes"),
        # Whether a pod needs several volumes decides whether one of them is held.
        rule(_WATCH, "pods"),
        rule("create delete get list patch watch", "persistentvolumes"),
        rule("get list patch watch", "persistentvolumeclaims"),
        rule(_READ, "storageclasses csinodes volumeattachments", STORAGE),
        # A class may name secrets for its driver in any namespace.
        rule("get", "secrets"),
        EVENTS,
        local={
            NAMESPACE: (
                rule("create delete get list patch watch", "csistoragecapacities", STORAGE),
                rule("create delete get list patch", "configmaps"),
                _COORDINATOR_THERE,
                # Which says when the driver was asked last, and is named after it.
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
)

IDENTITIES: Final[Mapping[str, Identity]] = {identity.component: identity for identity in _IDENTITIES}


class NoIdentity(LookupError):
    """A component that nobody has given rights: it must not run with somebody else's."""

    def __init__(self, component: str) -> None:
        super().__init__(f"component {component!r} has no identity; add what it needs to mooring.cluster.identities")


def identity_of(component: str) -> Identity:
    try:
        return IDENTITIES[component]
    except KeyError:
        raise NoIdentity(component) from None


#: What components need besides when they run as a process of their own: to be the only one, and to be seen. By process,
#: whose name its Lease has: no component may renew the Lease of another process.
STANDING_ALONE: Final = "mooring:standing-alone"
#: Those that never do.
_WITHOUT_LEASES: Final = (INFORMERS, BOOTSTRAP, PAGE)
#: The others, but for those of `mooring controller`.
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
    alone = (role(f"{STANDING_ALONE}:{name}", *_leases(name), namespace=NAMESPACE) for name in _processes())
    return (*(row for identity in _IDENTITIES for row in identity.roles()), *alone)


def bindings() -> tuple[BindingRow, ...]:
    alone = (
        binding(f"{STANDING_ALONE}:{name}", *(account(each.account, NAMESPACE) for each in those), namespace=NAMESPACE)
        for name, those in _processes().items()
    )
    return (*(row for identity in _IDENTITIES for row in identity.bindings()), *alone)


def accounts() -> tuple[dict[str, Any], ...]:
    """The ServiceAccount objects."""
    return tuple(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": identity.account, "namespace": NAMESPACE},
        }
        for identity in _IDENTITIES
    )


def manifests() -> list[dict[str, Any]]:
    """All of it as objects to apply to a cluster that is not ours."""
    return [*accounts(), *(row.body() for row in roles()), *(row.body() for row in bindings())]
