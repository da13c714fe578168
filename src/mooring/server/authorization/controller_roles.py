"""Roles of kube-controller-manager's controllers, for one that runs with `--use-service-account-credentials`.

What Kubernetes grants each of them, as far as this server has the resources; a test compares with the real one.
Controllers of kinds that are not served are not listed.
"""

from typing import Final

from mooring.server.authorization.policy import RoleRow, account, binding, role, rule
from mooring.server.authorization.policy_words import APPS, DEVICES, EVENTS, POLICY, RBAC, READ, STORAGE

_PREFIX: Final = "system:controller:"

CONTROLLER_ROLES: Final[tuple[RoleRow, ...]] = (
    role(
        f"{_PREFIX}attachdetach-controller",
        rule("list watch", "persistentvolumeclaims persistentvolumes"),
        rule(READ, "nodes"),
        rule("patch update", "nodes/status"),
        rule("list watch", "pods"),
        EVENTS,
        rule("create delete get list watch", "volumeattachments", STORAGE),
        rule(READ, "csidrivers", STORAGE),
        rule(READ, "csinodes", STORAGE),
    ),
    role(
        f"{_PREFIX}clusterrole-aggregation-controller",
        rule("escalate get list patch update watch", "clusterroles", RBAC),
    ),
    role(
        f"{_PREFIX}daemon-set-controller",
        rule(READ, "daemonsets", APPS),
        rule("update", "daemonsets/status", APPS),
        rule("update", "daemonsets/finalizers", APPS),
        rule("list watch", "nodes"),
        rule("create delete list patch watch", "pods"),
        rule("create", "pods/binding"),
        rule("create delete get list patch update watch", "controllerrevisions", APPS),
        EVENTS,
    ),
    role(
        f"{_PREFIX}deployment-controller",
        rule("get list update watch", "deployments", APPS),
        rule("update", "deployments/status", APPS),
        rule("update", "deployments/finalizers", APPS),
        rule("create delete get list patch update watch", "replicasets", APPS),
        rule("get list update watch", "pods"),
        EVENTS,
    ),
    role(
        f"{_PREFIX}device-taint-eviction-controller",
        rule("delete get list watch", "pods"),
        rule("patch update", "pods/status"),
        rule(READ, "resourceclaims", DEVICES),
        rule(READ, "resourceslices", DEVICES),
        rule(READ, "deviceclasses", DEVICES),
        EVENTS,
    ),
    role(
        f"{_PREFIX}disruption-controller",
        rule(READ, "deployments", APPS),
        rule(READ, "replicasets", APPS),
        rule(READ, "replicationcontrollers"),
        rule(READ, "poddisruptionbudgets", POLICY),
        rule(READ, "statefulsets", APPS),
        rule("update", "poddisruptionbudgets/status", POLICY),
        rule("patch update", "pods/status"),
        rule("get", "*/scale", "*"),
        EVENTS,
    ),
    role(
        f"{_PREFIX}endpoint-controller",
        rule(READ, "pods services"),
        rule("create delete get list update watch", "endpoints"),
        rule("create", "endpoints/restricted"),
        EVENTS,
    ),
    role(
        f"{_PREFIX}ephemeral-volume-controller",
        rule(READ, "pods"),
        rule("update", "pods/finalizers"),
        rule("create get list watch", "persistentvolumeclaims"),
        EVENTS,
    ),
    role(
        f"{_PREFIX}expand-controller",
        rule("get list patch update watch", "persistentvolumes"),
        rule("patch update", "persistentvolumeclaims/status"),
        rule(READ, "persistentvolumeclaims"),
        EVENTS,
    ),
    role(
        f"{_PREFIX}generic-garbage-collector",
        rule("delete get list patch update watch", "*", "*"),
        EVENTS,
    ),
    role(
        f"{_PREFIX}namespace-controller",
        rule("delete get list watch", "namespaces"),
        rule("update", "namespaces/finalize namespaces/status"),
        rule("delete deletecollection get list watch", "*", "*"),
    ),
    role(
        f"{_PREFIX}node-controller",
        rule("delete get list patch update watch", "nodes"),
        rule("patch update", "nodes/status"),
        rule("patch update", "pods/status"),
        rule("delete get list watch", "pods"),
        EVENTS,
    ),
    role(
        f"{_PREFIX}persistent-volume-binder",
        rule("create delete get list update watch", "persistentvolumes"),
        rule("update", "persistentvolumes/status"),
        rule("get list update watch", "persistentvolumeclaims"),
        rule("update", "persistentvolumeclaims/status"),
        rule("create delete get list watch", "pods"),
        rule(READ, "storageclasses", STORAGE),
        rule("list watch", "nodes"),
        EVENTS,
        rule("watch", "events"),
    ),
    role(
        f"{_PREFIX}pod-garbage-collector",
        rule("delete list watch", "pods"),
        rule(READ, "nodes"),
        rule("patch", "pods/status"),
    ),
    role(
        f"{_PREFIX}pv-protection-controller",
        rule("get list update watch", "persistentvolumes"),
        EVENTS,
    ),
    role(
        f"{_PREFIX}pvc-protection-controller",
        rule("get list update watch", "persistentvolumeclaims"),
        rule("update", "persistentvolumeclaims/status"),
        rule(READ, "pods"),
        EVENTS,
    ),
    role(
        f"{_PREFIX}replicaset-controller",
        rule("get list update watch", "replicasets", APPS),
        rule("update", "replicasets/status", APPS),
        rule("update", "replicasets/finalizers", APPS),
        rule("create delete list patch watch", "pods"),
        EVENTS,
    ),
    role(
        f"{_PREFIX}replication-controller",
        rule("get list update watch", "replicationcontrollers"),
        rule("update", "replicationcontrollers/status"),
        rule("update", "replicationcontrollers/finalizers"),
        rule("create delete list patch watch", "pods"),
        EVENTS,
    ),
    role(
        f"{_PREFIX}resource-claim-controller",
        rule(READ, "pods"),
        rule("update", "pods/finalizers"),
        rule("create delete get list watch", "resourceclaims", DEVICES),
        rule("patch update", "resourceclaims resourceclaims/status", DEVICES),
        rule("patch update", "pods/status"),
        EVENTS,
        rule("patch update", "resourceclaims/binding", DEVICES),
    ),
    role(
        f"{_PREFIX}resourcequota-controller",
        rule("list watch", "*", "*"),
        rule("update", "resourcequotas/status"),
        EVENTS,
    ),
    role(
        f"{_PREFIX}root-ca-cert-publisher",
        rule("create update", "configmaps"),
        EVENTS,
    ),
    role(
        f"{_PREFIX}selinux-warning-controller",
        EVENTS,
        rule(READ, "persistentvolumes"),
        rule(READ, "persistentvolumeclaims"),
        rule(READ, "pods"),
        rule(READ, "csidrivers", STORAGE),
    ),
    role(
        f"{_PREFIX}service-account-controller",
        rule("create", "serviceaccounts"),
        EVENTS,
    ),
    role(
        f"{_PREFIX}statefulset-controller",
        rule("list watch", "pods"),
        rule(READ, "statefulsets", APPS),
        rule("update", "statefulsets/status", APPS),
        rule("update", "statefulsets/finalizers", APPS),
        rule("create delete get patch update", "pods"),
        rule("create delete get list patch update watch", "controllerrevisions", APPS),
        rule("create get list watch", "persistentvolumeclaims"),
        rule("delete update", "persistentvolumeclaims"),
        rule("update", "pods/finalizers"),
        EVENTS,
    ),
    role(
        f"{_PREFIX}ttl-controller",
        rule("list patch update watch", "nodes"),
        EVENTS,
    ),
    role(
        f"{_PREFIX}volumeattributesclass-protection-controller",
        rule(READ, "persistentvolumeclaims"),
        rule(READ, "persistentvolumes"),
        rule("get list update watch", "volumeattributesclasses", STORAGE),
        EVENTS,
    ),
)

CONTROLLER_BINDINGS: Final = tuple(
    binding(row.name, account(row.name.removeprefix(_PREFIX))) for row in CONTROLLER_ROLES if not row.namespace
)
