"""A pod decided among listed objects: what the scheduler decides, what speaks against each node, how its claims stand.

A pod that has a node is decided as if it were unscheduled, without itself in the snapshot.
"""

import random
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Final, NamedTuple

from msgspec.structs import replace

from mooring.api.kinds import CLAIM
from mooring.api.views.pods import Pod
from mooring.explain.claims import ClaimsExplained
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.cluster_view import ClusterView
from mooring.explain.node_details import RejectionDetails
from mooring.explain.results import ClaimReport, NodeVerdict, Reason
from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.framework.interface import CycleState, Decision, RejectionCode
from mooring.scheduler.kubelet_rejections import pods_of_other_schedulers, rejection_message, rejection_of
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes import topology
from mooring.volumes.binding import NO_CLAIMS, PodClaims
from mooring.volumes.matching import ClaimRequirements

#: Reasons that nothing short of moving data changes; nodes with others are nearer.
FAR: Final = frozenset({RejectionCode.VOLUME_AFFINITY, RejectionCode.VOLUME_MISSING, RejectionCode.VOLUME_ZONE})
FAR_WEIGHT: Final = 10

#: What keeps a pod out of the scheduling queue is not a plugin's here; kube-scheduler's name and text.
GATES: Final = "SchedulingGates"
GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"
QUEUE: Final = "SchedulingQueue"
DELETED: Final = "the pod is being deleted"
FINISHED: Final = "the pod has finished"


class PodDecision(NamedTuple):
    """A pod, looked for a node for among these objects, and what was decided."""

    objects: ClusterObjects
    attempt: CycleState
    decision: Decision

    @property
    def pod(self) -> Pod:
        return self.attempt.pod

    @property
    def snapshot(self) -> Snapshot:
        return self.attempt.snapshot

    @property
    def claims(self) -> PodClaims:
        """None where the claims could not even be looked at."""
        claims = self.attempt.claims
        return NO_CLAIMS if isinstance(claims, str) else claims

    @property
    def open_claims(self) -> tuple[ClaimRequirements, ...]:
        return (*self.claims.unbound, *self.claims.provisioning)

    def fits(self, node: str) -> bool:
        """Whether the pod fits on this node, or on any where none is named."""
        here = self.snapshot.topology.named(node)
        rejections = (rejection for _, found in self.decision.filter_results for rejection in found)
        fits_here = here and not any(rejection.nodes & here for rejection in rejections)
        return bool(self.decision.node and (not node or fits_here))

    def against(self, node: str) -> tuple[Reason, ...]:
        """What every plugin holds against a node, with the figures behind it."""
        details, here = RejectionDetails(self.attempt, self.objects), self.snapshot.topology.named(node)
        found = ((plugin, one) for plugin, rejections in self.decision.filter_results for one in rejections)
        return tuple(details.of(plugin, one, node) for plugin, one in found if one.nodes & here)

    def against_each(self) -> dict[str, tuple[Reason, ...]]:
        """The same for every node, by name."""
        names, details = self.snapshot.topology.names, RejectionDetails(self.attempt, self.objects)
        found: dict[str, list[Reason]] = {name: [] for name in sorted(names(self.snapshot.nodes))}
        for plugin, rejections in self.decision.filter_results:
            for rejection in rejections:
                for name in names(rejection.nodes):
                    found[name].append(details.of(plugin, rejection, name))
        return {name: tuple(reasons) for name, reasons in found.items()}

    def nearest(self) -> str:
        """The node with the least against it; "" where there is none."""
        counts: Counter[int] = Counter()
        for _, rejections in self.decision.filter_results:
            for rejection in rejections:
                far = FAR_WEIGHT if rejection.code in FAR else 1
                for slot in topology.slots_of(rejection.nodes):
                    counts[slot] += far
        slots = topology.slots_of(self.snapshot.nodes)
        return min(((counts[slot], self.snapshot.topology.name(slot)) for slot in slots), default=(0, ""))[1]

    def verdict(self, node: str) -> NodeVerdict:
        reasons = self.against(node)
        volumes = ClaimsExplained(self.snapshot, self.claims, self.objects).on(node)
        return NodeVerdict(not reasons and not self.decision.refusals, reasons, volumes)


def decide(pod: Pod, snapshot: Snapshot, objects: ClusterObjects, profile: Profile) -> PodDecision:
    attempt = CycleState(replace(pod, spec=replace(pod.spec, node_name="")), snapshot)
    # Which of equally good nodes would win does not show.
    return PodDecision(objects, attempt, cycle.run_cycle(attempt, profile, random.Random(0)))


class PodInspection:
    """A pod and its decision; the rest is worked out when it is first needed."""

    def __init__(self, view: ClusterView, pod: Pod) -> None:
        self.view = view
        self.pod = pod
        self._snapshot, self.problems = view.snapshot_for(pod)

    @cached_property
    def scene(self) -> PodDecision:
        return decide(self.pod, self._snapshot, self.view.objects, self.view.profile)

    @cached_property
    def refusals(self) -> tuple[Reason, ...]:
        """Against the pod on every node, what keeps it from being tried first."""
        decided = (Reason(plugin, reason) for plugin, reason in self.scene.decision.refusals)
        return (*self._kept_out(), *decided)

    @cached_property
    def nodes(self) -> dict[str, NodeVerdict]:
        explained = ClaimsExplained(self.scene.snapshot, self.scene.claims, self.view.objects)
        return {
            name: NodeVerdict(not self.refusals and not reasons, reasons, explained.on(name))
            for name, reasons in self.scene.against_each().items()
        }

    @cached_property
    def claim_reports(self) -> tuple[ClaimReport, ...]:
        """Its claims that exist, in the order of its volumes."""
        found = (self.view.objects.get(CLAIM, key) for key in dict.fromkeys(self.pod.claim_keys))
        return tuple(self.view.claim_reports.of(claim) for claim in found if claim is not None)

    @property
    def fitting(self) -> int:
        """How many nodes the pod fits on."""
        left = self.scene.snapshot.nodes
        for _, rejections in self.scene.decision.filter_results:
            for rejection in rejections:
                left &= ~rejection.nodes
        return 0 if self.refusals else left.bit_count()

    @property
    def tried(self) -> bool:
        """Whether a scheduler would look for a node at all."""
        return not self.refusals or bool(self.scene.decision.refusals)

    def _kept_out(self) -> Iterator[Reason]:
        """Why the pod would not even be tried."""
        pod = self.pod
        if pod.finished:
            detail, rejection = "", rejection_of(pod)
            if rejection is not None:
                there = self._snapshot.pods_on(rejection.node)
                detail = rejection_message(rejection, pods_of_other_schedulers(there, {pod.spec.scheduler_name}))
            yield Reason(QUEUE, FINISHED, detail)
        elif pod.deleting:
            yield Reason(QUEUE, DELETED)
        elif pod.spec.scheduling_gates and not pod.spec.node_name:
            yield Reason(GATES, GATED, ", ".join(gate.name for gate in pod.spec.scheduling_gates))
