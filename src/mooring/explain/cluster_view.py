"""`ClusterView`: listed objects prepared once for many explanations; `ClaimReporter`: the state of a claim on any node.

A claim report says which component acts next, since when, and its last event, by the rules of the PV controller and the
provisioners.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

from msgspec.structs import replace

from mooring.api import well_known
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, StorageClass, Volume, default_class
from mooring.explain import volume_candidates
from mooring.explain.cluster_objects import ClusterObjects, Events, lost_nodes, moment, since_text
from mooring.explain.provisioning import progress, report_of
from mooring.explain.remedies import data_loss
from mooring.explain.results import ClaimReport
from mooring.pvcontroller.migration import serving_provisioner
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes.binding import HOLD_PREFIX, ROLLBACK_PREFIX, HoldState, is_delayed
from mooring.volumes.claim_rollback import is_rolling_back
from mooring.volumes.holds import objects as marks
from mooring.volumes.holds import policy
from mooring.volumes.matching import Criterion, is_reserved_for, outgrows
from mooring.volumes.shortage import NO_TOPOLOGY, topology_text
from mooring.volumes.topology import EMPTY, TopologyIndex, affinity_of


def users_of(pods: Iterable[Pod]) -> Mapping[str, Sequence[Pod]]:
    """The pods that have not finished, by the keys of the claims they use."""
    users: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in sorted(pods, key=lambda one: one.key):
        if not pod.finished:
            for key in dict.fromkeys(pod.claim_keys):
                users[key].append(pod)
    return users


def awaiting(claim: Claim, pods: Sequence[Pod], events: Events) -> ClaimReport:
    """Where a claim stands that is bound when a pod that uses it is placed."""
    name = f"class {claim.storage_class}"
    if not pods:
        check = "create a pod that uses it, or use a class with volumeBindingMode Immediate"
        verdict = f"is Pending as intended: {name} binds it when a pod uses it, and no pod does."
        return report_of(claim, "NoConsumer", verdict, check)
    if placed := next((pod for pod in pods if pod.spec.node_name), None):
        node = placed.spec.node_name
        created = f"pod {placed.key} was created with nodeName {node}"
        check = f"create pod {placed.key} again without nodeName; use a nodeSelector instead"
        if refused := events.last(POD, placed, well_known.PRESET_NODE_FAILED):
            verdict = f"is not bound: {created}, and {refused.message}."
            check = f"add a volume of {name} that {node} reaches, or {check}"
            return report_of(claim, "ConsumerPlaced", verdict, check, stuck=True, node=node)
        check += ", or run the preset-node-controller of mooring controller"
        verdict = f"will not be bound: {created}, and {name} needs a scheduler to select the node."
        return report_of(claim, "ConsumerPlaced", verdict, check, stuck=True, node=node)
    if all(has_no_scheduler(pod, events) for pod in pods):
        who = pods[0].spec.scheduler_name
        check = f'start scheduler "{who}", or create the pod again with another schedulerName'
        named = f'pod {pods[0].key}, which has schedulerName "{who}"'
        verdict = f"waits for {named}, and nothing shows that this scheduler runs."
        return report_of(claim, "OtherScheduler", verdict, check, stuck=True)
    if all(pod.spec.scheduling_gates for pod in pods):
        gates = ", ".join(gate.name for gate in pods[0].spec.scheduling_gates)
        verdict = f"waits for pod {pods[0].key}, which has scheduling gates: {gates}."
        return report_of(claim, "ConsumerGated", verdict, "find out which component removes the gates")
    verdict = f"waits for {', '.join(pod.key for pod in pods)} to be scheduled."
    return report_of(claim, "ConsumerUnscheduled", verdict, f"mooring explain pod/{pods[0].name}")


def has_no_scheduler(pod: Pod, events: Events) -> bool:
    """Whether a pod waits for a scheduler of which nothing is heard: neither about this pod nor about any other."""
    name = pod.spec.scheduler_name
    if pod.spec.node_name or name == well_known.DEFAULT_SCHEDULER or name in events.components:
        return False
    looked_at = any(condition.type == "PodScheduled" for condition in pod.status.conditions)
    return not looked_at and not events.about(POD, pod)


#: Criteria that are not checked for a volume named in spec.volumeName; "" is no criterion.
_USERS_CHOICE: Final = frozenset({"", Criterion.PHASE.name, Criterion.SELECTOR.name, Criterion.AFFINITY.name})

#: What can be done about a claim that asks for more than its volume has.
RESIZE: Final = "whether the driver has an external-resizer; without one, copy the data to a larger claim"


class ClaimReporter:
    """The claims of a cluster, one by one."""

    def __init__(self, objects: ClusterObjects, events: Events) -> None:
        self._objects = objects
        self._events = events
        self._classes: Mapping[str, StorageClass] = {each.name: each for each in objects.of(STORAGE_CLASS)}
        self._pods = users_of(objects.of(POD))
        self._topology = TopologyIndex.of(objects.of(NODE))
        self._lost_since = lost_nodes(objects)
        self._lost = EMPTY
        for node in self._lost_since:
            self._lost |= self._topology.named(node)
        self._held: dict[str, Volume] = {}
        for volume in objects.of(VOLUME):
            reference = volume.spec.claim_ref
            if reference is not None and volume_candidates.is_held(volume):
                self._held[reference.name.removeprefix(HOLD_PREFIX).removeprefix(ROLLBACK_PREFIX)] = volume

    def of(self, claim: Claim) -> ClaimReport:
        if claim.deleting:
            return self._deleting(claim)
        if is_rolling_back(claim):
            name = claim.spec.volume_name
            verdict = f"is being rolled back: unused volume {name} is released so that its pod can run elsewhere."
            return report_of(claim, "RollingBack", verdict, volume=name)
        if claim.fully_bound or claim.status.phase == "Lost":
            return self._bound(claim)
        if claim.spec.volume_name:
            return self._named(claim)
        return self._open(claim)

    def pods(self, claim: Claim) -> Sequence[Pod]:
        """The pods that use a claim and have not finished."""
        return self._pods.get(claim.key, ())

    def _deleting(self, claim: Claim) -> ClaimReport:
        users = [pod.key for pod in self.pods(claim)]
        waits = f" and stays until {', '.join(users)} no longer uses it" if users else ""
        since = claim.metadata.deletion_timestamp or ""
        checks = (data_loss.delete_pods(users),) if users else ()
        verdict = f"is being deleted since {since}{waits}."
        return report_of(claim, "Deleting", verdict, *checks, stuck=bool(users), since=since)

    def _bound(self, claim: Claim) -> ClaimReport:
        name = claim.spec.volume_name
        volume = self._objects.get(VOLUME, name)
        if volume is None:
            gone = f"its volume {name} does not exist" if name else "spec.volumeName is empty"
            lost = "Lost" if claim.status.phase == "Lost" else "VolumeMissing"
            return report_of(claim, lost, f"is lost: {gone}.", stuck=True, volume=name)
        if (reference := volume.spec.claim_ref) is not None and not is_reserved_for(volume, claim):
            verdict = f"names volume {name}, whose claimRef is {reference.namespace}/{reference.name}."
            return report_of(claim, "Misbound", verdict, stuck=True, volume=name)
        nodes, reached_from = len(self._topology), self._topology.matching(affinity_of(volume))
        reaching = (reached_from & ~self._lost).bit_count()
        if nodes and not reaching:
            return self._unreachable(claim, volume, tuple(sorted(self._topology.names(reached_from))))
        some = f"{reaching} of {nodes} nodes" if nodes else "nodes that are not listed"
        asked, has = volume_candidates.quantity_text(claim.request), volume_candidates.quantity_text(volume.size)
        verdict = f"is bound to {name} ({has}), usable from {some}."
        if not outgrows(claim, volume):
            return report_of(claim, "Bound", verdict, volume=name)
        note = f"{claim.key} requests {asked}, and {name} has {has}: Mooring does not resize volumes"
        return report_of(claim, "Bound", verdict, RESIZE, volume=name, notes=(note,))

    def _unreachable(self, claim: Claim, volume: Volume, lost: tuple[str, ...]) -> ClaimReport:
        name, place = volume.name, topology_text(affinity_of(volume))
        why = f"no node can reach: it requires {place}, and no node matches"
        if lost:
            nodes = ", ".join(f"{node} (not ready {since_text(self._lost_since[node])})" for node in lost)
            why = f"no ready node can reach: only {nodes}"
        again = f"create PersistentVolume {name} again, with a node affinity that a node can have"
        checks = (again,) if place == NO_TOPOLOGY else ()
        verdict = f"is bound to {name}, which {why}."
        return report_of(claim, "Unreachable", verdict, *checks, stuck=True, volume=name, lost_nodes=lost)

    def _named(self, claim: Claim) -> ClaimReport:
        name = claim.spec.volume_name
        volume = self._objects.get(VOLUME, name)
        if volume is None:
            check = f"create PersistentVolume {name}, or create the claim again without volumeName"
            verdict = f"asks for volume {name}, which does not exist."
            return report_of(claim, "NamedVolumeMissing", verdict, check, stuck=True, volume=name)
        needs = volume_candidates.needs_of(claim)
        if isinstance(needs, str):
            return _senseless(claim, needs)
        judged = volume_candidates.candidate_for(needs, volume)
        if judged.criterion in _USERS_CHOICE:
            return report_of(claim, "Binding", f"will be bound to {name}.", volume=name)
        check = "create the claim or the volume again so that they match, or name another volume"
        verdict = f"asks for volume {name}, which {judged.reason}: {judged.detail}."
        return report_of(claim, "NamedVolumeMismatch", verdict, check, stuck=True, volume=name)

    def _open(self, claim: Claim) -> ClaimReport:
        if (held := self._held.get(claim.uid)) is not None:
            return self._with_rollbacks(claim, self._of_held(claim, held))
        delayed = is_delayed(claim.storage_class, self._classes.get)
        if isinstance(delayed, str):
            check = f"create StorageClass {claim.storage_class} again with volumeBindingMode set"
            return report_of(claim, "BindingModeMissing", f"waits: {delayed}.", check, stuck=True)
        if delayed and claim.selected_node is None:
            return self._with_rollbacks(claim, awaiting(claim, self.pods(claim), self._events))
        needs = volume_candidates.needs_of(claim)
        if isinstance(needs, str):
            return _senseless(claim, needs)
        storage_class = self._classes.get(claim.storage_class)
        maker = "" if storage_class is None else serving_provisioner(storage_class.provisioner)
        if not (delayed and maker):
            # an existing volume would be bound at once, or is the only hope.
            found = volume_candidates.candidates_anywhere(needs, self._objects.of(VOLUME))
            if not delayed and any(not each.criterion for each in found.candidates):
                name = found.candidates[0].volume
                return report_of(claim, "Binding", f"will be bound to {name}.", volume=name)
            if storage_class is None:
                return self._without_class(claim, found)
            if not maker:
                why = f"class {storage_class.name} does not provision ({storage_class.provisioner})"
                return _no_volume(claim, found, why)
        return self._with_rollbacks(claim, progress(claim, maker, self._objects, self._events))

    def _of_held(self, claim: Claim, volume: Volume) -> ClaimReport:
        notes = volume.metadata.annotations
        node, since = notes.get(marks.NODE, ""), notes.get(marks.SINCE, "")
        state = f"is provisioned and held on {node} since {since}, until all volumes of its pod are available"
        is_leaving = volume_candidates.observed_hold_state(volume) is HoldState.ROLLING_BACK
        if is_leaving:
            state = f"on {node} is being rolled back: {notes.get(marks.REASON, 'no reason given')}"
        verdict = f"{claim.key}: volume {volume.name} {state}."
        code = "RollingBack" if is_leaving else "Held"
        return ClaimReport(claim.key, code, verdict, since=since, node=node, volume=volume.name)

    def _with_rollbacks(self, claim: Claim, report: ClaimReport) -> ClaimReport:
        events = self._events.about(CLAIM, claim, policy.ROLLED_BACK)
        notes = tuple(f"rolled back at {moment(event)}: {event.message}" for event in events)
        return replace(report, notes=(*report.notes, *notes))

    def _without_class(self, claim: Claim, found: volume_candidates.CandidateSummary) -> ClaimReport:
        name = claim.storage_class
        if name:
            known = ", ".join(sorted(self._classes)) or "none"
            checks = () if self._classes else (f"create StorageClass {name}",)
            verdict = f"names class {name}, which does not exist, and no existing volume matches."
            notes = (f"existing classes: {known}",)
            return report_of(claim, "ClassMissing", verdict, *checks, stuck=True, notes=notes, **found._asdict())
        default = default_class(self._classes.values())
        if default and not claim.has_class:
            return report_of(claim, "Binding", f"will get the default class {default}.")
        why = "it has no class" if claim.has_class else "it has no class, and there is no default class"
        return _no_volume(claim, found, why)


def _senseless(claim: Claim, problem: str) -> ClaimReport:
    check = "create the claim again with a valid selector and size"
    return report_of(claim, "Senseless", f"is invalid: {problem}.", check, stuck=True)


def _no_volume(claim: Claim, found: volume_candidates.CandidateSummary, why: str) -> ClaimReport:
    count = sum(found.failed.values())
    none = f"none of {count} volumes matches" if count else "there are no volumes"
    return report_of(claim, "NoVolume", f"has no volume: {none}, and {why}.", stuck=True, **found._asdict())


class ClusterView:
    """Listed objects, prepared once: events by object, the states of claims, and snapshots for the scheduler."""

    def __init__(self, objects: ClusterObjects, *, profile: Profile = DEFAULT) -> None:
        self.objects = objects
        self.profile = profile
        self.events = Events(objects)
        self.claim_reports = ClaimReporter(objects, self.events)

    def snapshot_for(self, pod: Pod) -> tuple[Snapshot, tuple[str, ...]]:
        """What the scheduler would know when it schedules this pod, and which objects are malformed. A pod that has
        a node is left out, because it would compete with itself; a pod that has finished is in no snapshot."""
        if pod.finished or not pod.spec.node_name:
            return self.as_listed
        snapshot, problems = self.objects.snapshot(without=pod.key)
        return snapshot, tuple(problems)

    @cached_property
    def as_listed(self) -> tuple[Snapshot, tuple[str, ...]]:
        snapshot, problems = self.objects.snapshot()
        return snapshot, tuple(problems)
