"""Manifests with the defects of the design drafts, one of each kind; the objects are our own."""

from typing import Final

#: Volumes of the topology draft: Go's field names, no access modes, another name of the disk source.
LOCAL: Final = """\
apiVersion: v1
kind: PersistentVolume
metadata:
  Name: draft-local
spec:
  capacity:
    storage: 100Gi
  storageClassName: draft-static
  local:
    path: /mnt/disks/one
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions:
        - key: kubernetes.io/hostname
          operator: In
          values: [node-1]
"""

ZONAL: Final = """\
apiVersion: v1
kind: PersistentVolume
metadata:
  Name: draft-zonal
spec:
  capacity:
    storage: 100Gi
  storageClassName: draft-static
  gcePersistentDisk:
    diskName: disk-one
    fsType: ext4
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions:
        - key: failure-domain.beta.kubernetes.io/zone
          operator: In
          values: [zone-a]
"""

MULTI_ZONAL: Final = ZONAL.replace("draft-zonal", "draft-multi-zonal").replace("[zone-a]", "[zone-a, zone-b]")

MULTI_LABEL: Final = """\
apiVersion: v1
kind: PersistentVolume
metadata:
  Name: draft-rack
spec:
  capacity:
    storage: 100Gi
  storageClassName: draft-static
  csi:
    driver: racks.example.com
    volumeHandle: rack-one
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions:
        - key: failure-domain.beta.kubernetes.io/zone
          operator: In
          values: [zone-a]
        - key: example.com/rack
          operator: In
          values: [rack-1]
"""

#: Two volumes with zone labels, to be upgraded.
LABELLED: Final = """\
apiVersion: v1
kind: PersistentVolume
metadata:
  name: draft-labelled
  labels:
    failure-domain.beta.kubernetes.io/zone: zone-a__zone-b
    failure-domain.beta.kubernetes.io/region: region-1
spec:
  capacity:
    storage: 100Gi
  storageClassName: draft-static
  gcePersistentDisk:
    diskName: disk-two
    fsType: ext4
"""

#: The end-to-end example: a delayed class, a claim, and a pod whose containers are left to the reader.
STANDARD: Final = """\
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: draft-standard
provisioner: kubernetes.io/gce-pd
bindingMode: WaitForFirstConsumer
parameters:
  type: pd-standard
"""

CLAIM: Final = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: draft-claim
spec:
  storageClassName: draft-standard
  accessModes:
  - ReadWriteOnce
  resources:
    requests:
      storage: 100Gi
"""

POD: Final = """\
apiVersion: v1
kind: Pod
metadata:
  name: draft-pod
spec:
  containers:
  ...
  volumes:
  - name: data
    persistentVolumeClaim:
      claimName: draft-claim
"""


def _topologies(name: str, zones: str, parameters: str = "") -> str:
    return f"""\
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: {name}
provisioner: kubernetes.io/gce-pd
parameters:
  type: pd-standard
{parameters}allowedTopologies:
- matchLabelExpressions:
  - key: failure-domain.beta.kubernetes.io/zone
    values: [{zones}]
"""


ZONAL_CLASS: Final = _topologies("draft-zonal", "zone-a, zone-b")
REGIONAL: Final = "  replication-type: regional-pd\n"
MULTI_ZONAL_CLASS: Final = _topologies("draft-regional", "zone-a, zone-b, zone-c", REGIONAL)
#: Provisioning from this one has to fail.
ONE_ZONE_CLASS: Final = _topologies("draft-one-zone", "zone-a", REGIONAL)
MULTI_LABEL_CLASS: Final = """\
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: draft-fancy
provisioner: rack-based-provisioner
parameters:
allowedTopologies:
- matchLabelExpressions:
  - key: zone
    values: [zone-a]
  - key: rack
    values: [rack-1]
- matchLabelExpressions:
  - key: zone
    values: [zone-b]
  - key: rack
    values: [rack-1, rack-2]
"""


def _capacity(name: str, driver: str, storage_class: str, size: str, key: str, value: str) -> str:
    return f"""\
apiVersion: storage.k8s.io/v1alpha1
kind: CSIStorageCapacity
metadata:
  name: {name}
spec:
  driverName: {driver}
  storageClassName: {storage_class}
  capacity: {size}
  nodeTopology:
    nodeSelectorTerms:
    - matchExpressions:
      - key: {key}
        operator: In
        values: [{value}]
"""


HOSTNAME: Final = "kubernetes.io/hostname"
REGION: Final = "topology.kubernetes.io/region"
#: Three pairs; the two of a pair follow each other without a separator.
CAPACITIES: Final = tuple(
    "\n".join(pair)
    for pair in (
        (
            _capacity("draft-host-1", "hostpath.example.com", "draft-some", "256G", HOSTNAME, "node-1"),
            _capacity("draft-host-2", "hostpath.example.com", "draft-some", "512G", HOSTNAME, "node-2"),
        ),
        (
            _capacity("draft-lvm-1", "lvm.example.com", "draft-striped", "256G", HOSTNAME, "node-1"),
            _capacity("draft-lvm-2", "lvm.example.com", "draft-mirrored", "128G", HOSTNAME, "node-1"),
        ),
        (
            _capacity("draft-net-1", "net.example.com", "draft-some", "128G", REGION, "region-1"),
            _capacity("draft-net-2", "net.example.com", "draft-some", "256G", REGION, "region-2"),
        ),
    )
)

#: Rejected alternatives of the capacity draft.
DRIVER_STATUS: Final = """\
apiVersion: storage.k8s.io/v1beta1
kind: CSIDriver
metadata:
  name: hostpath.example.com
spec:
  attachRequired: true
status:
  storage:
  - name: node-1
    nodes: [node-1]
    classes:
    - capacity: 256G
      storageClassName: draft-some
"""
POOL: Final = """\
apiVersion: storage.k8s.io/v1alpha1
kind: CSIStoragePool
metadata:
  name: draft-pool
spec:
  driverName: hostpath.example.com
status:
  classes:
  - capacity: 256G
    storageClassName: draft-some
"""

#: All examples that can be converted, file by file.
ALL: Final = (
    LOCAL,
    ZONAL,
    MULTI_ZONAL,
    MULTI_LABEL,
    LABELLED,
    STANDARD,
    CLAIM,
    POD,
    ZONAL_CLASS,
    MULTI_ZONAL_CLASS,
    ONE_ZONE_CLASS,
    MULTI_LABEL_CLASS,
    *CAPACITIES,
)
