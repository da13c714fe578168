"""PersistentVolumeClaims."""

import msgspec

from mooring.api import keys
from mooring.api.views.meta import Amount, ApiObject, Condition, LabelSelectorView, View
from mooring.api.views.meta import ObjectReference as Reference


class ClaimResources(View, frozen=True, gc=False):
    requests: dict[str, Amount] = {}


class DataSource(View, frozen=True, gc=False):
    """What a new volume shall be filled from."""

    api_group: str = ""
    kind: str = ""
    name: str = ""
    #: Only in `dataSourceRef`, and only across namespaces.
    namespace: str = ""


class ClaimSpec(View, frozen=True, gc=False):
    access_modes: tuple[str, ...] = ()
    resources: ClaimResources = ClaimResources()
    #: None means "no class named", "" means "no class wanted": the difference is the user's.
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str = "Filesystem"
    selector: LabelSelectorView | None = None
    volume_attributes_class_name: str = ""
    data_source: DataSource | None = None
    data_source_ref: DataSource | None = None


class ClaimStatus(View, frozen=True, gc=False):
    phase: str = ""
    capacity: dict[str, Amount] = {}
    access_modes: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    current_volume_attributes_class_name: str = ""


class Claim(ApiObject, frozen=True, gc=False):
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def storage_class(self) -> str:
        """The class, the legacy annotation first as upstream reads it; "" where there is none."""
        legacy = self.metadata.annotations.get(keys.STORAGE_CLASS_BETA)
        return (self.spec.storage_class_name or "") if legacy is None else legacy

    @property
    def has_class(self) -> bool:
        """Whether the user named a class at all; naming the empty one counts."""
        named = keys.STORAGE_CLASS_BETA in self.metadata.annotations
        return named or self.spec.storage_class_name is not None

    @property
    def fully_bound(self) -> bool:
        """Names its volume, and the PV controller has finished. The phase is not consulted."""
        return self.spec.volume_name != "" and keys.BIND_COMPLETED in self.metadata.annotations

    @property
    def selected_node(self) -> str | None:
        """The node the scheduler chose for provisioning; None where it has not."""
        annotations = self.metadata.annotations
        return annotations.get(keys.SELECTED_NODE, annotations.get(keys.SELECTED_NODE_DRAFT))

    @property
    def request(self) -> Amount:
        return self.spec.resources.requests.get("storage", 0)

    @property
    def reference(self) -> Reference:
        """What a volume's claimRef says once it belongs to this claim."""
        meta = self.metadata
        return Reference(
            kind="PersistentVolumeClaim",
            api_version="v1",
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )

    def assumed_on(self, node: str) -> "Claim":
        """This claim as it will read once a node is selected; for caches, never for writing."""
        annotations = self.metadata.annotations | {keys.SELECTED_NODE: node}
        meta = msgspec.structs.replace(self.metadata, annotations=annotations)
        return msgspec.structs.replace(self, metadata=meta)
