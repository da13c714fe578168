"""Kubernetes' default roles and bindings: for users, for its components, and for kube-controller-manager's controllers.

Names and rules are Kubernetes', restricted to the resources this server has; a test compares them with a real cluster.
"""

from typing import Final

from mooring.server.auth import policy
from mooring.server.auth.policy import EVENTS, READ, WRITE, account, binding, group, role, rule, rule_each, user

#: Labels of the roles that are part of an aggregated one.
_TO_ADMIN: Final = "rbac.authorization.k8s.io/aggregate-to-admin"
_TO_EDIT: Final = "rbac.authorization.k8s.io/aggregate-to-edit"
_TO_VIEW: Final = "rbac.authorization.k8s.io/aggregate-to-view"
_SYSTEM: Final = "kube-system"
_LEADER_RULES: Final = rule_each("create get list update watch", "leases leasecandidates", policy.COORDINATION)

#: By name.
_CONTROLLER_RULES: Final = {
    "system:controller:attachdetach-controller": (
        rule("list watch", "persistentvolumeclaims persistentvolumes"),
        rule(READ, "nodes"),
        rule("patch update", "nodes/status"),
        rule("list watch", "pods"),
        EVENTS,
        rule("create delete get list watch", "volumeattachments", policy.STORAGE),
        *rule_each(READ, "csidrivers csinodes", policy.STORAGE),
    ),
    "system:controller:clusterrole-aggregation-controller": (
        rule("escalate get list patch update watch", "clusterroles", policy.RBAC),
    ),
    "system:controller:daemon-set-controller": (
        rule(READ, "daemonsets", policy.APPS),
        *rule_each("update", "daemonsets/status daemonsets/finalizers", policy.APPS),
        rule("list watch", "nodes"),
        rule("create delete list patch watch", "pods"),
        rule("create", "pods/binding"),
        rule("create delete get list patch update watch", "controllerrevisions", policy.APPS),
        EVENTS,
    ),
    "system:controller:deployment-controller": (
        rule("get list update watch", "deployments", policy.APPS),
        *rule_each("update", "deployments/status deployments/finalizers", policy.APPS),
        rule("create delete get list patch update watch", "replicasets", policy.APPS),
        rule("get list update watch", "pods"),
        EVENTS,
    ),
    "system:controller:device-taint-eviction-controller": (
        rule("delete get list watch", "pods"),
        rule("patch update", "pods/status"),
        *rule_each(READ, "resourceclaims resourceslices deviceclasses devicetaintrules", policy.DEVICES),
        rule("patch update", "devicetaintrules/status", policy.DEVICES),
        EVENTS,
    ),
    "system:controller:disruption-controller": (
        *rule_each(READ, "deployments replicasets", policy.APPS),
        rule(READ, "replicationcontrollers"),
        rule(READ, "poddisruptionbudgets", policy.POLICY),
        rule(READ, "statefulsets", policy.APPS),
        rule("update", "poddisruptionbudgets/status", policy.POLICY),
        rule("patch update", "pods/status"),
        rule("get", "*/scale", "*"),
        EVENTS,
    ),
    "system:controller:endpoint-controller": (
        rule(READ, "pods services"),
        rule("create delete get list update watch", "endpoints"),
        rule("create", "endpoints/restricted"),
        EVENTS,
    ),
    "system:controller:ephemeral-volume-controller": (
        rule(READ, "pods"),
        rule("update", "pods/finalizers"),
        rule("create get list watch", "persistentvolumeclaims"),
        EVENTS,
    ),
    "system:controller:expand-controller": (
        rule("get list patch update watch", "persistentvolumes"),
        rule("patch update", "persistentvolumeclaims/status"),
        rule(READ, "persistentvolumeclaims"),
        EVENTS,
    ),
    "system:controller:generic-garbage-collector": (rule("delete get list patch update watch", "*", "*"), EVENTS),
    "system:controller:namespace-controller": (
        rule("delete get list watch", "namespaces"),
        rule("update", "namespaces/finalize namespaces/status"),
        rule("delete deletecollection get list watch", "*", "*"),
    ),
    "system:controller:node-controller": (
        rule("delete get list patch update watch", "nodes"),
        *rule_each("patch update", "nodes/status pods/status"),
        rule("delete get list watch", "pods"),
        rule(READ, "leases", policy.COORDINATION),
        EVENTS,
    ),
    "system:controller:kube-apiserver-serving-clustertrustbundle-publisher": (
        rule("attest", "signers", policy.CERTIFICATES, names="kubernetes.io/kube-apiserver-serving"),
        rule("create delete list update watch", "clustertrustbundles", policy.CERTIFICATES),
        EVENTS,
    ),
    "system:controller:podcertificaterequestcleaner": (
        rule("delete get list watch", "podcertificaterequests", policy.CERTIFICATES),
    ),
    "system:controller:storage-version-migrator-controller": (
        rule("list patch", "*", "*"),
        rule("update", "storageversionmigrations/status", "storagemigration.k8s.io"),
    ),
    "system:controller:persistent-volume-binder": (
        rule("create delete get list update watch", "persistentvolumes"),
        rule("update", "persistentvolumes/status"),
        rule("get list update watch", "persistentvolumeclaims"),
        rule("update", "persistentvolumeclaims/status"),
        rule("create delete get list watch", "pods"),
        rule(READ, "storageclasses", policy.STORAGE),
        rule("list watch", "nodes"),
        EVENTS,
        rule("watch", "events"),
    ),
    "system:controller:pod-garbage-collector": (
        rule("delete list watch", "pods"),
        rule(READ, "nodes"),
        rule("patch", "pods/status"),
    ),
    "system:controller:pv-protection-controller": (rule("get list update watch", "persistentvolumes"), EVENTS),
    "system:controller:pvc-protection-controller": (
        rule("get list update watch", "persistentvolumeclaims"),
        rule("update", "persistentvolumeclaims/status"),
        rule(READ, "pods"),
        EVENTS,
    ),
    "system:controller:replicaset-controller": (
        rule("get list update watch", "replicasets", policy.APPS),
        *rule_each("update", "replicasets/status replicasets/finalizers", policy.APPS),
        rule("create delete list patch watch", "pods"),
        EVENTS,
    ),
    "system:controller:replication-controller": (
        rule("get list update watch", "replicationcontrollers"),
        *rule_each("update", "replicationcontrollers/status replicationcontrollers/finalizers"),
        rule("create delete list patch watch", "pods"),
        EVENTS,
    ),
    "system:controller:podgroup-protection-controller": (
        rule("get list update watch", "podgroups", policy.SCHEDULING),
        rule(READ, "pods"),
    ),
    "system:controller:resource-claim-controller": (
        rule(READ, "pods"),
        rule("update", "pods/finalizers"),
        rule("create delete get list watch", "resourceclaims", policy.DEVICES),
        rule("patch update", "resourceclaims resourceclaims/status", policy.DEVICES),
        rule("patch update", "pods/status"),
        EVENTS,
        rule("patch update", "resourceclaims/binding", policy.DEVICES),
    ),
    "system:controller:resourcequota-controller": (
        rule("list watch", "*", "*"),
        rule("update", "resourcequotas/status"),
        EVENTS,
    ),
    "system:controller:root-ca-cert-publisher": (rule("create update", "configmaps"), EVENTS),
    "system:controller:selinux-warning-controller": (
        EVENTS,
        *rule_each(READ, "persistentvolumes persistentvolumeclaims pods"),
        rule(READ, "csidrivers", policy.STORAGE),
    ),
    "system:controller:service-account-controller": (rule("create", "serviceaccounts"), EVENTS),
    "system:controller:statefulset-controller": (
        rule("list watch", "pods"),
        rule(READ, "statefulsets", policy.APPS),
        *rule_each("update", "statefulsets/status statefulsets/finalizers", policy.APPS),
        rule("create delete get patch update", "pods"),
        rule("create delete get list patch update watch", "controllerrevisions", policy.APPS),
        rule("create get list watch", "persistentvolumeclaims"),
        rule("delete update", "persistentvolumeclaims"),
        rule("update", "pods/finalizers"),
        EVENTS,
    ),
    "system:controller:ttl-controller": (rule("list patch update watch", "nodes"), EVENTS),
    "system:controller:volumeattributesclass-protection-controller": (
        *rule_each(READ, "persistentvolumeclaims persistentvolumes"),
        rule("get list update watch", "volumeattributesclasses", policy.STORAGE),
        EVENTS,
    ),
}

CONTROLLER_ROLES: Final = tuple(role(name, *rules) for name, rules in _CONTROLLER_RULES.items())
CONTROLLER_BINDINGS: Final = tuple(
    binding(name, account(name.removeprefix("system:controller:"))) for name in _CONTROLLER_RULES
)

DEFAULT_ROLES: Final[tuple[policy.RoleRow, ...]] = (
    role("admin", made_of=_TO_ADMIN),
    role("cluster-admin", rule("*", "*", "*"), policy.path_rule("*", "*")),
    role("edit", labels=_TO_ADMIN, made_of=_TO_EDIT),
    role(
        "system:aggregate-to-admin",
        rule("create", "localsubjectaccessreviews", policy.AUTHORIZATION),
        rule(policy.ALL_VERBS, "rolebindings roles", policy.RBAC),
        labels=_TO_ADMIN,
    ),
    role(
        "system:aggregate-to-edit",
        rule(READ, "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
        rule("impersonate", "serviceaccounts"),
        rule(WRITE, "pods pods/attach pods/exec pods/portforward pods/proxy"),
        rule("create", "pods/eviction"),
        rule(
            WRITE,
            "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale "
            "secrets serviceaccounts services services/proxy",
        ),
        rule("create", "serviceaccounts/token"),
        rule(WRITE, "events", "", "events.k8s.io"),
        rule(
            WRITE,
            "daemonsets deployments deployments/rollback deployments/scale replicasets "
            "replicasets/scale statefulsets statefulsets/scale",
            policy.APPS,
        ),
        rule(WRITE, "poddisruptionbudgets", policy.POLICY),
        rule(policy.ALL_VERBS, "leases", policy.COORDINATION),
        rule(WRITE, "resourceclaims resourceclaimtemplates", policy.DEVICES),
        rule(WRITE, "podgroups workloads", policy.SCHEDULING),
        labels=_TO_EDIT,
    ),
    role(
        "system:aggregate-to-view",
        rule(
            READ,
            "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods "
            "replicationcontrollers replicationcontrollers/scale serviceaccounts services "
            "services/status",
        ),
        rule(
            READ,
            "bindings limitranges namespaces/status pods/log pods/status "
            "replicationcontrollers/status resourcequotas resourcequotas/status",
        ),
        rule(READ, "namespaces"),
        rule(READ, "events", "", "events.k8s.io"),
        rule(READ, "endpointslices", "discovery.k8s.io"),
        rule(
            READ,
            "controllerrevisions daemonsets daemonsets/status deployments deployments/scale "
            "deployments/status replicasets replicasets/scale replicasets/status statefulsets "
            "statefulsets/scale statefulsets/status",
            policy.APPS,
        ),
        rule(READ, "poddisruptionbudgets poddisruptionbudgets/status", policy.POLICY),
        rule(READ, "resourceclaims resourceclaims/status resourceclaimtemplates", policy.DEVICES),
        rule(READ, "podgroups podgroups/status workloads", policy.SCHEDULING),
        labels=_TO_VIEW,
    ),
    role(
        "system:auth-delegator",
        rule("create", "tokenreviews", policy.AUTHENTICATION),
        rule("create", "subjectaccessreviews", policy.AUTHORIZATION),
    ),
    role(
        "system:basic-user",
        rule("create", "selfsubjectaccessreviews selfsubjectrulesreviews", policy.AUTHORIZATION),
        rule("create", "selfsubjectreviews", policy.AUTHENTICATION),
    ),
    role(
        "system:discovery",
        policy.path_rule(
            "get", "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/"
        ),
    ),
    role(
        "system:kube-controller-manager",
        EVENTS,
        rule("create", "leases", policy.COORDINATION),
        rule("get update", "leases", policy.COORDINATION, names="kube-controller-manager"),
        rule("create", "secrets serviceaccounts"),
        rule("delete", "secrets"),
        rule("get", "configmaps namespaces secrets serviceaccounts"),
        rule("update", "secrets serviceaccounts"),
        rule("create", "tokenreviews", policy.AUTHENTICATION),
        rule("create", "subjectaccessreviews", policy.AUTHORIZATION),
        rule("list watch", "*", "*"),
        rule("create", "serviceaccounts/token"),
    ),
    role(
        "system:kube-scheduler",
        EVENTS,
        rule("create", "leases", policy.COORDINATION),
        rule("get list update watch", "leases", policy.COORDINATION, names="kube-scheduler"),
        rule(policy.ALL_VERBS, "leasecandidates", policy.COORDINATION),
        rule(READ, "nodes"),
        rule("delete get list watch", "pods"),
        rule("create", "bindings pods/binding"),
        rule("patch update", "pods/status"),
        rule(READ, "replicationcontrollers services"),
        *rule_each(READ, "replicasets statefulsets", policy.APPS),
        rule(READ, "poddisruptionbudgets", policy.POLICY),
        rule(READ, "persistentvolumeclaims persistentvolumes"),
        rule("create", "tokenreviews", policy.AUTHENTICATION),
        rule("create", "subjectaccessreviews", policy.AUTHORIZATION),
        *rule_each(READ, "csinodes volumeattachments", policy.STORAGE),
        rule(READ, "namespaces"),
        *rule_each(READ, "csidrivers csistoragecapacities", policy.STORAGE),
        rule(READ, "deviceclasses", policy.DEVICES),
        *rule_each("get list patch update watch", "resourceclaims resourceclaims/status", policy.DEVICES),
        rule("update", "pods/finalizers"),
        *rule_each(READ, "resourceslices devicetaintrules", policy.DEVICES),
        rule("create delete", "resourceclaims", policy.DEVICES),
        rule("patch update", "resourceclaims/binding", policy.DEVICES),
        rule(READ, "podgroups", policy.SCHEDULING),
        rule("patch update", "podgroups/status", policy.SCHEDULING),
    ),
    role(
        "system:monitoring",
        policy.path_rule(
            "get", "/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz"
        ),
        rule("get", "nodes/metrics"),
    ),
    role(
        "system:node",
        rule("create", "tokenreviews", policy.AUTHENTICATION),
        rule("create", "localsubjectaccessreviews subjectaccessreviews", policy.AUTHORIZATION),
        rule(READ, "services"),
        rule("create get list watch", "nodes"),
        *rule_each("patch update", "nodes/status nodes"),
        EVENTS,
        rule(READ, "pods"),
        rule("create delete", "pods"),
        rule("patch update", "pods/status"),
        rule("create", "pods/eviction"),
        rule(READ, "configmaps secrets"),
        rule("get", "persistentvolumeclaims persistentvolumes"),
        rule("get", "endpoints"),
        rule("create delete get patch update", "leases", policy.COORDINATION),
        rule("get", "volumeattachments", policy.STORAGE),
        rule("create", "serviceaccounts/token"),
        rule("get patch update", "persistentvolumeclaims/status"),
        rule(READ, "csidrivers", policy.STORAGE),
        rule("create delete get patch update", "csinodes", policy.STORAGE),
        rule("get", "resourceclaims", policy.DEVICES),
        rule("deletecollection", "resourceslices", policy.DEVICES),
        rule("get", "serviceaccounts"),
        rule("create get list watch", "certificatesigningrequests", policy.CERTIFICATES),
        rule("create get list watch", "podcertificaterequests", policy.CERTIFICATES),
        rule(READ, "clustertrustbundles", policy.CERTIFICATES),
    ),
    role("system:node-problem-detector", rule("get", "nodes"), rule("patch", "nodes/status"), EVENTS),
    role(
        "system:persistent-volume-provisioner",
        rule("create delete get list watch", "persistentvolumes"),
        rule("get list update watch", "persistentvolumeclaims"),
        rule(READ, "storageclasses", policy.STORAGE),
        rule("watch", "events"),
        EVENTS,
    ),
    role("system:public-info-viewer", policy.path_rule("get", "/healthz /livez /readyz /version /version/")),
    role(
        "system:volume-scheduler",
        rule("get list patch update watch", "persistentvolumes"),
        rule(READ, "storageclasses", policy.STORAGE),
        rule("get list patch update watch", "persistentvolumeclaims"),
    ),
    role("view", labels=_TO_EDIT, made_of=_TO_VIEW),
    role(
        "extension-apiserver-authentication-reader",
        rule(READ, "configmaps", names="extension-apiserver-authentication"),
        namespace=_SYSTEM,
    ),
    role("system::leader-locking-kube-controller-manager", *_LEADER_RULES, namespace=_SYSTEM),
    role("system::leader-locking-kube-scheduler", *_LEADER_RULES, namespace=_SYSTEM),
)

_AUTHENTICATED: Final = group("system:authenticated")
_SCHEDULER: Final = user("system:kube-scheduler")
_CONTROLLER_MANAGER: Final = user("system:kube-controller-manager")

DEFAULT_BINDINGS: Final[tuple[policy.BindingRow, ...]] = (
    binding("cluster-admin", group("system:masters")),
    binding("system:basic-user", _AUTHENTICATED),
    binding("system:discovery", _AUTHENTICATED),
    binding("system:public-info-viewer", _AUTHENTICATED, group("system:unauthenticated")),
    binding("system:monitoring", group("system:monitoring")),
    # Without subjects, as upstream: an administrator binds it to the users of kubelets.
    binding("system:node"),
    binding("system:kube-scheduler", _SCHEDULER),
    binding("system:volume-scheduler", _SCHEDULER),
    binding("system:kube-controller-manager", _CONTROLLER_MANAGER),
    binding("system::leader-locking-kube-scheduler", _SCHEDULER, account("kube-scheduler"), namespace=_SYSTEM),
    binding(
        "system::leader-locking-kube-controller-manager",
        _CONTROLLER_MANAGER,
        account("kube-controller-manager"),
        namespace=_SYSTEM,
    ),
    binding(
        "system::extension-apiserver-authentication-reader",
        _CONTROLLER_MANAGER,
        _SCHEDULER,
        namespace=_SYSTEM,
        role="extension-apiserver-authentication-reader",
    ),
)
