"""Pods that are pending because of their claims."""

from mooring.api import well_known
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.plugins.gates import ClaimsInRollback, VolumeSchedulingDisabled
from mooring.scheduler.plugins.volume_binding import NodeVolumeLimits
from mooring.scheduler.plugins.volume_restrictions import CLAIM_IN_USE
from mooring.scheduler.registry import DEFAULT
from support.builders import (
    Body,
    capacity_body,
    claim_body,
    class_body,
    csi_node_body,
    driver_body,
    pod_body,
    reachable_from,
    volume_body,
)
from support.builders.drivers import DRIVER
from support.explain.reason_rows.contract import FAST, N1, Row, bound, taken

NOW = class_body(name="now", provisioner=DRIVER, binding_mode="Immediate")
MADE_IN_B = reachable_from(well_known.ZONE, "b")
LIMITED = Profile([NodeVolumeLimits()])


def disk(name: str) -> Body:
    return {"name": "disk", "gcePersistentDisk": {"pdName": name}}


ABOUT_VOLUMES = [
    Row(
        "node(s) didn't match PersistentVolume's node affinity",
        [N1, FAST, bound("data", "v1"), taken("v1", "data", MADE_IN_B), pod_body(claims=["data"])],
        node="n1",
        claim="default/data",
        place="v1",
        figure=f"{well_known.ZONE}=b",
        now=f"a new node with {well_known.ZONE}=b",
    ),
    Row(
        "node(s) didn't find available persistent volumes to bind",
        [
            N1,
            class_body(),
            claim_body(name="data", size="10Gi"),
            volume_body(name="v1", size="5Gi"),
            pod_body(claims=["data"]),
        ],
        node="n1",
        claim="default/data",
        place="v1",
        figure="5Gi, 10Gi requested",
        now="add a volume for default/data that n1 reaches",
    ),
    Row(
        "node(s) did not have enough free storage",
        [
            N1,
            FAST,
            driver_body(tracks_capacity=True),
            capacity_body(storage_class="fast", topology={"matchLabels": {well_known.ZONE: "a"}}, capacity="3Gi"),
            claim_body(name="data", storage_class="fast", size="8Gi"),
            pod_body(claims=["data"]),
        ],
        node="n1",
        claim="default/data",
        place=f"segment {well_known.ZONE}=a",
        figure="reports 3Gi, 8Gi requested",
        now="add 5Gi to segment",
    ),
    Row(
        "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
        [N1, FAST, bound("data", "v1"), pod_body(claims=["data"])],
        node="n1",
        claim="default/data",
        place="v1",
        now="create PersistentVolume v1 again",
    ),
    Row(
        "pod has unbound immediate PersistentVolumeClaims",
        [N1, NOW, claim_body(name="data", storage_class="now"), csi_node_body(name="n1"), pod_body(claims=["data"])],
        claim="default/data",
        place=DRIVER,
        figure="not registered on any node",
        now=f"start provisioner {DRIVER}",
    ),
    Row(
        'persistentvolumeclaim "<claim>" not found',
        [N1, pod_body(claims=["data"])],
        claim='persistentvolumeclaim "data" not found',
        now="Create the claim in the pod's namespace",
    ),
    Row(
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "<claim>"',
        [N1, pod_body(ephemeral=["cache"])],
        claim='"pod-1-cache"',
        now="check that the controller manager runs",
    ),
    Row(
        'persistentvolumeclaim "<claim>" bound to non-existent persistentvolume "<volume>"',
        [N1, FAST, claim_body(name="data", volume="v1", bound=True, phase="Lost"), pod_body(claims=["data"])],
        claim="default/data",
        place="v1",
        now="create PersistentVolume v1 again",
    ),
    Row(
        'persistentvolumeclaim "<claim>" is being deleted',
        [N1, FAST, claim_body(name="data", deleting=True), pod_body(claims=["data"])],
        claim="default/data",
        figure="since 2026-01-02T03:04:05Z",
        now="kubectl -n default delete pod pod-1",
    ),
    Row(
        'persistentvolumeclaim "<claim>" is being rolled back',
        [
            N1,
            FAST,
            bound("data", "v1", annotations={"pv.kubernetes.io/rollback": ""}),
            taken("v1", "data"),
            pod_body(claims=["data"]),
        ],
        claim="default/data",
        place="v1",
        now="Wait: the claim can then be bound on another node",
        profile=DEFAULT.with_first_plugins(ClaimsInRollback()),
    ),
    Row(
        "PVC <claim> was not created for pod <pod> (pod is not owner)",
        [N1, FAST, claim_body(name="pod-1-cache", storage_class="fast"), pod_body(ephemeral=["cache"])],
        claim="default/pod-1-cache",
        now="so that its claim gets another name",
    ),
    Row(
        'persistentvolumeclaim "<claim>" is invalid: <problem>',
        [
            N1,
            class_body(),
            claim_body(name="data", selector={"matchExpressions": [{"key": "tier", "operator": "Near"}]}),
            pod_body(claims=["data"]),
        ],
        claim='"data"',
        figure="Near",
        now="Create the claim again with a valid selector",
    ),
    Row(
        'VolumeBindingMode not set for StorageClass "<class>"',
        [
            N1,
            class_body(name="odd", binding_mode=None),
            claim_body(name="data", storage_class="odd"),
            pod_body(claims=["data"]),
        ],
        claim="default/data",
        place='StorageClass "odd"',
        now="create StorageClass odd again with volumeBindingMode set",
    ),
    Row(
        'looking up PVC <claim>: persistentvolumeclaim "<claim name>" not found',
        [N1, pod_body(claims=["data"])],
        node="n1",
        claim="default/data",
        now="Create the claim in the pod's namespace",
    ),
    Row(
        "node(s) exceed max volume count",
        [
            N1,
            FAST,
            csi_node_body(name="n1", limits={DRIVER: 1}),
            bound("old", "v1"),
            taken("v1", "old", source={"csi": {"driver": DRIVER, "volumeHandle": "1"}}),
            pod_body(name="old", claims=["old"], node="n1"),
            claim_body(name="data", storage_class="fast"),
            pod_body(claims=["data"]),
        ],
        node="n1",
        claim="default/data",
        place=DRIVER,
        figure="has 1 of 1 volumes there, the pod needs 1",
        now="move default/old off n1",
    ),
    Row(
        "<driver> CSI driver is not installed on the node",
        [
            N1,
            FAST,
            driver_body(required=True),
            csi_node_body(name="n1"),
            claim_body(name="data", storage_class="fast"),
            pod_body(claims=["data"]),
        ],
        node="n1",
        claim="default/data",
        place=DRIVER,
        now="check that its node pod runs there",
        profile=LIMITED,
    ),
    Row(
        "node(s) had no available disk",
        [N1, pod_body(name="old", volumes=[disk("d1")], node="n1"), pod_body(volumes=[disk("d1")])],
        node="n1",
        figure="in use by default/old",
        now="kubectl -n default delete pod old",
    ),
    Row(
        CLAIM_IN_USE,
        [
            N1,
            FAST,
            bound("data", "v1") | {"spec": {"volumeName": "v1", "accessModes": ["ReadWriteOncePod"]}},
            taken("v1", "data"),
            pod_body(name="old", claims=["data"], node="n1"),
            pod_body(claims=["data"]),
        ],
        node="n1",
        claim="default/data",
        place="v1",
        figure="is used by default/old on n1",
        now="kubectl -n default delete pod old",
    ),
    Row(
        "node(s) had no available volume zone",
        [N1, FAST, bound("data", "v1"), taken("v1", "data", labels={well_known.ZONE: "b"}), pod_body(claims=["data"])],
        node="n1",
        claim="default/data",
        place="v1",
        figure=f"{well_known.ZONE} in (b)",
        now=f"a new node with {well_known.ZONE}=b",
    ),
    Row(
        'storageclass.storage.k8s.io "<class>" not found',
        [N1, FAST, claim_body(name="data", storage_class="fasst"), pod_body(claims=["data"])],
        claim="default/data",
        place="class fasst",
        figure="existing classes: fast",
        now="create StorageClass fasst",
    ),
    Row(
        'persistentvolume "<volume>" not found',
        [N1, FAST, bound("data", "v1"), pod_body(claims=["data"])],
        claim="default/data",
        place="v1",
        now="create PersistentVolume v1 again",
    ),
    Row(
        "PersistentVolumeClaim had no name",
        [N1, pod_body(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": ""}}])],
        now="Create the pod again with claimName filled in",
    ),
    Row(
        "PersistentVolumeClaim had no pv name and storageClass name",
        [N1, claim_body(name="data", storage_class=""), volume_body(name="v1"), pod_body(claims=["data"])],
        claim="default/data",
        place="v1",
        figure="local, none requested",
        now="add a volume for default/data: class none, at least 5Gi, ReadWriteOnce",
    ),
    Row(
        "PersistentVolume had no name",
        [N1, NOW, claim_body(name="data", storage_class="now"), csi_node_body(name="n1"), pod_body(claims=["data"])],
        claim="default/data",
        place=DRIVER,
        figure="not registered on any node",
        now=f"start provisioner {DRIVER}",
    ),
    Row(
        'persistentvolumeclaim "<claim>" waits for a consumer, but the feature gate VolumeScheduling is off',
        [N1, FAST, claim_body(name="data", storage_class="fast"), pod_body(claims=["data"])],
        claim='"data"',
        now="Enable the gate VolumeScheduling",
        profile=DEFAULT.with_first_plugins(VolumeSchedulingDisabled()),
    ),
]
