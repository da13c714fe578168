"""Names that several components must spell alike: annotations, labels, finalizers, well-known values.

Upstream's names where upstream has one, `mooring.dev/…` otherwise. Reasons and texts shown to people live
beside the code that says them.
"""

from typing import Final

# Claim and volume binding, as the PV controller and the scheduler write them.
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
#: How the first drafts spelled it; read where the other is missing, never written.
SELECTED_NODE_DRAFT: Final = "volume.alpha.kubernetes.io/selectedNode"
STORAGE_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
STORAGE_PROVISIONER_BETA: Final = "volume.beta.kubernetes.io/storage-provisioner"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
MIGRATED_TO: Final = "pv.kubernetes.io/migrated-to"
#: On a volume that was grown but whose file system was not yet: the size its claim still has.
PRE_RESIZE_CAPACITY: Final = "volume.alpha.kubernetes.io/pre-resize-capacity"
#: Wins over the spec field on claims and volumes, even when its value is empty.
STORAGE_CLASS_BETA: Final = "volume.beta.kubernetes.io/storage-class"
#: The value components write where only the presence of an annotation counts.
YES: Final = "yes"

DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
DEFAULT_CLASS_BETA: Final = "storageclass.beta.kubernetes.io/is-default-class"
#: The pseudo provisioner of classes whose volumes are all made by hand.
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"

PVC_PROTECTION: Final = "kubernetes.io/pvc-protection"
PV_PROTECTION: Final = "kubernetes.io/pv-protection"
#: On a volume that an external provisioner deletes: its storage first, then the object.
EXTERNAL_PROVISIONER: Final = "external-provisioner.volume.kubernetes.io/finalizer"
#: The same where Kubernetes itself once deleted the storage.
IN_TREE_DELETER: Final = "kubernetes.io/pv-controller"
#: What this server adds for `propagationPolicy: Foreground` and `Orphan`; the garbage collector removes it.
FOREGROUND_DELETION: Final = "foregroundDeletion"
ORPHAN_DEPENDENTS: Final = "orphan"
#: In a namespace's `spec.finalizers`: its contents are not removed yet. The namespace controller takes it off.
NAMESPACE_CONTENTS: Final = "kubernetes"

# Capacity: what publisher and provisioner write and the scheduler's charges read. Both moments are MicroTimes of one
# clock, the provisioner's, so that they can be compared.
#: On a CSIStorageCapacity: when the GetCapacity call began whose answer it holds. Written anew after every volume made
#: in the segment, for all classes of the driver, also where the figures stay the same.
CAPACITY_POLLED_AT: Final = "mooring.dev/capacity-polled-at"
#: On a PersistentVolume: when CreateVolume had answered. A poll that began later has seen the volume.
VOLUME_CREATED_AT: Final = "mooring.dev/created-at"
#: On a StorageClass: how its figures may be used.
CAPACITY_USE: Final = "mooring.dev/capacity"
#: The value: `capacity` shrinks by the sum of what is made, so volumes may be counted against it together.
CAPACITY_ADDITIVE: Final = "additive"
#: On a StorageClass: what its volumes are taken from, where that is not what all classes of the driver share.
CAPACITY_POOL: Final = "mooring.dev/capacity-pool"

#: The Lease by which a coordinator shows that it is there; the one it is elected by.
COORDINATOR_LEASE: Final = "mooring-coordinator"

#: On a CSINode: the in-tree plugins whose volumes the node leaves to drivers, separated by commas.
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

STATEFUL_POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"
CONTROLLER_REVISION_HASH: Final = "controller-revision-hash"

#: On the bookmark that ends a streamed list.
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

DEFAULT_SCHEDULER: Final = "default-scheduler"
