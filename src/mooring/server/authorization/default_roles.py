"""What every cluster grants from the start: to administrators and users, and to Kubernetes' own components.

Names and rights are Kubernetes', as far as this server has the resources, so that what people know about `view`, `edit`
and `admin` holds here; a test compares with the real one. Mooring's components have roles of their own elsewhere.
"""

from typing import Final

from mooring.server.authorization.policy import (
    BindingRow,
    RoleRow,
    account,
    binding,
    group,
    path_rule,
    role,
    rule,
    user,
)
from mooring.server.authorization.policy_words import (
    ALL_VERBS,
    APPS,
    AUTHENTICATION,
    AUTHORIZATION,
    COORDINATION,
    DEVICES,
    EVENTS,
    POLICY,
    RBAC,
    READ,
    STORAGE,
    WRITE,
)

DEFAULT_ROLES: Final[tuple[RoleRow, ...]] = (
    role(
        "admin",
        made_of="rbac.authorization.k8s.io/aggregate-to-admin",
    ),
    role(
        "cluster-admin",
        rule("*", "*", "*"),
        path_rule("*", "*"),
    ),
    role(
        "edit",
        labels="rbac.authorization.k8s.io/aggregate-to-admin",
        made_of="rbac.authorization.k8s.io/aggregate-to-edit",
    ),
    role(
        "system:aggregate-to-admin",
        rule("create", "localsubjectaccessreviews", AUTHORIZATION),
        rule(ALL_VERBS, "rolebindings roles", RBAC),
        labels="rbac.authorization.k8s.io/aggregate-to-admin",
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
            APPS,
        ),
        rule(WRITE, "poddisruptionbudgets", POLICY),
        rule(ALL_VERBS, "leases", COORDINATION),
        rule(WRITE, "resourceclaims resourceclaimtemplates", DEVICES),
        labels="rbac.authorization.k8s.io/aggregate-to-edit",
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
            APPS,
        ),
        rule(READ, "poddisruptionbudgets poddisruptionbudgets/status", POLICY),
        rule(READ, "resourceclaims resourceclaims/status resourceclaimtemplates", DEVICES),
        labels="rbac.authorization.k8s.io/aggregate-to-view",
    ),
    role(
        "system:auth-delegator",
        rule("create", "tokenreviews", AUTHENTICATION),
        rule("create", "subjectaccessreviews", AUTHORIZATION),
    ),
    role(
        "system:basic-user",
        rule("create", "selfsubjectaccessreviews selfsubjectrulesreviews", AUTHORIZATION),
        rule("create", "selfsubjectreviews", AUTHENTICATION),
    ),
    role(
        "system:discovery",
        path_rule("get", "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/"),
    ),
    role(
        "system:kube-controller-manager",
        EVENTS,
        rule("create", "leases", COORDINATION),
        rule("get update", "leases", COORDINATION, names="kube-controller-manager"),
        rule("create", "secrets serviceaccounts"),
        rule("delete", "secrets"),
        rule("get", "configmaps namespaces secrets serviceaccounts"),
        rule("update", "secrets serviceaccounts"),
        rule("create", "tokenreviews", AUTHENTICATION),
        rule("create", "subjectaccessreviews", AUTHORIZATION),
        rule("list watch", "*", "*"),
        rule("create", "serviceaccounts/token"),
    ),
    role(
        "system:kube-scheduler",
        EVENTS,
        rule("create", "leases", COORDINATION),
        rule("get list update watch", "leases", COORDINATION, names="kube-scheduler"),
        rule(ALL_VERBS, "leasecandidates", COORDINATION),
        rule(READ, "nodes"),
        rule("delete get list watch", "pods"),
        rule("create", "bindings pods/binding"),
        rule("patch update", "pods/status"),
        rule(READ, "replicationcontrollers services"),
        rule(READ, "replicasets", APPS),
        rule(READ, "statefulsets", APPS),
        rule(READ, "poddisruptionbudgets", POLICY),
        rule(READ, "persistentvolumeclaims persistentvolumes"),
        rule("create", "tokenreviews", AUTHENTICATION),
        rule("create", "subjectaccessreviews", AUTHORIZATION),
        rule(READ, "csinodes", STORAGE),
        rule(READ, "volumeattachments", STORAGE),
        rule(READ, "namespaces"),
        rule(READ, "csidrivers", STORAGE),
        rule(READ, "csistoragecapacities", STORAGE),
        rule(READ, "deviceclasses", DEVICES),
        rule("get list patch update watch", "resourceclaims", DEVICES),
        rule("get list patch update watch", "resourceclaims/status", DEVICES),
        rule("update", "pods/finalizers"),
        rule(READ, "resourceslices", DEVICES),
        rule("create delete", "resourceclaims", DEVICES),
        rule("patch update", "resourceclaims/binding", DEVICES),
    ),
    role(
        "system:monitoring",
        path_rule(
            "get", "/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz"
        ),
        rule("get", "nodes/metrics"),
    ),
    role(
        "system:node",
        rule("create", "tokenreviews", AUTHENTICATION),
        rule("create", "localsubjectaccessreviews subjectaccessreviews", AUTHORIZATION),
        rule(READ, "services"),
        rule("create get list watch", "nodes"),
        rule("patch update", "nodes/status"),
        rule("patch update", "nodes"),
        EVENTS,
        rule(READ, "pods"),
        rule("create delete", "pods"),
        rule("patch update", "pods/status"),
        rule("create", "pods/eviction"),
        rule(READ, "configmaps secrets"),
        rule("get", "persistentvolumeclaims persistentvolumes"),
        rule("get", "endpoints"),
        rule("create delete get patch update", "leases", COORDINATION),
        rule("get", "volumeattachments", STORAGE),
        rule("create", "serviceaccounts/token"),
        rule("get patch update", "persistentvolumeclaims/status"),
        rule(READ, "csidrivers", STORAGE),
        rule("create delete get patch update", "csinodes", STORAGE),
        rule("get", "resourceclaims", DEVICES),
        rule("deletecollection", "resourceslices", DEVICES),
        rule("get", "serviceaccounts"),
    ),
    role(
        "system:node-problem-detector",
        rule("get", "nodes"),
        rule("patch", "nodes/status"),
        EVENTS,
    ),
    role(
        "system:persistent-volume-provisioner",
        rule("create delete get list watch", "persistentvolumes"),
        rule("get list update watch", "persistentvolumeclaims"),
        rule(READ, "storageclasses", STORAGE),
        rule("watch", "events"),
        EVENTS,
    ),
    role(
        "system:public-info-viewer",
        path_rule("get", "/healthz /livez /readyz /version /version/"),
    ),
    role(
        "system:volume-scheduler",
        rule("get list patch update watch", "persistentvolumes"),
        rule(READ, "storageclasses", STORAGE),
        rule("get list patch update watch", "persistentvolumeclaims"),
    ),
    role(
        "view",
        labels="rbac.authorization.k8s.io/aggregate-to-edit",
        made_of="rbac.authorization.k8s.io/aggregate-to-view",
    ),
    role(
        "extension-apiserver-authentication-reader",
        rule(READ, "configmaps", names="extension-apiserver-authentication"),
        namespace="kube-system",
    ),
    role(
        "system::leader-locking-kube-controller-manager",
        rule("create get list update watch", "leases", COORDINATION),
        rule("create get list update watch", "leasecandidates", COORDINATION),
        namespace="kube-system",
    ),
    role(
        "system::leader-locking-kube-scheduler",
        rule("create get list update watch", "leases", COORDINATION),
        rule("create get list update watch", "leasecandidates", COORDINATION),
        namespace="kube-system",
    ),
)

_EVERYBODY: Final = group("system:authenticated")
_SCHEDULER: Final = user("system:kube-scheduler")
_CONTROLLER_MANAGER: Final = user("system:kube-controller-manager")
_SYSTEM: Final = "kube-system"

DEFAULT_BINDINGS: Final[tuple[BindingRow, ...]] = (
    binding("cluster-admin", group("system:masters")),
    binding("system:basic-user", _EVERYBODY),
    binding("system:discovery", _EVERYBODY),
    binding("system:public-info-viewer", _EVERYBODY, group("system:unauthenticated")),
    binding("system:monitoring", group("system:monitoring")),
    # Nodes are not in a group that would get this by itself: whoever runs a kubelet binds it.
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
