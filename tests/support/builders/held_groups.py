"""A group of pods with a claim each, and the objects that scheduler and provisioner write for it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from mooring.api import well_known
from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, LEASE, NAMESPACE, NODE, POD, POD_GROUP, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.control.component import Context
from mooring.control.feature_gates import GANG_VOLUMES, FeatureGates, with_defaults
from mooring.coordinator.claim_states import CoordinatorSettings
from mooring.coordinator.component import Coordinator
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.volumes.binding import HOLD_NAMESPACE, HOLD_PREFIX, HoldState, hold_state
from mooring.volumes.holds import group_objects, group_record, objects
from mooring.volumes.holds.group_record import (
    GROUP_LABEL,
    UNMARKED,
    GroupMark,
    GroupPhase,
    GroupRecord,
    MemberClaim,
    RecordedMember,
    StoredGroup,
)
from mooring.volumes.holds.transitions import Intent, IntentPhase, to_data
from support.builders import claim_body, class_body, node_body, volume_body
from support.builders.groups import member_body, pod_group_body
from support.partial_control_plane import Build, Plane, run_plane

GATES: Final[FeatureGates] = with_defaults({GANG_VOLUMES: True})
PROVISIONER: Final = "csi.example.com"


class HeldGroup:
    """A PodGroup `g`; member i is pod `g-i` with claim `c-i`, on node `n<i+1>`."""

    def __init__(self, plane: Plane, members: int, min_count: int, topology: str, *, basic: bool = False) -> None:
        self.plane = plane
        self.client = plane.client
        self.size = members
        self.min_count = min_count
        self.topology = topology
        self.basic = basic
        self.uid = ""

    async def begin(self) -> None:
        await self.plane.create(NAMESPACE, {"metadata": {"name": HOLD_NAMESPACE}})
        await self.plane.create(STORAGE_CLASS, class_body(name="fast", provisioner=PROVISIONER))
        for number in range(self.size + 1):
            await self.plane.create(NODE, node_body(name=f"n{number + 1}", labels={"rack": "r1"}))
        self.uid = (
            await self.plane.create(
                POD_GROUP, pod_group_body(min_count=self.min_count, topology=self.topology, basic=self.basic)
            )
        ).uid
        for number in range(self.size):
            await self.member(number)

    async def member(self, number: int, *, claims: Sequence[str] = ()) -> None:
        names = claims or (f"c-{number}",)
        for name in names:
            await self.plane.create(CLAIM, claim_body(name=name, storage_class="fast"))
        await self.plane.create(POD, member_body(name=f"g-{number}", claims=tuple(names)))

    async def record(self) -> StoredGroup | None:
        try:
            name = group_record.record_name(self.uid)
            found = await self.client.get(objects.INTENT_RECORD, name, namespace=HOLD_NAMESPACE)
        except NotFound:
            return None
        return group_objects.stored_group(found)

    async def phase(self) -> GroupPhase | None:
        stored = await self.record()
        return stored.record.phase if stored is not None else None

    async def write_record(self, *, domain: str = "", volumes: Mapping[int, str] | None = None) -> StoredGroup:
        """As the scheduler begins."""
        members = []
        for number in range(self.size):
            pod = await self.plane.get(POD, f"g-{number}")
            claim = await self.plane.get(CLAIM, f"c-{number}")
            chosen = (volumes or {}).get(number, "")
            members.append(RecordedMember(pod.uid, f"n{number + 1}", 0, (MemberClaim(claim.uid, chosen),)))
        record = GroupRecord("default", "g", self.uid)
        now = self.plane.clock.now()
        begun = group_record.begin(record, members, min_count=self.min_count, domain=domain, now=now)
        assert begun is not None
        body = group_objects.record_body(begun)
        return group_objects.stored_group(
            await self.client.create(objects.INTENT_RECORD, body, namespace=HOLD_NAMESPACE)
        )

    async def hold(
        self,
        number: int,
        *,
        mark: GroupMark = UNMARKED,
        node: str = "",
        static: bool = False,
        attempt: int = 1,
        label: bool = True,
        name: str = "",
    ) -> None:
        """The held volume of a member as the provisioner, or for an existing one the scheduler, writes it."""
        claim = await self.plane.get(CLAIM, f"c-{number}")
        node = node or f"n{number + 1}"
        body = volume_body(name=name or f"pv-{number}", node=node, storage_class="fast", reclaim="Delete")
        since = "2026-01-02T03:04:05Z"
        marks = objects.hold_metadata(claim, node, since=since, attempt=0 if static else attempt)
        if not static:
            marks["annotations"] |= {well_known.PROVISIONED_BY: PROVISIONER}
            await self.select(number, node)
            await self.intend(number, Intent(attempt, node, IntentPhase.CREATED))
        body["metadata"] |= group_objects.with_group(marks, self.uid, mark) if label else marks
        body["spec"]["claimRef"] = {"namespace": HOLD_NAMESPACE, "name": f"{HOLD_PREFIX}{claim.uid}"}
        await self.client.create(VOLUME, body)

    async def give(self, number: int) -> None:
        """A volume that is bound to the member's claim."""
        claim = await self.plane.get(CLAIM, f"c-{number}")
        own = {"namespace": claim.namespace, "name": claim.name, "uid": claim.uid}
        node = f"n{number + 1}"
        await self.client.create(
            VOLUME, volume_body(name=f"pv-{number}", node=node, storage_class="fast", claim_ref=own)
        )

    async def select(self, number: int, node: str | None) -> None:
        patch = MergePatch({"metadata": {"annotations": {well_known.SELECTED_NODE: node}}})
        await self.client.patch(CLAIM, f"c-{number}", patch, namespace="default")

    async def intend(self, number: int, intent: Intent) -> None:
        claim = await self.plane.get(CLAIM, f"c-{number}")
        name = objects.intent_name(claim.uid)
        body = {"metadata": {"name": name, "labels": {GROUP_LABEL: self.uid}}, "data": to_data(intent)}
        try:
            patch = MergePatch({"data": to_data(intent)})
            await self.client.patch(objects.INTENT_RECORD, name, patch, namespace=HOLD_NAMESPACE)
        except NotFound:
            await self.client.create(objects.INTENT_RECORD, body, namespace=HOLD_NAMESPACE)

    async def hold_all(self, stored: StoredGroup, *, static: bool = False) -> None:
        for number in range(self.size):
            await self.hold(number, mark=GroupMark(stored.uid, stored.record.epoch), static=static)

    async def states(self, *, count: int = 0) -> list[HoldState]:
        """Of the volumes of all members, or of the first ones."""
        volumes = [await self.plane.get(VOLUME, f"pv-{number}") for number in range(count or self.size)]
        return [hold_state(volume, hold_namespace=HOLD_NAMESPACE) for volume in volumes]

    async def bound(self) -> list[str]:
        return [(await self.plane.get(CLAIM, f"c-{number}")).status.phase for number in range(self.size)]

    async def reaches(self, phase: GroupPhase | None, *, within: float = 5.0) -> None:
        async def there() -> bool:
            return await self.phase() is phase

        await self.plane.until(there, within=within)

    async def announced(self) -> str:
        lease = await self.client.get(LEASE, well_known.COORDINATOR_LEASE, namespace=HOLD_NAMESPACE)
        return lease.metadata.annotations.get(group_objects.ANNOUNCEMENT, "")


def coordinator(context: Context) -> Coordinator:
    return Coordinator(context, CoordinatorSettings(renews_lease=True))


def run_group(
    scenario: Callable[[HeldGroup], Awaitable[None]],
    *,
    members: int = 3,
    min_count: int = 3,
    gates: FeatureGates = GATES,
    topology: str = "",
    basic: bool = False,
    components: Sequence[Build] | None = None,
) -> None:
    """With a coordinator and a PV controller, or with these components."""

    async def run(plane: Plane) -> None:
        group = HeldGroup(plane, members, min_count, topology, basic=basic)
        await group.begin()
        await scenario(group)

    builds = [coordinator, PersistentVolumeController] if components is None else components
    run_plane(builds, run, gates=gates)
