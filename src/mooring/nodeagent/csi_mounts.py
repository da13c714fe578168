"""The CSI volumes of a pod, as the driver on its node has to be asked for them.

Pure: paths and ids are upstream's, worked out from the objects alone, so that asking again after a restart asks for
the same. Drivers the agent has no connection to are left out: their volumes are taken as mounted, like everything
else that is only played.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from mooring.api.views.pod import InlineCsi, Pod
from mooring.api.views.storage import CsiDriver
from mooring.api.views.volume import SecretName, Volume
from mooring.csi.contract import AccessMode, VolumeCapability
from mooring.nodeagent.mounting import Storage

#: As kubelet translates them; the second for drivers that tell one pod on a node from several.
_MODES: Final = {
    "ReadWriteOnce": AccessMode.SINGLE_NODE_WRITER,
    "ReadWriteOncePod": AccessMode.SINGLE_NODE_WRITER,
    "ReadOnlyMany": AccessMode.MULTI_NODE_READER_ONLY,
    "ReadWriteMany": AccessMode.MULTI_NODE_MULTI_WRITER,
}
_FINER_MODES: Final = _MODES | {
    "ReadWriteOnce": AccessMode.SINGLE_NODE_MULTI_WRITER,
    "ReadWriteOncePod": AccessMode.SINGLE_NODE_SINGLE_WRITER,
}
_PREFIX: Final = "csi.storage.k8s.io/"


class Mount(msgspec.Struct, frozen=True):
    """One volume of one pod: all that has to be known to take it away again."""

    node: str
    pod: str
    #: In the pod's spec.
    name: str
    driver: str
    handle: str
    target: str
    #: Where it is made ready for all pods of the node; "" for inline volumes, which have no such place.
    staging: str = ""

    @property
    def volume(self) -> tuple[str, str, str]:
        """What pods of one node may share."""
        return (self.node, self.driver, self.handle)


class Order(NamedTuple):
    """What to ask a driver for."""

    mount: Mount
    access_mode: str
    block: bool = False
    fs_type: str = ""
    mount_flags: tuple[str, ...] = ()
    read_only: bool = False
    context: Mapping[str, str] = {}
    stage_secret: SecretName | None = None
    publish_secret: SecretName | None = None
    #: Whether it has to be attached to the node first.
    attach: bool = False

    def capability(self, *, finer: bool) -> VolumeCapability:
        """`finer` is the driver's SINGLE_NODE_MULTI_WRITER."""
        mode = (_FINER_MODES if finer else _MODES)[self.access_mode]
        if self.block:
            return VolumeCapability(mode, block=True)
        return VolumeCapability(mode, fs_type=self.fs_type, mount_flags=self.mount_flags)


def capability_of(volume: Volume, *, finer: bool) -> VolumeCapability:
    """How a volume is to be used, for whoever attaches it."""
    mode = (_FINER_MODES if finer else _MODES)[_mode(volume)]
    if volume.spec.volume_mode == "Block":
        return VolumeCapability(mode, block=True)
    fs_type = volume.spec.csi.fs_type if volume.spec.csi is not None else ""
    return VolumeCapability(mode, fs_type=fs_type, mount_flags=volume.spec.mount_options)


def _mode(volume: Volume) -> str:
    """The first is what counts, as for a kubelet."""
    return next(iter(volume.spec.access_modes), "ReadWriteOnce")


def orders(
    pod: Pod, storage: Storage, drivers: Collection[str], driver: Callable[[str], CsiDriver | None], *, root: str
) -> Iterator[Order]:
    """In the order of the pod's volumes. `drivers` are those of the node, `root` is its folder for volumes."""
    for mount in pod.spec.volumes:
        if mount.csi is not None and mount.csi.driver in drivers:
            yield _inline(pod, mount.name, mount.csi, driver(mount.csi.driver), root)
        name = pod.claim_name(mount)
        claim = storage.claim(f"{pod.namespace}/{name}") if name else None
        volume = storage.volume(claim.spec.volume_name) if claim is not None else None
        source = mount.persistent_volume_claim
        if volume is not None and volume.spec.csi is not None and volume.spec.csi.driver in drivers:
            read_only = source is not None and source.read_only
            yield _persistent(pod, mount.name, volume, driver(volume.spec.csi.driver), root, read_only=read_only)


def _persistent(pod: Pod, name: str, volume: Volume, driver: CsiDriver | None, root: str, *, read_only: bool) -> Order:
    source = volume.spec.csi
    assert source is not None
    key = hashlib.sha256(source.volume_handle.encode()).hexdigest()
    mount = Mount(
        node=pod.spec.node_name,
        pod=pod.uid,
        name=name,
        driver=source.driver,
        handle=source.volume_handle,
        target=f"{root}/pods/{pod.uid}/volumes/kubernetes.io~csi/{volume.name}/mount",
        staging=f"{root}/plugins/kubernetes.io/csi/{source.driver}/{key}/globalmount",
    )
    return Order(
        mount,
        _mode(volume),
        block=volume.spec.volume_mode == "Block",
        fs_type=source.fs_type,
        mount_flags=volume.spec.mount_options,
        read_only=read_only or source.read_only,
        context=(source.volume_attributes or {}) | _pod_info(pod, driver, ephemeral=False),
        stage_secret=source.node_stage_secret_ref,
        publish_secret=source.node_publish_secret_ref,
        attach=driver is not None and driver.spec.attach_required,
    )


def _inline(pod: Pod, name: str, source: InlineCsi, driver: CsiDriver | None, root: str) -> Order:
    handle = f"csi-{hashlib.sha256(f'{pod.uid}{name}'.encode()).hexdigest()}"
    target = f"{root}/pods/{pod.uid}/volumes/kubernetes.io~csi/{name}/mount"
    mount = Mount(pod.spec.node_name, pod.uid, name, source.driver, handle, target)
    # Drivers that make volumes on the way have to be told so, whatever else they are told of the pod.
    context = source.volume_attributes | _pod_info(pod, driver, ephemeral=True) | {f"{_PREFIX}ephemeral": "true"}
    return Order(mount, "ReadWriteOnce", fs_type=source.fs_type, read_only=source.read_only, context=context)


def _pod_info(pod: Pod, driver: CsiDriver | None, *, ephemeral: bool) -> dict[str, str]:
    if driver is None or not driver.spec.pod_info_on_mount:
        return {}
    return {
        f"{_PREFIX}pod.name": pod.name,
        f"{_PREFIX}pod.namespace": pod.namespace,
        f"{_PREFIX}pod.uid": pod.uid,
        f"{_PREFIX}ephemeral": str(ephemeral).lower(),
    }
