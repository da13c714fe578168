"""PersistentVolumes."""

import msgspec

from mooring.api import keys
from mooring.api.views.disks import Disks
from mooring.api.views.meta import Amount, ApiObject, NodeSelectorView, ObjectReference, View


class VolumeNodeAffinity(View, frozen=True, gc=False):
    required: NodeSelectorView | None = None


class SecretName(View, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""


class CsiSource(View, frozen=True, gc=False):
    driver: str = ""
    volume_handle: str = ""
    read_only: bool = False
    fs_type: str = ""
    volume_attributes: dict[str, str] | None = None
    controller_publish_secret_ref: SecretName | None = None
    node_stage_secret_ref: SecretName | None = None
    node_publish_secret_ref: SecretName | None = None


class VolumeSpec(Disks, frozen=True, gc=False):
    capacity: dict[str, Amount] = {}
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    persistent_volume_reclaim_policy: str = "Retain"
    claim_ref: ObjectReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiSource | None = None
    volume_attributes_class_name: str = ""
    mount_options: tuple[str, ...] = ()


class VolumeStatus(View, frozen=True, gc=False):
    phase: str = ""
    reason: str = ""
    message: str = ""
    last_phase_transition_time: str | None = None


class Volume(ApiObject, frozen=True, gc=False):
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()

    @property
    def storage_class(self) -> str:
        """The class, the legacy annotation first as upstream reads it."""
        legacy = self.metadata.annotations.get(keys.STORAGE_CLASS_BETA)
        return self.spec.storage_class_name if legacy is None else legacy

    @property
    def size(self) -> Amount:
        return self.spec.capacity.get("storage", 0)

    @property
    def required_affinity(self) -> NodeSelectorView | None:
        """The node selector that limits where this volume can be used; None means anywhere."""
        affinity = self.spec.node_affinity
        return None if affinity is None else affinity.required

    def assumed_for(self, claim: ObjectReference, *, by_controller: bool) -> "Volume":
        """This volume as it will read once it is prebound; for caches, never for writing."""
        annotations = self.metadata.annotations
        if by_controller:
            annotations = annotations | {keys.BOUND_BY_CONTROLLER: keys.YES}
        return msgspec.structs.replace(
            self,
            metadata=msgspec.structs.replace(self.metadata, annotations=annotations),
            spec=msgspec.structs.replace(self.spec, claim_ref=claim),
        )
