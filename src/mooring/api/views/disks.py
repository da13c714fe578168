"""Disks that Kubernetes once attached by itself: volumes and pods may still name them this way.

CSI drivers look after most of them by now; `volumes.in_tree` says which.
"""

import msgspec

from mooring.api.views.meta import View


class EbsDisk(View, frozen=True, gc=False):
    volume_id: str = msgspec.field(name="volumeID", default="")


class GcePersistentDisk(View, frozen=True, gc=False):
    pd_name: str = ""
    read_only: bool = False


class AzureDisk(View, frozen=True, gc=False):
    disk_name: str = ""
    disk_uri: str = msgspec.field(name="diskURI", default="")


class CinderDisk(View, frozen=True, gc=False):
    volume_id: str = msgspec.field(name="volumeID", default="")


class PortworxDisk(View, frozen=True, gc=False):
    volume_id: str = msgspec.field(name="volumeID", default="")


class RbdImage(View, frozen=True, gc=False):
    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class IscsiDisk(View, frozen=True, gc=False):
    iqn: str = ""
    read_only: bool = False


class Disks(View, frozen=True, gc=False):
    """The fields under which a volume or a pod's volume names a disk; at most one is set."""

    aws_elastic_block_store: EbsDisk | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    azure_disk: AzureDisk | None = None
    cinder: CinderDisk | None = None
    portworx_volume: PortworxDisk | None = None
