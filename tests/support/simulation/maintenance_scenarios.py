"""A fault scenario of administrators' work, in which the controllers write that are idle in `control_plane_scenarios`.

Nodes lose power, one is deleted with its local disk, pods bypass the scheduler, claims wait for nodes that do not
exist, another is bound where its pod cannot run, volumes get zone labels, and a PodGroup is deleted.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

import msgspec

from mooring.api import well_known
from mooring.api.kinds import CLAIM, CONFIG_MAP, NODE, POD, POD_GROUP, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.cluster.bootstrap import LOCAL_CLASS, Layout
from mooring.cluster.storage import NAMESPACE
from mooring.controllers.node_controllers import NodeLifecycleController, PodGarbageCollector
from mooring.controllers.node_health import readiness
from mooring.controllers.workloads.group_protection import PodGroupProtection
from mooring.hostpath.records import DRIVER_NAME
from mooring.nodeagent.node_objects import POWER
from mooring.provisioner.rollback.lost_nodes import LostNodeController
from mooring.pvcontroller.lost_storage_controller import LostStorageController
from mooring.pvcontroller.preset_nodes import PresetNodeController
from mooring.pvcontroller.unused_claim_controller import UnusedClaimController
from mooring.pvcontroller.zonal_upgrade import ZonalUpgrade
from mooring.volumes.lost_storage_record import RECORD_LABEL, RECOVERY_RECORD
from mooring.volumes.unused.record import is_guarded
from support.builders import Body, claim_body, class_body, pod_body, volume_body
from support.builders.groups import member_body, pod_group_body
from support.scenarios import simulated
from support.simulation.cluster import SimulatedCluster
from support.simulation.control_plane_scenarios import EVERYTHING, REFUSALS
from support.simulation.fault_scenario import FaultScenario
from support.simulation.groups import GATES
from support.simulation.invariants import ALWAYS, Facts, Subject, Violation
from support.simulation.rollback_scenarios import committed_stays, committed_together, settled
from support.simulation.storage import HostpathStorage

#: The components that write in this scenario and not in the other one.
MAINTAINERS: Final = (
    *(NodeLifecycleController.name, PodGarbageCollector.name, PodGroupProtection.name, LostNodeController.name),
    *(LostStorageController.name, PresetNodeController.name, UnusedClaimController.name, ZonalUpgrade.name),
)
REFUSED_MAINTENANCE: Final = msgspec.structs.replace(REFUSALS, instances=MAINTAINERS)
FAULTY_MAINTENANCE: Final = msgspec.structs.replace(EVERYTHING, instances=MAINTAINERS, seconds=150.0)

LAYOUT: Final = Layout(nodes=4, local_volumes=1)
STORAGE: Final = HostpathStorage(LAYOUT, rollback=True, attach=True, fast=100 * 2**30)
#: The one is deleted with its disk, the other comes back.
LOST, DARK = "node-3", "node-4"
#: Longer than a node without heartbeats stays Ready, by the duration of its Lease.
DARK_SECONDS: Final = 100.0
#: Pods that run in the end, by app or name.
RUNNING: Final = ("astray", "dark", "disk", "preset", "preset-local")
#: The class whose unused claims are replaced.
SPARE: Final = "spare"
#: A pod whose volume is on a full node. After a restart of the controller nothing proves that its claim is unused: the
#: pod waits.
MISPLACED: Final = "misplaced"


def maintenance(*, fault_seconds: float = 60.0, settle: float = 240.0) -> FaultScenario:
    return FaultScenario(
        LAYOUT,
        _apply,
        rules=(*ALWAYS, committed_stays, committed_together),
        fault_seconds=fault_seconds,
        settle=settle,
        expect=_all_run,
        inspect=_is_finished,
        extra_components=STORAGE.extra_components,
        gates=GATES,
        can_provision=STORAGE.can_provision,
    )


async def _apply(cluster: SimulatedCluster) -> None:
    for body in _first():
        await simulated.create(cluster, body)
    await cluster.clock.sleep(10.0)
    for number, zone in enumerate(("zone-a", "zone-b")):
        labels = MergePatch({"metadata": {"labels": {well_known.ZONE: zone}}})
        await cluster.client.patch(VOLUME, f"zonal-{number}", labels)
    for node in (LOST, DARK):
        await _power(cluster, node, "off")
    await cluster.client.delete(POD_GROUP, "batch", namespace="default")
    # Without them the sleep would not show that nodes lose their heartbeats, however slow the faults make that.
    for node in (LOST, DARK):
        assert await cluster.until(partial(_is_unknown, cluster, node), within=4 * DARK_SECONDS), f"{node} is Ready"
    for number in range(2):
        await cluster.client.delete(POD, f"batch-{number}", namespace="default")
    await _power(cluster, DARK, None)
    await cluster.client.delete(NODE, LOST)
    await simulated.create(cluster, _disk("node-1"))


async def _power(cluster: SimulatedCluster, node: str, power: str | None) -> None:
    await cluster.client.patch(NODE, node, MergePatch({"metadata": {"annotations": {POWER: power}}}))


async def _is_unknown(cluster: SimulatedCluster, node: str) -> bool:
    return readiness(await cluster.client.get(NODE, node)) == "Unknown"


def _first() -> Iterator[Body]:
    yield from STORAGE.objects()
    yield class_body(name="replaceable", annotations={well_known.LOST_STORAGE: "10s"})
    notes = {well_known.UNUSED_CLAIMS: "5s"}
    yield class_body(name=SPARE, provisioner=DRIVER_NAME, parameters={"pool": "fast"}, annotations=notes)
    yield class_body(name="by-zone")
    yield _disk(LOST)
    for number in range(2):
        yield volume_body(
            name=f"zonal-{number}", storage_class="by-zone", source={"nfs": {"path": "/", "server": "nas"}}
        )
    yield claim_body(name="disk", storage_class="replaceable", size="1Gi")
    template = {"metadata": {"labels": {"app": "disk"}}, "spec": pod_body(claims=("disk",))["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "disk"}}, "template": template}
    yield {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "disk"}, "spec": spec}
    yield pod_body(name="beside-disk", node=LOST)
    yield pod_body(name="dark", node=DARK)
    yield claim_body(name="preset", storage_class="fast", size="1Gi")
    yield pod_body(name="preset", claims=("preset",), node="node-1")
    yield claim_body(name="preset-local", storage_class=LOCAL_CLASS, size="1Gi")
    yield pod_body(name="preset-local", claims=("preset-local",), node="node-2")
    yield claim_body(name="astray", storage_class="fast", size="1Gi", selected_node="node-9")
    yield pod_body(name="astray", claims=("astray",), node_selector={well_known.HOSTNAME: "node-2"})
    # Its provisioner is not installed, and does not look for another node.
    yield class_body(name="uninstalled", provisioner="uninstalled.example.com")
    yield claim_body(name="unserved", storage_class="uninstalled", size="1Gi", selected_node=LOST)
    yield claim_body(name=MISPLACED, storage_class=SPARE, size="1Gi", selected_node="node-1")
    yield pod_body(name="filler", node="node-1", requests={"cpu": "6"})
    where = {well_known.HOSTNAME: "node-2"}
    yield pod_body(name=MISPLACED, claims=(MISPLACED,), requests={"cpu": "4"}, node_selector=where)
    yield pod_group_body(name="batch", min_count=2)
    for number in range(2):
        yield member_body(name=f"batch-{number}", group="batch", node_selector=where)


def _disk(node: str) -> Body:
    return volume_body(name=f"disk-of-{node}", storage_class="replaceable", node=node)


def _all_run(facts: Facts) -> Iterable[Violation]:
    running = {
        pod.metadata.labels.get("app", pod.name)
        for pod in facts.pods.values()
        if pod.status.phase == "Running" and not pod.deleting and pod.spec.node_name in facts.nodes
    }
    for name in RUNNING:
        if name not in running:
            yield Violation(
                "all pods run", f"{name} should run; {sorted(running)} run", (Subject(POD, f"default/{name}"),)
            )
    for name in ("zonal-0", "zonal-1"):
        if facts.volumes[name].spec.node_affinity is None:
            yield Violation("zone labels become affinity", f"{name} has no node affinity", (Subject(VOLUME, name),))


async def _is_finished(cluster: SimulatedCluster) -> Iterable[Violation]:
    """Replacements of claims leave nothing behind: no record, no finalizer, no volume that is retained for them."""
    left = [
        Subject(CONFIG_MAP, record.key)
        for record in (await cluster.client.list(RECOVERY_RECORD, namespace=NAMESPACE)).items
        if RECORD_LABEL in record.metadata.labels
    ]
    left += [Subject(CLAIM, claim.key) for claim in (await cluster.client.list(CLAIM)).items if is_guarded(claim)]
    left += [
        Subject(VOLUME, volume.name)
        for volume in (await cluster.client.list(VOLUME)).items
        if volume.storage_class == SPARE and volume.spec.persistent_volume_reclaim_policy != "Delete"
    ]
    unfinished = [Violation("replacements end", f"{subject} is left of a replacement", (subject,)) for subject in left]
    return [*await settled(cluster), *unfinished]
