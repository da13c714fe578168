"""Names shared by several components: annotations, labels, finalizers and well-known values.

Kubernetes' names where it has one, else `mooring.dev/…`. Event reasons and messages are defined where they are written.
"""

from typing import Final

# Claim and volume binding, as the PV controller and the scheduler write them.
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
#: Name in early drafts; read if the other is missing, never written.
SELECTED_NODE_DRAFT: Final = "volume.alpha.kubernetes.io/selectedNode"
STORAGE_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
STORAGE_PROVISIONER_BETA: Final = "volume.beta.kubernetes.io/storage-provisioner"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
MIGRATED_TO: Final = "pv.kubernetes.io/migrated-to"
#: On a volume that was expanded while its file system was not yet: the size its claim still has.
PRE_RESIZE_CAPACITY: Final = "volume.alpha.kubernetes.io/pre-resize-capacity"
#: Overrides the spec field of claims and volumes, even if its value is empty.
STORAGE_CLASS_BETA: Final = "volume.beta.kubernetes.io/storage-class"
#: Value of annotations of which only the presence counts.
ANNOTATION_SET: Final = "yes"

DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
DEFAULT_CLASS_BETA: Final = "storageclass.beta.kubernetes.io/is-default-class"
#: Provisioner of classes whose volumes are all created manually.
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"

PVC_PROTECTION: Final = "kubernetes.io/pvc-protection"
PV_PROTECTION: Final = "kubernetes.io/pv-protection"
POD_GROUP_PROTECTION: Final = "scheduling.k8s.io/podgroup-protection"
#: On a volume whose storage an external provisioner deletes before the object.
EXTERNAL_PROVISIONER: Final = "external-provisioner.volume.kubernetes.io/finalizer"
#: The same for in-tree volume plugins.
IN_TREE_DELETER: Final = "kubernetes.io/pv-controller"
#: Added by the API server for `propagationPolicy: Foreground` and `Orphan`, removed by the garbage collector.
FOREGROUND_DELETION: Final = "foregroundDeletion"
ORPHAN_DEPENDENTS: Final = "orphan"
#: In a namespace's `spec.finalizers` until the namespace controller has deleted its contents.
NAMESPACE_CONTENTS: Final = "kubernetes"

# Capacity: written by the capacity publisher and the provisioner, read by the scheduler's charges. Both timestamps are
# MicroTimes of the provisioner's clock, so that they can be compared.
#: On a CSIStorageCapacity: start of the GetCapacity call that returned its values. Updated after every volume
#: provisioned in the segment, for all classes of the driver, even if the values stay the same.
CAPACITY_POLLED_AT: Final = "mooring.dev/capacity-polled-at"
#: On a PersistentVolume: when CreateVolume returned. A poll that started later includes the volume.
VOLUME_CREATED_AT: Final = "mooring.dev/created-at"
#: On a StorageClass: how its reported capacity may be used.
CAPACITY_USE: Final = "mooring.dev/capacity"
#: Its value if `capacity` shrinks by the sum of the volumes, so that several can be charged against it together.
CAPACITY_ADDITIVE: Final = "additive"
#: On a StorageClass: the pool of its volumes, if it is not shared by all classes of the driver.
CAPACITY_POOL: Final = "mooring.dev/capacity-pool"
#: On a StorageClass: the CapacityPolicy for its claims, instead of the scheduler's.
CAPACITY_POLICY: Final = "mooring.dev/capacity-policy"
#: Label of a CSIStorageCapacity for nodes that do not exist yet: the node group that it describes.
CAPACITY_NODE_GROUP: Final = "mooring.dev/node-group"
#: Ends the topology values of such nodes. No DNS name has an underscore, so no node name ends with it.
TEMPLATE_SUFFIX: Final = "_template"

#: On a StorageClass: its claims may be replaced by empty ones after their node was lost with the data: "confirmed" if
#: only an administrator confirms the loss, or the duration after which the class does.
LOST_STORAGE: Final = "mooring.dev/lost-storage"

#: On a StorageClass: after which duration a bound claim that keeps a pod unschedulable is replaced, if it is proved
#: that no pod ever had its volume.
UNUSED_CLAIMS: Final = "mooring.dev/unused-claims"
#: On a claim that replaced an unused one: how many times that was done.
TIMES_REPLACED: Final = "mooring.dev/times-replaced"

#: On a StorageClass: the volume attribute that has the size of CSI inline volumes of its driver, whose capacity is that
#: of the class.
INLINE_SIZE_ATTRIBUTE: Final = "mooring.dev/inline-size-attribute"

#: The Lease that a running coordinator holds, for leader election and as its heartbeat.
COORDINATOR_LEASE: Final = "mooring-coordinator"

#: On a PersistentVolume: preferred node affinity, as the API may have it one day: a JSON list of `weight` (1 to 100)
#: and `preference` (a node selector term).
PREFERRED_NODE_AFFINITY: Final = "mooring.dev/preferred-node-affinity"

#: On a PersistentVolume: "undone" after the node affinity that its zone labels imply was removed, so that it is not
#: added again.
ZONAL_UPGRADE: Final = "mooring.dev/zonal-upgrade"
ZONAL_UPGRADE_UNDONE: Final = "undone"

#: Reason of the event on a pod with a preset node that offers no volume for a claim of the pod.
PRESET_NODE_FAILED: Final = "PresetNodeBindingFailed"

#: On a CSINode: comma-separated in-tree plugins that the node has migrated to CSI drivers.
MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
ZONE_BETA: Final = "failure-domain.beta.kubernetes.io/zone"
REGION_BETA: Final = "failure-domain.beta.kubernetes.io/region"
RACK: Final = "mooring.dev/rack"
OS: Final = "kubernetes.io/os"
ARCH: Final = "kubernetes.io/arch"

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
#: Set by an administrator on a node that is powered off.
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"

#: Namespace of a namespaced object that names none.
DEFAULT_NAMESPACE: Final = "default"

STATEFUL_POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"
CONTROLLER_REVISION_HASH: Final = "controller-revision-hash"

#: On the bookmark that ends a streamed list.
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

DEFAULT_SCHEDULER: Final = "default-scheduler"
