"""Invariants of gangs: what the records of groups say against what happens to volumes and pods.

`GroupRules` follows every write (I1 to I5, I7 to I9 of the specification), looks every half second whether two groups
keep each other waiting (I15), and at the end whether all is calm (I10, I11) and no gang waits without need (I12).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from mooring.api import quantity
from mooring.api.kinds import CLAIM, CONFIG_MAP, POD, POD_GROUP, VOLUME
from mooring.api.views.pod_groups import PodGroup
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from mooring.cluster.storage import NAMESPACE
from mooring.volumes.binding import HoldState, hold_state
from mooring.volumes.holds import group_objects, objects
from mooring.volumes.holds.group_record import LISTS, UNMARKED, GroupPhase, StoredGroup
from support.simulation.cluster import SimulatedCluster
from support.simulation.gangs.search import GI, GangPlaces
from support.simulation.history import Written
from support.simulation.invariants import Facts, Subject, Violation
from support.simulation.scenarios import SCHEDULER

#: How long two groups may keep each other waiting: thirty seconds, and the longest restart of a component.
MUTUAL_SECONDS: Final = 40.0


class GroupRules:
    """Compares writes with the records of groups. Without `pools` and `limit` capacity and limits are not checked."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        *,
        pools: Mapping[str, int] | None = None,
        storage_class: str = "",
        limit: int = 0,
        always_held: bool = False,
    ) -> None:
        """`pools` of the class in GiB by node; `limit` of its volumes on a node; `always_held`: no pod of a gang is
        bound without a commit."""
        self._cluster = cluster
        self._always_held = always_held
        self._pools = pools or {}
        self._class = storage_class
        self._limit = limit
        self._facts = Facts()
        #: Records by uid of the PodGroup.
        self._records: dict[str, StoredGroup] = {}
        self._groups: dict[str, PodGroup] = {}
        #: Uids of volumes that were ever given to a claim.
        self._given: set[str] = set()
        #: Since when two groups hold what the other lacks, by their uids.
        self._mutual: dict[tuple[str, str], float] = {}
        self.violations: list[Violation] = []
        self.phases: list[GroupPhase] = []
        for written in cluster.history.writes():
            self._facts.observe(written)
        cluster.history.on_write(self._look)

    def _look(self, written: Written) -> None:
        before, after = self._facts.observe(written)
        if written.kind is CONFIG_MAP and written.change.after is not None:
            self._record(objects.INTENT_RECORD.decode(written.change.after.value))
        elif isinstance(after, PodGroup):
            self._groups[after.key] = after
        elif isinstance(after, Claim):
            self._claim(before if isinstance(before, Claim) else None, after, written.author)
        elif written.kind is VOLUME:
            self._volume(before if isinstance(before, Volume) else None, after if isinstance(after, Volume) else None)
        elif isinstance(after, Pod):
            self._pod(before if isinstance(before, Pod) else None, after)

    def _record(self, body: objects.IntentRecord) -> None:
        if not body.name.startswith("group-"):
            return
        stored = group_objects.stored_group(body)
        record, known = stored.record, self._records.get(stored.record.uid)
        self._records[record.uid] = stored
        self.phases.append(record.phase)
        if known is None or known.uid != stored.uid:
            return
        if record.epoch < known.record.epoch:
            self._fail("epochs grow", f"{record.name}: {known.record.epoch} became {record.epoch}")
        if known.record.phase is GroupPhase.COMMITTING and record.phase not in LISTS:
            self._fail("committing ends committed", f"{record.name} is {record.phase.value}")

    def _claim(self, before: Claim | None, claim: Claim, author: str) -> None:
        """I4: a scheduler sends volumes only where the pool has room for all that is there or on its way."""
        was = before.selected_node if before is not None else None
        node = claim.selected_node
        if not node or node == was or not author.startswith(SCHEDULER) or node not in self._pools:
            return
        coming = [
            each
            for each in self._facts.claims.values()
            if each.selected_node == node and not each.spec.volume_name and f"pvc-{each.uid}" not in self._facts.volumes
        ]
        taken = GangPlaces.provisioned(self._facts, node) + sum(quantity.to_bytes(each.request) for each in coming)
        if taken > self._pools[node] * GI:
            text = f"{node} has {self._pools[node]} GiB and is to have {taken / GI} with {claim.key}"
            self._fail("pools are not promised twice", text, Subject(CLAIM, claim.key))

    def _volume(self, before: Volume | None, after: Volume | None) -> None:
        if after is not None and hold_state(after, hold_namespace=NAMESPACE) is HoldState.COMMITTED:
            self._given.add(after.uid)
        if before is None:
            return
        subject = Subject(VOLUME, before.name)
        goes = after is None or (after.deleting and not before.deleting)
        if goes and before.uid in self._given and self._facts.claim_of(before) is not None:
            self._fail("given volumes are reclaimed only", f"volume {before.name} of a claim is deleted", subject)
        mark = group_objects.mark_of(before)
        if mark == UNMARKED or hold_state(before, hold_namespace=NAMESPACE) is not HoldState.HELD:
            return
        uid = objects.held_for(before, hold_namespace=NAMESPACE)
        stored = next((one for one in self._records.values() if one.uid == mark.record), None)
        phase = stored.record.phase if stored is not None else GroupPhase.IDLE
        listed = stored is not None and phase in LISTS and uid in stored.record.listed
        now = HoldState.FREE if after is None else hold_state(after, hold_namespace=NAMESPACE)
        if now is HoldState.COMMITTED and not listed:
            self._fail("committed volumes are listed", f"volume {before.name} is not listed", subject)
        if now is HoldState.COMMITTED and phase is not GroupPhase.COMMITTING:
            text = f"volume {before.name} is given while its group is {phase.value}"
            self._fail("volumes are given while committing", text, subject)
        leaves = after is not None and now is HoldState.HELD and group_objects.mark_of(after) == UNMARKED
        if leaves and (listed or phase not in LISTS):
            text = f"volume {before.name} is no longer the group's before the commit"
            self._fail("only extras leave the group", text, subject)
        current = listed and stored is not None and stored.record.is_current(uid, mark.epoch)
        claim = next((each for each in self._facts.claims.values() if each.uid == uid), None)
        wants = claim is not None and claim.spec.volume_name in ("", before.name)
        if now in (HoldState.FREE, HoldState.ROLLING_BACK) and current and wants:
            self._fail("listed volumes stay", f"volume {before.name} is {now.value}", subject)

    def _pod(self, before: Pod | None, after: Pod) -> None:
        if not after.spec.node_name or (before is not None and before.spec.node_name):
            return
        self._check_limit(after)
        group = self._groups.get(after.group_key) if after.group_key else None
        stored = self._records.get(group.uid) if group is not None else None
        phase = stored.record.phase if stored is not None else GroupPhase.IDLE
        if group is None or phase in LISTS or (phase is GroupPhase.IDLE and not self._always_held):
            return
        if len(self._placed(group)) <= group.min_count:
            text = f"pod {after.key} is bound while its group is {phase.value}"
            self._fail("pods are bound after the commit", text, Subject(POD, after.key))

    def _check_limit(self, pod: Pod) -> None:
        """I5"""
        node = pod.spec.node_name
        used = {
            claim.spec.volume_name
            for other in self._facts.pods.values()
            if other.spec.node_name == node and not other.finished
            for claim in self._facts.claims_of(other)
            if claim.storage_class == self._class
        }
        if self._limit and len(used) > self._limit:
            text = f"{node} has {len(used)} volumes with {pod.key}, its limit is {self._limit}"
            self._fail("limits hold", text, Subject(POD, pod.key))

    def _placed(self, group: PodGroup) -> list[Pod]:
        return [pod for pod in self._facts.pods.values() if pod.group_key == group.key and pod.spec.node_name]

    def _fail(self, rule: str, text: str, *subjects: Subject) -> None:
        self.violations.append(Violation(rule, text, subjects))

    async def audit(self, _: SimulatedCluster) -> Violation | None:
        """Every half second: the first rule that a write broke, and I15."""
        now = self._cluster.clock.monotonic()
        holding = [one for one in self._records.values() if one.record.phase is GroupPhase.HOLDING]
        needs = {one.record.uid: self._needs(one) for one in holding}
        mutual = {
            (one, other)
            for one, (holds, lacks) in needs.items()
            for other, (others, missing) in needs.items()
            if one < other and holds & missing and others & lacks
        }
        self._mutual = {pair: self._mutual.get(pair, now) for pair in mutual}
        for pair, since in self._mutual.items():
            if now - since > MUTUAL_SECONDS:
                names = " and ".join(self._records[uid].record.name for uid in pair)
                self._fail("no two groups wait for each other", f"{names} hold what the other lacks since {since:.1f}")
        return next(iter(self.violations), None)

    def _needs(self, stored: StoredGroup) -> tuple[set[str], set[str]]:
        """Classes of the volumes that a group holds, and of claims that have neither volume nor node."""
        held = {
            objects.held_for(volume, hold_namespace=NAMESPACE): volume.storage_class
            for volume in self._facts.volumes.values()
            if group_objects.mark_of(volume).record == stored.uid
        }
        own = [claim for claim in self._facts.claims.values() if claim.uid in stored.record.by_claim]
        loose = [each for each in own if each.uid not in held and not each.spec.volume_name and not each.selected_node]
        return set(held.values()), {each.storage_class for each in loose}

    def at_end(self) -> Iterable[Violation]:
        """When everything is calm: no group is under way, none runs below its quorum, none waits without need."""
        yield from self.violations
        for stored in self._records.values():
            if stored.record.phase not in (GroupPhase.IDLE, GroupPhase.COMMITTED):
                yield Violation("groups end", f"{stored.record.name} is {stored.record.phase.value}", ())
        for group in self._groups.values():
            placed = self._placed(group)
            if placed and len(placed) < group.min_count:
                text = f"{len(placed)} of {group.min_count} members of {group.key} are bound"
                yield Violation("no group is partial", text, tuple(Subject(POD, pod.key) for pod in placed))

    def waiting_without_need(self) -> Iterator[Violation]:
        """I12"""
        for group in self._groups.values():
            if GangPlaces(self._facts, self._pools, self._class, limit=self._limit).could_run(group):
                waiting = [pod for pod in self._facts.pods.values() if pod.group_key == group.key]
                subjects = (Subject(POD_GROUP, group.key), *(Subject(POD, pod.key) for pod in waiting))
                yield Violation("gangs wait only without a place", f"{group.key} could run", subjects)
