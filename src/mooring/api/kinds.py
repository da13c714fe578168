"""The kinds Mooring speaks: one row each, from which everything else follows.

Routes, discovery, OpenAPI, store keys, client URLs and decoders are derived from these rows; nobody spells a
plural or a path elsewhere. A kind is listed once something stands behind it: passive data (ConfigMaps), or
data that a component of Mooring acts on. A kind nobody would act on is not served, so that clients hear
"no matches for kind" instead of waiting.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

import msgspec

from mooring.api.views.claim import Claim
from mooring.api.views.event import Event
from mooring.api.views.lease import Lease
from mooring.api.views.meta import ApiObject
from mooring.api.views.namespace import Namespace
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.api.views.storage import CsiDriver, CsiNode, StorageCapacity, StorageClass, VolumeAttachment
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
    _decoder: "msgspec.json.Decoder[Any]" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_decoder", msgspec.json.Decoder(self.view))

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
        return hash((self.group, self.version, self.plural))


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
CONFIG_MAP: Final = Kind("", "v1", "ConfigMap", "configmaps", True, ApiObject, short=("cm",))
SECRET: Final = Kind("", "v1", "Secret", "secrets", True, ApiObject)
SERVICE_ACCOUNT: Final = Kind("", "v1", "ServiceAccount", "serviceaccounts", True, ApiObject, short=("sa",))
SERVICE: Final = Kind(
    "", "v1", "Service", "services", True, ApiObject,
    short=("svc",), categories=("all",), has_status=True, create_on_update=True,
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
STATEFUL_SET: Final = Kind(
    "apps", "v1", "StatefulSet", "statefulsets", True, StatefulSet,
    short=("sts",), categories=("all",), has_status=True, has_generation=True,
    subresources=(("scale", ("get", "patch", "update")),),
)  # fmt: skip
LEASE: Final = Kind(
    "coordination.k8s.io", "v1", "Lease", "leases", True, Lease,
    create_on_update=True, update_needs_version=True,
)  # fmt: skip

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
    STORAGE_CLASS,
    CSI_NODE,
    CSI_DRIVER,
    STORAGE_CAPACITY,
    VOLUME_ATTACHMENT,
    STATEFUL_SET,
    LEASE,
)

#: Group versions in the order discovery lists them.
GROUP_VERSIONS: Final = tuple(dict.fromkeys((k.group, k.version) for k in KINDS))
BY_PLURAL: Final = {(k.group, k.version, k.plural): k for k in KINDS}
BY_KIND: Final = {(k.api_version, k.kind): k for k in KINDS}
