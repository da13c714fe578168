"""The stand-ins by the name claims know them by: which kind of disk each has, and how its volumes look.

Two of them answer for drivers of real clouds, to which Kubernetes hands claims of `kubernetes.io/gce-pd` and
`kubernetes.io/aws-ebs`, so that classes written for those clouds work as they are.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from mooring.provisioner.standins.disks import LOCAL, RACK, REGIONAL, ZONAL, Disk

#: GCE's class parameter for disks with a copy in a second zone, and its value.
REPLICATION_TYPE: Final = "replication-type"
REGIONAL_PD: Final = "regional-pd"

Source = Callable[[str, str], Mapping[str, Any]]


def _csi(driver: str, volume: str) -> Mapping[str, Any]:
    return {"csi": {"driver": driver, "volumeHandle": volume}}


def _gce(_: str, volume: str) -> Mapping[str, Any]:
    return {"gcePersistentDisk": {"pdName": volume, "fsType": "ext4"}}


def _ebs(_: str, volume: str) -> Mapping[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": volume, "fsType": "ext4"}}


class StandIn(NamedTuple):
    provisioner: str
    disk: Disk
    #: The name of the in-tree plugin whose claims it also serves, and how its volumes look for those.
    in_tree: str = ""
    in_tree_source: Source = _csi

    def disk_for(self, parameters: Mapping[str, str]) -> Disk:
        wanted = parameters.get(REPLICATION_TYPE, "")
        return REGIONAL if self.disk is ZONAL and wanted == REGIONAL_PD else self.disk

    def source(self, provisioner: str, volume: str) -> Mapping[str, Any]:
        """How a volume says where it is stored; for a class of the in-tree plugin as that plugin says it."""
        if self.in_tree and provisioner == self.in_tree:
            return self.in_tree_source(provisioner, volume)
        return _csi(self.provisioner, volume)


STAND_INS: Final = (
    StandIn("zonal.standins.mooring.dev", ZONAL),
    StandIn("regional.standins.mooring.dev", REGIONAL),
    StandIn("local.standins.mooring.dev", LOCAL),
    StandIn("rack.standins.mooring.dev", RACK),
    StandIn("pd.csi.storage.gke.io", ZONAL, "kubernetes.io/gce-pd", _gce),
    StandIn("ebs.csi.aws.com", ZONAL, "kubernetes.io/aws-ebs", _ebs),
)

BY_NAME: Final = {name: one for one in STAND_INS for name in (one.provisioner, one.in_tree) if name}
