"""Mount requests for the CSI volumes of a pod. Pure.

Paths and ids are the kubelet's and derived from the objects alone, so that requests repeated after a restart are equal.
Drivers without a connection are left out: their mounts are simulated.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from mooring.api.views.pods import InlineCsi, Pod
from mooring.api.views.storage import CsiDriver, SecretReference, Volume
from mooring.csi.contract import VolumeCapability, access_modes
from mooring.nodeagent.admission import StorageLookup

_PREFIX: Final = "csi.storage.k8s.io/"


class Mount(msgspec.Struct, frozen=True):
    """One volume of one pod, with everything that unmounting needs. Encoded in the mount store."""

    node: str
    pod: str
    #: In the pod's spec.
    name: str
    driver: str
    handle: str
    target: str
    #: Staging path, shared by all pods of the node; "" for inline volumes.
    staging: str = ""

    @property
    def volume(self) -> tuple[str, str, str]:
        """Key of what the pods of one node share."""
        return (self.node, self.driver, self.handle)


class MountRequest(NamedTuple):
    """Arguments of NodeStageVolume and NodePublishVolume."""

    mount: Mount
    access_mode: str
    volume_mode: str = "Filesystem"
    fs_type: str = ""
    mount_flags: tuple[str, ...] = ()
    read_only: bool = False
    context: Mapping[str, str] = {}
    stage_secret: SecretReference | None = None
    publish_secret: SecretReference | None = None
    #: Whether it must be attached to the node first.
    attach: bool = False

    def capability(self, *, finer: bool) -> VolumeCapability:
        """`finer`: the driver has SINGLE_NODE_MULTI_WRITER."""
        mode = access_modes(finer=finer)[self.access_mode]
        return VolumeCapability.of(mode, self.volume_mode, fs_type=self.fs_type, mount_flags=self.mount_flags)


def first_access_mode(volume: Volume) -> str:
    """The one that the kubelet and the attacher use."""
    return next(iter(volume.spec.access_modes), "ReadWriteOnce")


def mount_requests(
    pod: Pod, storage: StorageLookup, drivers: Collection[str], driver: Callable[[str], CsiDriver | None], *, root: str
) -> Iterator[MountRequest]:
    """In the order of the pod's volumes. `drivers` are those of the node, `root` is its directory for volumes."""
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


def _persistent(
    pod: Pod, name: str, volume: Volume, driver: CsiDriver | None, root: str, *, read_only: bool
) -> MountRequest:
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
    return MountRequest(
        mount,
        first_access_mode(volume),
        volume_mode=volume.spec.volume_mode,
        fs_type=source.fs_type,
        mount_flags=volume.spec.mount_options,
        read_only=read_only or source.read_only,
        context=(source.volume_attributes or {}) | _pod_info(pod, driver, ephemeral=False),
        stage_secret=source.node_stage_secret_ref,
        publish_secret=source.node_publish_secret_ref,
        attach=driver is not None and driver.spec.attach_required,
    )


def _inline(pod: Pod, name: str, source: InlineCsi, driver: CsiDriver | None, root: str) -> MountRequest:
    handle = f"csi-{hashlib.sha256(f'{pod.uid}{name}'.encode()).hexdigest()}"
    target = f"{root}/pods/{pod.uid}/volumes/kubernetes.io~csi/{name}/mount"
    mount = Mount(pod.spec.node_name, pod.uid, name, source.driver, handle, target)
    # Drivers of inline volumes need `ephemeral` even without podInfoOnMount.
    context = source.volume_attributes | _pod_info(pod, driver, ephemeral=True) | {f"{_PREFIX}ephemeral": "true"}
    return MountRequest(mount, "ReadWriteOnce", fs_type=source.fs_type, read_only=source.read_only, context=context)


def _pod_info(pod: Pod, driver: CsiDriver | None, *, ephemeral: bool) -> dict[str, str]:
    if driver is None or not driver.spec.pod_info_on_mount:
        return {}
    return {
        f"{_PREFIX}pod.name": pod.name,
        f"{_PREFIX}pod.namespace": pod.namespace,
        f"{_PREFIX}pod.uid": pod.uid,
        f"{_PREFIX}ephemeral": str(ephemeral).lower(),
    }
