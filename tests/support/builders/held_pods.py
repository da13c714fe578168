"""A pod with two claims and the objects that a provisioner writes for them, for tests of the coordinator."""

from collections.abc import Awaitable, Callable

from mooring.api import well_known
from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, NAMESPACE, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.control.feature_gates import DEFAULTS, FeatureGates
from mooring.coordinator.component import Coordinator
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.volumes.binding import HOLD_NAMESPACE, HOLD_PREFIX, HoldState, hold_state
from mooring.volumes.holds import objects
from mooring.volumes.holds.transitions import Intent, IntentPhase, to_data
from support.builders import claim_body, class_body, node_body, pod_body, reachable_from, volume_body
from support.partial_control_plane import Plane, run_plane

Scenario = Callable[["Group"], Awaitable[None]]
#: kube-scheduler's podMaxBackoffSeconds, and ours.
MAX_BACKOFF_SECONDS = 10.0


class Group:
    """A pod with claims `a` and `b`, and the objects that a provisioner writes for them."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.client = plane.client

    async def begin(self) -> None:
        await self.plane.create(NAMESPACE, {"metadata": {"name": HOLD_NAMESPACE}})
        await self.plane.create(STORAGE_CLASS, class_body(name="fast", provisioner="csi.example.com"))
        for node in ("n1", "n2"):
            await self.plane.create(NODE, node_body(name=node))
        for name in "ab":
            await self.plane.create(CLAIM, claim_body(name=name, storage_class="fast"))
        await self.plane.create(POD, pod_body(name="p", claims=("a", "b")))

    async def select(self, claim: str, node: str | None) -> None:
        notes = {well_known.SELECTED_NODE: node}
        await self.client.patch(CLAIM, claim, MergePatch({"metadata": {"annotations": notes}}), namespace="default")

    async def hold(
        self, claim: str, node: str, *, attempt: int = 1, phase: IntentPhase = IntentPhase.CREATED, zone: str = ""
    ) -> None:
        """The held PersistentVolume and its intent; with a `zone`, a disk of the in-tree EBS plugin there."""
        found = await self.plane.get(CLAIM, claim)
        await self.intend(claim, Intent(attempt, node, phase))
        body = volume_body(
            name=f"pv-{claim}",
            node="" if zone else node,
            affinity=reachable_from(well_known.ZONE, zone) if zone else None,
            source={"awsElasticBlockStore": {"volumeID": f"vol-{claim}"}} if zone else None,
            storage_class="fast",
            reclaim="Delete",
        )
        marks = objects.hold_metadata(found, node, since="2026-01-02T03:04:05Z", attempt=attempt)
        marks["annotations"] |= {well_known.PROVISIONED_BY: "csi.example.com"}
        marks["annotations"].pop(objects.SINCE)
        body["metadata"] |= marks
        body["spec"]["claimRef"] = {"namespace": HOLD_NAMESPACE, "name": f"{HOLD_PREFIX}{found.uid}"}
        await self.client.create(VOLUME, body)

    async def intend(self, claim: str, intent: Intent) -> None:
        found = await self.plane.get(CLAIM, claim)
        body = {"metadata": {"name": objects.intent_name(found.uid)}, "data": to_data(intent)}
        try:
            patch = MergePatch({"data": to_data(intent)})
            await self.client.patch(objects.INTENT_RECORD, body["metadata"]["name"], patch, namespace=HOLD_NAMESPACE)
        except NotFound:
            await self.client.create(objects.INTENT_RECORD, body, namespace=HOLD_NAMESPACE)

    async def state(self, claim: str) -> HoldState:
        return hold_state(await self.plane.get(VOLUME, f"pv-{claim}"), hold_namespace=HOLD_NAMESPACE)

    async def becomes(self, claim: str, state: HoldState, *, within: float = 1.0) -> None:
        async def there() -> bool:
            return await self.state(claim) is state

        await self.plane.until(there, within=within)

    async def stays_held(self, claim: str, seconds: float) -> None:
        await self.plane.pass_time(seconds)
        assert await self.state(claim) is HoldState.HELD


def run_scenario(scenario: Scenario, *, gates: FeatureGates = DEFAULTS) -> None:
    async def run(plane: Plane) -> None:
        group = Group(plane)
        await group.begin()
        await scenario(group)

    run_plane([Coordinator, PersistentVolumeController], run, gates=gates)
