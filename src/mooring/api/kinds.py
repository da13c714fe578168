"""The kinds Mooring speaks: one row each, from which everything else follows.

Routes, discovery, OpenAPI, store keys, client URLs and decoders are derived from these rows; nobody spells a
plural or a path elsewhere. A kind is listed once something stands behind it: passive data (ConfigMaps), data that
a component of Mooring acts on, or kinds that Kubernetes' own components want to list before they start (`IDLE`, whose
writers are warned). Any other is not served, so that clients hear "no matches for kind" instead of waiting.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

import msgspec

from mooring.api.views.access import ClusterRole, Role, RoleBinding
from mooring.api.views.claim import Claim
from mooring.api.views.daemon_set import DaemonSet
from mooring.api.views.deployment import Deployment, ReplicaSet
from mooring.api.views.disruption import DisruptionBudget
from mooring.api.views.event import Event
from mooring.api.views.lease import Lease
from mooring.api.views.meta import ApiObject
from mooring.api.views.namespace import Namespace
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.api.views.priority_class import PriorityClass
from mooring.api.views.revision import ControllerRevision
from mooring.api.views.service import ReplicationController, Service
from mooring.api.views.storage import (
    CsiDriver,
    CsiNode,
    StorageCapacity,
    StorageClass,
    VolumeAttachment,
    VolumeAttributesClass,
)
from mooring.api.views.volume import Volume
from mooring.api.views.workload import StatefulSet

V = TypeVar("V", bound=ApiObject, covariant=True)

#: Every verb of an ordinary kind, in the order discovery lists them.
FULL: Final = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)

#: What changes the number of replicas, the same for all workloads that have one.
SCALE: Final = ("scale", ("get", "patch", "update"))

_METADATA: Final = msgspec.json.Decoder(ApiObject)


@dataclass(frozen=True)
class Kind(Generic[V]):
    """One row of the table. Identity is the row: compare with `is`."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    view: type[V]
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    #: Kinds with a status have it isolated: the main endpoint ignores it, `/status` ignores the rest.
    has_status: bool = False
    #: Whether `metadata.generation` counts changes of the spec.
    has_generation: bool = False
    #: Subresources beside `status`, each with the verbs it takes.
    subresources: tuple[tuple[str, tuple[str, ...]], ...] = ()
    verbs: tuple[str, ...] = FULL
    #: Kinds for which a PUT on a name that does not exist creates it.
    create_on_update: bool = False
    #: Kinds for which a PUT must say which version it replaces.
    update_needs_version: bool = False
    #: The kind in whose form, and at whose place, the objects are kept, where that is another.
    stored_as: "Kind[Any] | None" = None
    _decoder: "msgspec.json.Decoder[Any]" = field(init=False, repr=False, compare=False)
    #: Rows are keys of many tables, and looked up by every request.
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_decoder", msgspec.json.Decoder(self.view))
        object.__setattr__(self, "_hash", hash((self.group, self.version, self.plural)))

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def root(self) -> str:
        """The URL of the group version, without a slash at the end: `/api/v1`, `/apis/apps/v1`."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of one object, of a collection, or of a subresource."""
        parts = [self.root]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def store_prefix(self, namespace: str = "") -> str:
        """Where the objects of this kind lie in the store; versions of a group share one place."""
        if self.stored_as is not None:
            return self.stored_as.store_prefix(namespace)
        prefix = f"/{self.group or 'core'}/{self.plural}/"
        return f"{prefix}{namespace}/" if self.namespaced and namespace else prefix

    def store_key(self, namespace: str, name: str) -> str:
        return self.store_prefix(namespace if self.namespaced else "") + name

    def decode(self, raw: bytes | msgspec.Raw) -> V:
        """The typed view of an object's JSON. Raises msgspec.ValidationError for wrong types."""
        return self._decoder.decode(raw)  # type: ignore[no-any-return]  # the decoder is typed Any

    def decode_bookmark(self, raw: bytes | msgspec.Raw) -> V:
        """The view of a watch bookmark, which means nothing but its metadata: some servers fill the rest with nulls."""
        return self.view(metadata=_METADATA.decode(raw).metadata)

    def __hash__(self) -> int:
        return self._hash


POD: Final = Kind(
    "", "v1", "Pod", "pods", True, Pod,
    short=("po",), categories=("all",), has_status=True, has_generation=True,
    subresources=(("binding", ("create",)), ("eviction", ("create",))),
)  # fmt: skip
NODE: Final = Kind("", "v1", "Node", "nodes", False, Node, short=("no",), has_status=True)
VOLUME: Final = Kind(
    "", "v1", "PersistentVolume", "persistentvolumes", False, Volume,
    short=("pv",), has_status=True,
)  # fmt: skip
CLAIM: Final = Kind(
    "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, Claim,
    short=("pvc",), has_status=True,
)  # fmt: skip
NAMESPACE: Final = Kind(
    "", "v1", "Namespace", "namespaces", False, Namespace,
    short=("ns",), has_status=True, subresources=(("finalize", ("update",)),),
    verbs=tuple(v for v in FULL if v != "deletecollection"),
)  # fmt: skip
EVENT: Final = Kind(
    "", "v1", "Event", "events", True, Event, short=("ev",), create_on_update=True
)  # fmt: skip
#: The same events in words of their own.
NEW_EVENT: Final = Kind(
    "events.k8s.io", "v1", "Event", "events", True, ApiObject,
    short=("ev",), create_on_update=True, stored_as=EVENT,
)  # fmt: skip
CONFIG_MAP: Final = Kind("", "v1", "ConfigMap", "configmaps", True, ApiObject, short=("cm",))
SECRET: Final = Kind("", "v1", "Secret", "secrets", True, ApiObject)
SERVICE_ACCOUNT: Final = Kind(
    "", "v1", "ServiceAccount", "serviceaccounts", True, ApiObject,
    short=("sa",), subresources=(("token", ("create",)),),
)  # fmt: skip
SERVICE: Final = Kind(
    "", "v1", "Service", "services", True, Service,
    short=("svc",), categories=("all",), has_status=True, create_on_update=True,
)  # fmt: skip
ENDPOINTS: Final = Kind("", "v1", "Endpoints", "endpoints", True, ApiObject, short=("ep",), create_on_update=True)
POD_TEMPLATE: Final = Kind("", "v1", "PodTemplate", "podtemplates", True, ApiObject, has_generation=True)
LIMIT_RANGE: Final = Kind(
    "", "v1", "LimitRange", "limitranges", True, ApiObject, short=("limits",), create_on_update=True
)
RESOURCE_QUOTA: Final = Kind(
    "", "v1", "ResourceQuota", "resourcequotas", True, ApiObject, short=("quota",), has_status=True
)
REPLICATION_CONTROLLER: Final = Kind(
    "", "v1", "ReplicationController", "replicationcontrollers", True, ReplicationController,
    short=("rc",), categories=("all",), has_status=True, has_generation=True, subresources=(SCALE,),
)  # fmt: skip
STORAGE_CLASS: Final = Kind(
    "storage.k8s.io", "v1", "StorageClass", "storageclasses", False, StorageClass, short=("sc",)
)
CSI_NODE: Final = Kind("storage.k8s.io", "v1", "CSINode", "csinodes", False, CsiNode, update_needs_version=True)
CSI_DRIVER: Final = Kind("storage.k8s.io", "v1", "CSIDriver", "csidrivers", False, CsiDriver, update_needs_version=True)
STORAGE_CAPACITY: Final = Kind(
    "storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", True, StorageCapacity,
    update_needs_version=True,
)  # fmt: skip
VOLUME_ATTACHMENT: Final = Kind(
    "storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", False, VolumeAttachment,
    has_status=True, update_needs_version=True,
)  # fmt: skip
VOLUME_ATTRIBUTES_CLASS: Final = Kind(
    "storage.k8s.io", "v1", "VolumeAttributesClass", "volumeattributesclasses", False, VolumeAttributesClass,
    short=("vac",),
)  # fmt: skip
DEPLOYMENT: Final = Kind(
    "apps", "v1", "Deployment", "deployments", True, Deployment,
    short=("deploy",), categories=("all",), has_status=True, has_generation=True, subresources=(SCALE,),
)  # fmt: skip
REPLICA_SET: Final = Kind(
    "apps", "v1", "ReplicaSet", "replicasets", True, ReplicaSet,
    short=("rs",), categories=("all",), has_status=True, has_generation=True, subresources=(SCALE,),
)  # fmt: skip
DAEMON_SET: Final = Kind(
    "apps", "v1", "DaemonSet", "daemonsets", True, DaemonSet,
    short=("ds",), categories=("all",), has_status=True, has_generation=True,
)  # fmt: skip
CONTROLLER_REVISION: Final = Kind("apps", "v1", "ControllerRevision", "controllerrevisions", True, ControllerRevision)
STATEFUL_SET: Final = Kind(
    "apps", "v1", "StatefulSet", "statefulsets", True, StatefulSet,
    short=("sts",), categories=("all",), has_status=True, has_generation=True,
    subresources=(SCALE,),
)  # fmt: skip
LEASE: Final = Kind(
    "coordination.k8s.io", "v1", "Lease", "leases", True, Lease,
    create_on_update=True, update_needs_version=True,
)  # fmt: skip
PRIORITY_CLASS: Final = Kind(
    "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, PriorityClass,
    short=("pc",), has_generation=True,
)  # fmt: skip
DISRUPTION_BUDGET: Final = Kind(
    "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, DisruptionBudget,
    short=("pdb",), has_status=True, has_generation=True, update_needs_version=True,
)  # fmt: skip
RESOURCE_SLICE: Final = Kind(
    "resource.k8s.io", "v1", "ResourceSlice", "resourceslices", False, ApiObject, has_generation=True
)
DEVICE_CLASS: Final = Kind(
    "resource.k8s.io", "v1", "DeviceClass", "deviceclasses", False, ApiObject, has_generation=True
)
RESOURCE_CLAIM: Final = Kind(
    "resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", True, ApiObject, has_status=True
)
RESOURCE_CLAIM_TEMPLATE: Final = Kind(
    "resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates", True, ApiObject
)

_RBAC: Final = "rbac.authorization.k8s.io"
ROLE: Final = Kind(_RBAC, "v1", "Role", "roles", True, Role, create_on_update=True)
CLUSTER_ROLE: Final = Kind(_RBAC, "v1", "ClusterRole", "clusterroles", False, ClusterRole, create_on_update=True)
ROLE_BINDING: Final = Kind(_RBAC, "v1", "RoleBinding", "rolebindings", True, RoleBinding, create_on_update=True)
CLUSTER_ROLE_BINDING: Final = Kind(
    _RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", False, RoleBinding, create_on_update=True
)


def _review(group: str, kind: str, plural: str, *, namespaced: bool = False) -> Kind[ApiObject]:
    """A question: answered when it is created, and not kept."""
    return Kind(group, "v1", kind, plural, namespaced, ApiObject, verbs=("create",))


TOKEN_REVIEW: Final = _review("authentication.k8s.io", "TokenReview", "tokenreviews")
SELF_SUBJECT_REVIEW: Final = _review("authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews")
_AUTHORIZATION: Final = "authorization.k8s.io"
ACCESS_REVIEW: Final = _review(_AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews")
SELF_ACCESS_REVIEW: Final = _review(_AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews")
LOCAL_ACCESS_REVIEW: Final = _review(
    _AUTHORIZATION, "LocalSubjectAccessReview", "localsubjectaccessreviews", namespaced=True
)
SELF_RULES_REVIEW: Final = _review(_AUTHORIZATION, "SelfSubjectRulesReview", "selfsubjectrulesreviews")

#: Kept for others to read; nothing in Mooring does what they ask for.
IDLE: Final[frozenset[Kind[ApiObject]]] = frozenset(
    {
        LIMIT_RANGE,
        RESOURCE_QUOTA,
        REPLICATION_CONTROLLER,
        RESOURCE_SLICE,
        DEVICE_CLASS,
        RESOURCE_CLAIM,
        RESOURCE_CLAIM_TEMPLATE,
    }
)

KINDS: Final[tuple[Kind[ApiObject], ...]] = (
    POD,
    NODE,
    VOLUME,
    CLAIM,
    NAMESPACE,
    EVENT,
    CONFIG_MAP,
    SECRET,
    SERVICE_ACCOUNT,
    SERVICE,
    ENDPOINTS,
    POD_TEMPLATE,
    LIMIT_RANGE,
    RESOURCE_QUOTA,
    REPLICATION_CONTROLLER,
    STORAGE_CLASS,
    CSI_NODE,
    CSI_DRIVER,
    STORAGE_CAPACITY,
    VOLUME_ATTACHMENT,
    VOLUME_ATTRIBUTES_CLASS,
    DEPLOYMENT,
    REPLICA_SET,
    DAEMON_SET,
    STATEFUL_SET,
    CONTROLLER_REVISION,
    PRIORITY_CLASS,
    DISRUPTION_BUDGET,
    LEASE,
    NEW_EVENT,
    RESOURCE_SLICE,
    DEVICE_CLASS,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    ROLE,
    CLUSTER_ROLE,
    ROLE_BINDING,
    CLUSTER_ROLE_BINDING,
    TOKEN_REVIEW,
    SELF_SUBJECT_REVIEW,
    ACCESS_REVIEW,
    SELF_ACCESS_REVIEW,
    LOCAL_ACCESS_REVIEW,
    SELF_RULES_REVIEW,
)
#: Those whose objects are kept: all but questions, and other words for what is kept already.
STORED: Final = tuple(kind for kind in KINDS if "list" in kind.verbs and kind.stored_as is None)

#: Group versions in the order discovery lists them.
GROUP_VERSIONS: Final = tuple(dict.fromkeys((k.group, k.version) for k in KINDS))
BY_PLURAL: Final = {(k.group, k.version, k.plural): k for k in KINDS}
BY_KIND: Final = {(k.api_version, k.kind): k for k in KINDS}
