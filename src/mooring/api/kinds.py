"""The served kinds, one row each: routes, discovery, OpenAPI, store keys, client URLs and decoders are derived from it.

A kind is listed if it is passive data (ConfigMaps), if a component of Mooring acts on it, or if Kubernetes' own
components list it before they start (`PASSIVE`: the server warns its writers). Any other kind is not served, so that
clients get "no matches for kind" at once.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from mooring.api.views import core, pod_groups, storage, workloads
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod

V = TypeVar("V", bound=ApiObject, covariant=True)

#: Every verb of an ordinary kind, in the order discovery lists them.
FULL: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

_Subresources: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
#: Subresource of workloads with replicas.
SCALE: Final = ("scale", ("get", "patch", "update"))

_METADATA: Final = msgspec.json.Decoder(ApiObject)


@dataclass(frozen=True, eq=False)
class Kind(Generic[V]):
    """One row of the table. Compared and hashed by identity, at no cost: every request looks up rules by it."""

    group: str
    kind: str
    plural: str
    namespaced: bool
    view: type[V]
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    #: Whether there is a `status` subresource: the main endpoint ignores the status, `/status` the rest.
    has_status: bool = False
    #: Whether `metadata.generation` counts changes of the spec.
    has_generation: bool = False
    #: Subresources besides `status`, with their verbs.
    subresources: _Subresources = ()
    verbs: tuple[str, ...] = FULL
    #: Whether an update of an object that does not exist creates it.
    create_on_update: bool = False
    #: Whether an update must contain the resourceVersion it replaces.
    update_needs_version: bool = False
    #: The kind as which objects are stored, if it is another.
    stored_as: "Kind[Any] | None" = None
    version: str = "v1"
    _decoder: "msgspec.json.Decoder[Any]" = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_decoder", msgspec.json.Decoder(self.view))

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def root(self) -> str:
        """The URL path of the group version: `/api/v1`, `/apis/apps/v1`."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of one object, of a collection, or of a subresource."""
        scope = ("namespaces", namespace) if self.namespaced and namespace else ()
        return "/".join((self.root, *scope, self.plural, *filter(None, (name, subresource))))

    def store_prefix(self, namespace: str = "") -> str:
        """Prefix of the store keys of this kind, shared by the versions of a group."""
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
        """The view of a watch bookmark, of which only metadata is valid: some servers set all else to null."""
        return self.view(metadata=_METADATA.decode(raw).metadata)


def _workload(
    kind: str, plural: str, view: type[V], short: str, *, group: str = "apps", subresources: _Subresources = (SCALE,)
) -> Kind[V]:
    return Kind(
        group, kind, plural, True, view,
        short=(short,), categories=("all",), has_status=True, has_generation=True, subresources=subresources,
    )  # fmt: skip


def _review(group: str, kind: str, plural: str, *, namespaced: bool = False) -> Kind[ApiObject]:
    """A review: its create returns the result, and nothing is stored."""
    return Kind(group, kind, plural, namespaced, ApiObject, verbs=("create",))


POD: Final = _workload(
    "Pod", "pods", Pod, "po", group="", subresources=(("binding", ("create",)), ("eviction", ("create",)))
)
NODE: Final = Kind("", "Node", "nodes", False, core.Node, short=("no",), has_status=True)
VOLUME: Final = Kind("", "PersistentVolume", "persistentvolumes", False, storage.Volume, short=("pv",), has_status=True)
CLAIM: Final = Kind(
    "", "PersistentVolumeClaim", "persistentvolumeclaims", True, storage.Claim, short=("pvc",), has_status=True
)
NAMESPACE: Final = Kind(
    "", "Namespace", "namespaces", False, core.Namespace, short=("ns",), has_status=True,
    subresources=(("finalize", ("update",)),), verbs=tuple(v for v in FULL if v != "deletecollection"),
)  # fmt: skip
EVENT: Final = Kind("", "Event", "events", True, core.Event, short=("ev",), create_on_update=True)
CONFIG_MAP: Final = Kind("", "ConfigMap", "configmaps", True, ApiObject, short=("cm",))
SECRET: Final = Kind("", "Secret", "secrets", True, ApiObject)
SERVICE_ACCOUNT: Final = Kind(
    "", "ServiceAccount", "serviceaccounts", True, ApiObject, short=("sa",), subresources=(("token", ("create",)),)
)
SERVICE: Final = Kind(
    "", "Service", "services", True, core.Service,
    short=("svc",), categories=("all",), has_status=True, create_on_update=True,
)  # fmt: skip
ENDPOINTS: Final = Kind("", "Endpoints", "endpoints", True, ApiObject, short=("ep",), create_on_update=True)
POD_TEMPLATE: Final = Kind("", "PodTemplate", "podtemplates", True, ApiObject, has_generation=True)
LIMIT_RANGE: Final = Kind("", "LimitRange", "limitranges", True, ApiObject, short=("limits",), create_on_update=True)
RESOURCE_QUOTA: Final = Kind("", "ResourceQuota", "resourcequotas", True, ApiObject, short=("quota",), has_status=True)
REPLICATION_CONTROLLER: Final = _workload(
    "ReplicationController", "replicationcontrollers", core.ReplicationController, "rc", group=""
)
_STORAGE: Final = "storage.k8s.io"
STORAGE_CLASS: Final = Kind(_STORAGE, "StorageClass", "storageclasses", False, storage.StorageClass, short=("sc",))
CSI_NODE: Final = Kind(
    _STORAGE, "CSINode", "csinodes", False, storage.CsiNode, has_status=True, update_needs_version=True
)
CSI_DRIVER: Final = Kind(_STORAGE, "CSIDriver", "csidrivers", False, storage.CsiDriver, update_needs_version=True)
STORAGE_CAPACITY: Final = Kind(
    _STORAGE, "CSIStorageCapacity", "csistoragecapacities", True, storage.StorageCapacity, update_needs_version=True
)
VOLUME_ATTACHMENT: Final = Kind(
    _STORAGE, "VolumeAttachment", "volumeattachments", False, storage.VolumeAttachment,
    has_status=True, update_needs_version=True,
)  # fmt: skip
VOLUME_ATTRIBUTES_CLASS: Final = Kind(
    _STORAGE, "VolumeAttributesClass", "volumeattributesclasses", False, storage.VolumeAttributesClass, short=("vac",)
)
DEPLOYMENT: Final = _workload("Deployment", "deployments", workloads.Deployment, "deploy")
REPLICA_SET: Final = _workload("ReplicaSet", "replicasets", workloads.ReplicaSet, "rs")
DAEMON_SET: Final = _workload("DaemonSet", "daemonsets", workloads.DaemonSet, "ds", subresources=())
STATEFUL_SET: Final = _workload("StatefulSet", "statefulsets", workloads.StatefulSet, "sts")
CONTROLLER_REVISION: Final = Kind(
    "apps", "ControllerRevision", "controllerrevisions", True, workloads.ControllerRevision
)
_SCHEDULING: Final = "scheduling.k8s.io"
PRIORITY_CLASS: Final = Kind(
    _SCHEDULING, "PriorityClass", "priorityclasses", False, core.PriorityClass,
    short=("pc",), has_generation=True,
)  # fmt: skip
POD_GROUP: Final = Kind(
    _SCHEDULING, "PodGroup", "podgroups", True, pod_groups.PodGroup,
    has_status=True, update_needs_version=True, version="v1beta1",
)  # fmt: skip
WORKLOAD: Final = Kind(
    _SCHEDULING, "Workload", "workloads", True, pod_groups.Workload, update_needs_version=True, version="v1beta1"
)
#: The same objects in the version that some clusters serve instead; the fields are those of v1beta1.
POD_GROUP_ALPHA: Final = Kind(
    _SCHEDULING, "PodGroup", "podgroups", True, pod_groups.PodGroup,
    has_status=True, update_needs_version=True, stored_as=POD_GROUP, version="v1alpha3",
)  # fmt: skip
WORKLOAD_ALPHA: Final = Kind(
    _SCHEDULING, "Workload", "workloads", True, pod_groups.Workload,
    update_needs_version=True, stored_as=WORKLOAD, version="v1alpha3",
)  # fmt: skip
DISRUPTION_BUDGET: Final = Kind(
    "policy", "PodDisruptionBudget", "poddisruptionbudgets", True, workloads.DisruptionBudget,
    short=("pdb",), has_status=True, has_generation=True, update_needs_version=True,
)  # fmt: skip
LEASE: Final = Kind(
    "coordination.k8s.io", "Lease", "leases", True, core.Lease, create_on_update=True, update_needs_version=True
)
#: The same objects with the field names of `events.k8s.io`.
NEW_EVENT: Final = Kind(
    "events.k8s.io", "Event", "events", True, ApiObject, short=("ev",), create_on_update=True, stored_as=EVENT
)
_RESOURCE: Final = "resource.k8s.io"
RESOURCE_SLICE: Final = Kind(_RESOURCE, "ResourceSlice", "resourceslices", False, ApiObject, has_generation=True)
DEVICE_CLASS: Final = Kind(_RESOURCE, "DeviceClass", "deviceclasses", False, ApiObject, has_generation=True)
RESOURCE_CLAIM: Final = Kind(_RESOURCE, "ResourceClaim", "resourceclaims", True, ApiObject, has_status=True)
RESOURCE_CLAIM_TEMPLATE: Final = Kind(_RESOURCE, "ResourceClaimTemplate", "resourceclaimtemplates", True, ApiObject)
DEVICE_TAINT_RULE: Final = Kind(
    _RESOURCE, "DeviceTaintRule", "devicetaintrules", False, ApiObject,
    has_status=True, has_generation=True, update_needs_version=True,
)  # fmt: skip
_CERTIFICATES: Final = "certificates.k8s.io"
TRUST_BUNDLE: Final = Kind(
    _CERTIFICATES, "ClusterTrustBundle", "clustertrustbundles", False, ApiObject, update_needs_version=True
)
POD_CERTIFICATE_REQUEST: Final = Kind(
    _CERTIFICATES, "PodCertificateRequest", "podcertificaterequests", True, ApiObject,
    has_status=True, update_needs_version=True,
)  # fmt: skip
STORAGE_VERSION_MIGRATION: Final = Kind(
    "storagemigration.k8s.io", "StorageVersionMigration", "storageversionmigrations", False, ApiObject,
    has_status=True, update_needs_version=True,
)  # fmt: skip

_RBAC: Final = "rbac.authorization.k8s.io"
ROLE: Final = Kind(_RBAC, "Role", "roles", True, core.Role, create_on_update=True)
CLUSTER_ROLE: Final = Kind(_RBAC, "ClusterRole", "clusterroles", False, core.ClusterRole, create_on_update=True)
ROLE_BINDING: Final = Kind(_RBAC, "RoleBinding", "rolebindings", True, core.RoleBinding, create_on_update=True)
CLUSTER_ROLE_BINDING: Final = Kind(
    _RBAC, "ClusterRoleBinding", "clusterrolebindings", False, core.RoleBinding, create_on_update=True
)

TOKEN_REVIEW: Final = _review("authentication.k8s.io", "TokenReview", "tokenreviews")
SELF_SUBJECT_REVIEW: Final = _review("authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews")
_AUTHORIZATION: Final = "authorization.k8s.io"
ACCESS_REVIEW: Final = _review(_AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews")
SELF_ACCESS_REVIEW: Final = _review(_AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews")
LOCAL_ACCESS_REVIEW: Final = _review(
    _AUTHORIZATION, "LocalSubjectAccessReview", "localsubjectaccessreviews", namespaced=True
)
SELF_RULES_REVIEW: Final = _review(_AUTHORIZATION, "SelfSubjectRulesReview", "selfsubjectrulesreviews")

#: Stored for other components; no component of Mooring acts on them.
PASSIVE: Final[frozenset[Kind[ApiObject]]] = frozenset({
    LIMIT_RANGE, RESOURCE_QUOTA, REPLICATION_CONTROLLER,
    RESOURCE_SLICE, DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, DEVICE_TAINT_RULE,
    TRUST_BUNDLE, POD_CERTIFICATE_REQUEST, STORAGE_VERSION_MIGRATION,
})  # fmt: skip

#: Kinds that some supported release of kube-apiserver does not serve: components continue without them.
RECENT: Final[frozenset[Kind[ApiObject]]] = frozenset({
    DEVICE_TAINT_RULE, TRUST_BUNDLE, POD_CERTIFICATE_REQUEST, STORAGE_VERSION_MIGRATION,
    POD_GROUP, WORKLOAD, POD_GROUP_ALPHA, WORKLOAD_ALPHA,
})  # fmt: skip

#: All rows, in the order discovery lists them.
KINDS: Final[tuple[Kind[ApiObject], ...]] = tuple(row for row in globals().values() if isinstance(row, Kind))
#: Kinds whose objects are stored: not reviews, and not other forms of a stored kind.
STORED: Final = tuple(kind for kind in KINDS if "list" in kind.verbs and kind.stored_as is None)

#: Group versions in the order discovery lists them.
GROUP_VERSIONS: Final = tuple(dict.fromkeys((k.group, k.version) for k in KINDS))
BY_PLURAL: Final = {(k.group, k.version, k.plural): k for k in KINDS}
BY_KIND: Final = {(k.api_version, k.kind): k for k in KINDS}
