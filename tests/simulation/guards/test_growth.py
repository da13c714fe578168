"""Memory of deleted objects is released: in each round every component returns to its initial size.

`SimulatedCluster.remembered` counts every container of every component, so a new one that only grows fails here without
a line in this file. Containers that may keep entries are listed with their bounds.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from mooring.api import well_known
from mooring.api.errors import NotFound
from mooring.api.kinds import (
    BY_KIND,
    CLAIM,
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    NAMESPACE,
    NODE,
    POD,
    POD_GROUP,
    STATEFUL_SET,
    STORAGE_CLASS,
    VOLUME,
)
from mooring.api.patches.contract import MergePatch
from mooring.cluster import storage as hold
from mooring.cluster.bootstrap import Layout
from mooring.control.feature_gates import DEFAULTS
from mooring.csi.contract import Code
from mooring.provisioner.component import Provisioner
from mooring.provisioner.rollback.orphans import DELETED_CLAIM_TTL_SECONDS, LIST_INTERVAL_SECONDS
from mooring.pvcontroller.lost_storage_controller import LostStorageController
from mooring.volumes.binding import HoldState, hold_state
from support.builders import Body, claim_body, class_body, node_body, pod_body, volume_body
from support.builders.groups import member_body, pod_group_body
from support.builders.held_groups import GATES
from support.scenarios import crowd, simulated
from support.simulation.cluster import BuildExtraComponents, SimulatedCluster, no_extra_components, simulate
from support.simulation.faults import NO_FAULTS, BadCall, BadRpc, DriverFault, FaultPlan, RequestFault
from support.simulation.storage import CONTROLLER, HostpathStorage

GI: Final = 2**30
#: Twice this is longer than any backoff. With held volumes, attempts of deleted claims are cached for longer.
RELEASE_SECONDS: Final = 600.0
HELD_RELEASE_SECONDS: Final = (DELETED_CLAIM_TTL_SECONDS + LIST_INTERVAL_SECONDS) / 2 + 100.0
#: Every CreateVolume fails, with alternating codes: claims are deleted while they wait for a retry.
REFUSING: Final = FaultPlan(
    tuple(
        BadRpc(Provisioner.name, "create_volume", call, DriverFault.REFUSED, code=code)
        for call, code in enumerate((Code.INVALID_ARGUMENT, Code.INTERNAL, Code.RESOURCE_EXHAUSTED) * 200, start=1)
    )
)
#: No volume can be deleted.
KEEPING: Final = FaultPlan(
    tuple(
        BadRpc(Provisioner.name, "delete_volume", call, DriverFault.REFUSED, code=Code.FAILED_PRECONDITION)
        for call in range(1, 400)
    )
)
#: Every twelfth request of the controller of lost storage fails: it is interrupted between any two writes.
INTERRUPTED: Final = FaultPlan(
    tuple(BadCall(LostStorageController.name, call, RequestFault.UNAVAILABLE) for call in range(1, 600, 12))
)
#: Containers that keep entries after all objects are deleted, and their bounds.
BOUNDED: Final = {
    r"API server store hub\.history": "the newest changes of a kind: 10,000 or 64 MiB",
    r"API server server .*shared_events": "events of the newest changes: 2,048 or 16 MiB",
    r"\S+ recorder (series|budget)\.": "the last 4,096 objects and reasons",
    r"\S+ informers .*recent": "the last 512 changes of a kind",
    r"default-scheduler component attempts\.finished": "pods that were tried last: 4,096 or 16 MiB",
    r"default-scheduler component .*\.answers": "node selectors of one topology: 4,096, or 65,536 keys and values",
    r"default-scheduler component .*\.watched": "pod selectors asked about last: 1,024, or 65,536 keys and values",
    r"default-scheduler component .*queue\.by_plugin": "an entry per plugin",
    r"default-scheduler component .*capacity\.classes\.\w+\.stale": "nodes with news since the last question",
    r"default-scheduler component .*capacity\.classes\.charged": "segments with news since the last question",
}
Create = Callable[[SimulatedCluster, int], Awaitable[None]]


async def local_volumes(cluster: SimulatedCluster, number: int) -> None:
    """Pods with delayed-binding volumes of a class of their own, some of them unschedulable."""
    await simulated.create(cluster, *crowd.manifest(f"disks-{number}", pods=12, volume_count=10))


async def workloads(cluster: SimulatedCluster, number: int) -> None:
    """Workloads whose controllers create pods and claims."""
    labels = {"app": f"set-{number}"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec: Body = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    claims = [{"metadata": {"name": "data"}, "spec": claim_body(storage_class=f"wait-{number}")["spec"]}]
    bodies: list[Body] = [
        class_body(name=f"wait-{number}"),
        node_body(name=f"guest-{number}"),
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": f"web-{number}"}, "spec": spec},
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": f"db-{number}"},
            "spec": {**spec, "serviceName": "db", "volumeClaimTemplates": claims},
        },
    ]
    await simulated.create(cluster, *bodies)


async def lost_nodes(cluster: SimulatedCluster, number: int) -> None:
    """Nodes that are deleted with their disks, a PodGroup that is deleted with its pods, claims of pods that bypass the
    scheduler, a claim whose volume keeps its pod pending, and one that waits for a node."""
    guests = [f"guest-{number}-{position}" for position in range(3)]
    classes = {name: f"{name}-{number}" for name in ("replaceable", "spare", "uninstalled")}
    bodies = [
        class_body(name=classes["replaceable"], annotations={well_known.LOST_STORAGE: "10s"}),
        class_body(
            name=classes["spare"],
            provisioner="zonal.standins.mooring.dev",
            annotations={well_known.UNUSED_CLAIMS: "5s"},
        ),
        class_body(name=classes["uninstalled"], provisioner="uninstalled.example.com"),
        *(node_body(name=guest) for guest in guests),
        pod_group_body(name=f"batch-{number}", min_count=2),
        *(member_body(name=f"batch-{number}-{member}", group=f"batch-{number}") for member in range(2)),
        claim_body(name=f"spare-{number}", storage_class=classes["spare"], selected_node="node-1"),
        pod_body(name=f"spare-{number}", claims=(f"spare-{number}",), node_selector={well_known.HOSTNAME: "node-2"}),
        claim_body(name=f"unserved-{number}", storage_class=classes["uninstalled"], selected_node=guests[0]),
    ]
    for guest in guests:
        bodies += [
            volume_body(name=f"disk-of-{guest}", storage_class=classes["replaceable"], node=guest, reclaim="Delete"),
            claim_body(name=f"data-{guest}", storage_class=classes["replaceable"]),
            pod_body(name=f"pod-of-{guest}", claims=(f"data-{guest}",), node=guest),
        ]
    await simulated.create(cluster, *bodies)
    await cluster.clock.sleep(60)
    for guest in guests:
        await cluster.client.delete(NODE, guest)
    await cluster.client.delete(POD_GROUP, f"batch-{number}", namespace="default")
    await cluster.clock.sleep(60)
    claims = {claim.name: claim for claim in (await cluster.client.list(CLAIM)).items}
    assert all(not claims[f"data-{guest}"].spec.volume_name for guest in guests), "claims of lost disks are replaced"
    assert claims[f"spare-{number}"].metadata.annotations.get(well_known.TIMES_REPLACED), "the unused claim is replaced"


async def provisioned(cluster: SimulatedCluster, number: int) -> None:
    """Pods with two provisioned volumes each, some larger than the capacity, in a namespace of their own."""
    namespace = f"team-{number}"
    await cluster.client.create(NAMESPACE, {"metadata": {"name": namespace}})
    for pod in range(6):
        names = [f"claim-{pod}-{position}" for position in range(2)]
        size = "500Gi" if pod == 5 else "5Gi"
        bodies = [claim_body(name=name, namespace=namespace, storage_class="fast", size=size) for name in names]
        for body in (*bodies, pod_body(name=f"pod-{pod}", namespace=namespace, claims=names)):
            await cluster.client.create(BY_KIND[body["apiVersion"], body["kind"]], body, namespace=namespace)


async def gangs(cluster: SimulatedCluster, number: int) -> None:
    """A gang that runs, one that does not fit and gives up its held volumes, and one that is deleted meanwhile."""
    sizes = {"runs": ("5Gi",) * 3, "waits": ("5Gi", "5Gi", "500Gi"), "goes": ("5Gi", "5Gi", "500Gi")}
    bodies: list[Body] = []
    for name, asked in sizes.items():
        group = f"{name}-{number}"
        bodies.append(pod_group_body(name=group, min_count=len(asked)))
        for member, size in enumerate(asked):
            claims = [f"{group}-{member}-{position}" for position in range(2)]
            bodies += [claim_body(name=claim, storage_class="fast", size=size) for claim in claims]
            bodies.append(member_body(name=f"{group}-{member}", group=group, claims=claims))
    await simulated.create(cluster, *bodies)
    states: set[HoldState] = set()

    async def given_up() -> bool:
        states.update(
            hold_state(volume, hold_namespace=hold.NAMESPACE) for volume in (await cluster.client.list(VOLUME)).items
        )
        return states >= {HoldState.HELD, HoldState.ROLLING_BACK}

    assert await cluster.until(given_up, within=120.0), states
    await cluster.client.delete(POD_GROUP, f"goes-{number}", namespace="default")
    await cluster.clock.sleep(60)
    running = {pod.name for pod in (await cluster.client.list(POD)).items if pod.status.phase == "Running"}
    assert {name for name in running if not name.startswith("goes")} == {f"runs-{number}-{n}" for n in range(3)}


async def rolled_back(cluster: SimulatedCluster, number: int) -> None:
    """Like `provisioned`; after a rollback has deleted the storage of volumes, a user force-deletes all objects."""
    await provisioned(cluster, number)
    lost: list[str] = []

    async def without_storage() -> bool:
        there = {each.volume_id for each in await cluster.driver(CONTROLLER).list_volumes()}
        lost.extend(
            volume.name
            for volume in (await cluster.client.list(VOLUME)).items
            if hold_state(volume, hold_namespace=hold.NAMESPACE) is HoldState.ROLLING_BACK
            and volume.spec.csi is not None
            and volume.spec.csi.volume_handle not in there
        )
        return bool(lost)

    assert await cluster.until(without_storage, within=120.0), "no rollback was met between storage and object"
    for kind in (POD, CLAIM):
        for item in (await cluster.client.list(kind)).items:
            await cluster.client.patch(
                kind, item.name, MergePatch({"metadata": {"finalizers": None}}), namespace=item.namespace
            )
            await cluster.client.delete(kind, item.name, namespace=item.namespace, grace_seconds=0)
    for name in lost:
        await cluster.client.patch(VOLUME, name, MergePatch({"metadata": {"finalizers": None}}))
        await _delete(cluster, VOLUME, name, "")


async def forced(cluster: SimulatedCluster, number: int) -> None:
    """Like `provisioned`; a user removes the finalizers of claims that pods use, and of volumes that cannot be
    deleted, and deletes the storage by other means."""
    await provisioned(cluster, number)
    await cluster.clock.sleep(60)
    for finalizers_removed in (False, True):
        for claim in (await cluster.client.list(CLAIM)).items:
            if finalizers_removed:
                patch = MergePatch({"metadata": {"finalizers": None}})
                await cluster.client.patch(CLAIM, claim.name, patch, namespace=claim.namespace)
            else:
                await cluster.client.delete(CLAIM, claim.name, namespace=claim.namespace)
        await cluster.clock.sleep(30)
    for pod in (await cluster.client.list(POD)).items:
        await cluster.client.delete(POD, pod.name, namespace=pod.namespace)
    await cluster.clock.sleep(60)
    released = (await cluster.client.list(VOLUME)).items
    assert {volume.status.phase for volume in released} & {"Released", "Failed"}, "no volume waits for its deletion"
    for volume in released:
        assert volume.spec.csi is not None
        await cluster.driver(CONTROLLER).delete_volume(volume.spec.csi.volume_handle, secrets={})
        await cluster.client.patch(VOLUME, volume.name, MergePatch({"metadata": {"finalizers": None}}))
        await _delete(cluster, VOLUME, volume.name, "")


async def clear(
    cluster: SimulatedCluster, *, classes: bool, nodes: int, release_seconds: float = RELEASE_SECONDS
) -> None:
    """Delete everything that was created; controllers and finalizers complete the deletion."""
    kinds = (DEPLOYMENT, STATEFUL_SET, POD_GROUP, POD, CLAIM, VOLUME, *((STORAGE_CLASS,) if classes else ()))
    for _ in range(2):
        for kind in kinds:
            for item in (await cluster.client.list(kind)).items:
                await _delete(cluster, kind, item.name, item.namespace)
        for kind, prefix in ((NODE, "guest-"), (NAMESPACE, "team-")):
            for item in (await cluster.client.list(kind)).items:
                if item.name.startswith(prefix):
                    await _delete(cluster, kind, item.name, "")
        await cluster.clock.sleep(release_seconds)
    for item in (await cluster.client.list(EVENT)).items:
        await _delete(cluster, EVENT, item.name, item.namespace)
    left = {kind.plural: len((await cluster.client.list(kind)).items) for kind in (*kinds, CONFIG_MAP, EVENT)}
    assert not any(left.values()), left
    assert len((await cluster.client.list(NODE)).items) == nodes
    await cluster.clock.sleep(10)


async def _delete(cluster: SimulatedCluster, kind: object, name: str, namespace: str) -> None:
    try:
        await cluster.client.delete(kind, name, namespace=namespace)  # type: ignore[arg-type]
    except NotFound:
        return


def unreleased(before: dict[str, int], after: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Entries beyond the initial ones, without bounded containers."""
    return {
        what: (before.get(what, 0), count)
        for what, count in sorted(after.items())
        if count > before.get(what, 0) and not any(re.match(pattern, what) for pattern in BOUNDED)
    }


HELD: Final = HostpathStorage(Layout(local_volumes=0), rollback=True, fast=100 * GI)
ALONE: Final = HostpathStorage(Layout(local_volumes=0), fast=100 * GI)
#: Without published capacity a pod is tried where its volumes do not fit.
UNPUBLISHED: Final = HostpathStorage(Layout(local_volumes=0), rollback=True, published=False, fast=100 * GI)
#: With capacity for three volumes on a node.
TIGHT: Final = HostpathStorage(Layout(local_volumes=0), rollback=True, published=False, fast=16 * GI)


@pytest.mark.parametrize(
    ("create", "storage", "plan"),
    [
        pytest.param(local_volumes, None, NO_FAULTS, id="local volumes"),
        pytest.param(workloads, None, NO_FAULTS, id="workloads and nodes"),
        pytest.param(lost_nodes, None, NO_FAULTS, id="lost nodes"),
        pytest.param(lost_nodes, None, INTERRUPTED, id="lost nodes, failing requests"),
        pytest.param(provisioned, HELD, NO_FAULTS, id="provisioned, held"),
        pytest.param(provisioned, ALONE, NO_FAULTS, id="provisioned, without hold"),
        pytest.param(provisioned, TIGHT, NO_FAULTS, id="provisioned, insufficient capacity"),
        pytest.param(provisioned, HELD, REFUSING, id="failed, held"),
        pytest.param(provisioned, ALONE, REFUSING, id="failed, without hold"),
        pytest.param(rolled_back, TIGHT, NO_FAULTS, id="rolled back"),
        pytest.param(gangs, UNPUBLISHED, NO_FAULTS, id="gangs"),
        pytest.param(forced, ALONE, KEEPING, id="finalizers removed"),
    ],
)
def test_deleted_objects_are_released(create: Create, storage: HostpathStorage | None, plan: FaultPlan) -> None:
    release_seconds = HELD_RELEASE_SECONDS if storage is not None and storage.rollback else RELEASE_SECONDS

    async def scenario(cluster: SimulatedCluster) -> dict[str, tuple[int, int]]:
        await simulated.create(cluster, *(storage.objects() if storage is not None else ()))
        await cluster.clock.sleep(60)
        nodes = len((await cluster.client.list(NODE)).items)
        for warm in range(2):
            await create(cluster, warm)
            await cluster.clock.sleep(120)
            await clear(cluster, classes=storage is None, nodes=nodes, release_seconds=release_seconds)
            if not warm:
                began = cluster.remembered()
        return unreleased(began, cluster.remembered())

    extra_components: BuildExtraComponents = no_extra_components if storage is None else storage.extra_components
    found = simulate(
        scenario,
        layout=Layout(local_volumes=0),
        seed=1,
        plan=plan,
        extra_components=extra_components,
        gates=GATES if create is gangs else DEFAULTS,
    )
    assert found == {}


def test_growing_container_is_detected() -> None:
    """The guard itself: a scheduler that keeps every observed pod."""

    async def scenario(cluster: SimulatedCluster) -> dict[str, tuple[int, int]]:
        [scheduler] = [each for each in cluster._instances if each.name == "default-scheduler"]
        component = scheduler._component
        hoard: dict[str, list[str]] = {}
        component._hoard = hoard  # type: ignore[union-attr]
        for number in range(2):
            await local_volumes(cluster, number)
            await cluster.clock.sleep(60)
            for pod in (await cluster.client.list(POD)).items:
                hoard.setdefault("seen", []).append(pod.name)
            await clear(cluster, classes=True, nodes=3)
            if not number:
                began = cluster.remembered()
        return unreleased(began, cluster.remembered())

    found = simulate(scenario, layout=Layout(local_volumes=0), seed=1)
    assert found == {"default-scheduler component hoard": (13, 25)}
