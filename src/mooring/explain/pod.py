"""Explains a pod (the scheduler's cycle on a snapshot, all plugins on all nodes), a claim, and everything that is
pending.

A pod that has a node is decided as if it were unscheduled, without itself in the snapshot; its verdict then depends
on whether its volumes can be used on its node. Remedies of a claim are those of its pod; without a pod, a remedy must
make the claim report no longer stuck.
"""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from mooring.api import well_known
from mooring.api.kinds import CLAIM, NODE, POD
from mooring.api.views.core import Event
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim
from mooring.explain.cluster_objects import ClusterObjects, component_of, lost_nodes, moment, since_text
from mooring.explain.cluster_view import ClaimReporter, ClusterView, has_no_scheduler
from mooring.explain.group import explain_group, waiting_groups
from mooring.explain.inspection import PodInspection
from mooring.explain.messages import find
from mooring.explain.messages.pod_groups import POD_GROUPS
from mooring.explain.messages.scheduling import KUBELET
from mooring.explain.messages.volumes import BINDING
from mooring.explain.provisioning import stale_capacity_notes
from mooring.explain.remedies import claims, new_node
from mooring.explain.remedies.advice import advice
from mooring.explain.remedies.search import Advice, only_steps
from mooring.explain.remedies.verification import applied
from mooring.explain.results import ClaimReport, ExplainStruct, PodVerdict, Reason, Remedy
from mooring.explain.text import counted_noun
from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.preemption.evaluator import is_preempted
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.zone_coverage import zone_coverage
from mooring.volumes.holds import policy

#: What a scheduler says of a pod it could not place, and Mooring's in figures.
_SCHEDULING_REASONS: Final = ("FailedScheduling", "NotEnoughStorage")
#: What is said of a pod that has its node and does not get its volumes there.
_NOT_MOUNTED: Final = ("FailedMount", "FailedAttachVolume")

#: Messages about what is over and shows in no object: what they mean is told with them.
_PAST_MESSAGES: Final = (*BINDING, *KUBELET, *POD_GROUPS)


def notes(found: PodInspection) -> Iterator[str]:
    pod, events = found.pod, found.view.events
    if not pod.finished and not pod.ready:
        said = events.last(POD, pod, *(_NOT_MOUNTED if pod.spec.node_name else _SCHEDULING_REASONS))
        if said is not None:
            yield from _event_lines(said)
    if (node := pod.status.nominated_node_name) and not pod.spec.node_name:
        # Schedulers say so while they bind a pod's volumes as well as while they evict others.
        placed = (one for one in found.view.objects.of(POD) if one.spec.node_name == node)
        victims = sorted(one.key for one in placed if is_preempted(one))
        are = "is" if len(victims) == 1 else "are"
        yield f"{', '.join(victims)} {are} being evicted for it on {node}" if victims else f"nominated to node {node}"
    for event in events.about(POD, pod, policy.ROLLED_BACK):
        yield f"rolled back at {moment(event)}: {event.message}"
    if not pod.finished:
        covered = zone_coverage(pod, found.scene.claims, found.scene.snapshot)
        # A volume in one zone, which the pod can use, is the rule.
        yield from (str(one) for one in covered if one.uncovered or len(one.volume_zones) > 1)
    yield from _pinned(found)
    yield from _doubts(found)


def _event_lines(event: Event) -> Iterator[str]:
    yield f"{component_of(event) or 'a component'} reported at {moment(event)}: {event.message}"
    for message in find(event.message):
        if message in _PAST_MESSAGES:
            yield f"  meaning: {message.meaning} What to do: {message.action}"


def _pinned(found: PodInspection) -> Iterator[str]:
    """Of a pod that has some volumes and gets no others: what is not going to be undone."""
    bound = [one.claim for one in found.claim_reports if one.state == "Bound"]
    if bound and len(bound) < len(found.claim_reports) and not any(node.fits for node in found.nodes.values()):
        yield (
            f"{', '.join(bound)}: bound, and not rolled back; only held volumes that were never committed to a "
            "claim are rolled back"
        )


def _doubts(found: PodInspection) -> Iterator[str]:
    """For classes with too little reported capacity: whether the reports may be stale."""
    classes = {claim.storage_class for node in found.nodes.values() for claim in node.volumes if claim.capacity_reports}
    provisioners = found.scene.snapshot.volumes.provisioners
    return stale_capacity_notes(sorted(provisioners.provisioner(name) for name in classes), found.view.objects)


VOLUME_PLUGINS: Final = frozenset({"VolumeBinding", "VolumeRestrictions", "VolumeZone"})
"""What must still hold where a pod already is. A limit on how many volumes a node takes is for new pods."""

#: How a claim stands that waits for nothing but the pod's node.
_FOR_THE_POD: Final = frozenset({"Bound", "ConsumerUnscheduled", "ConsumerGated", "OtherScheduler", "ConsumerPlaced"})


def sentence(found: PodInspection) -> tuple[str, bool]:
    pod = found.pod
    if pod.finished and pod.status.phase == "Failed" and pod.status.reason:
        by = f" by {pod.spec.node_name}" if pod.spec.node_name else ""
        message = pod.status.message.rstrip(".")
        return f"{pod.key} was rejected{by}: {pod.status.reason}{f': {message}' if message else ''}.", False
    if pod.spec.node_name and pod.finished:
        return f"{pod.key} was on {pod.spec.node_name} and has finished.", True
    if pod.spec.node_name:
        lost = lost_nodes(found.view.objects)
        if pod.spec.node_name in lost:
            return on_lost_node(pod, lost[pod.spec.node_name]), False
        return _where_it_is(found)
    if has_no_scheduler(pod, found.view.events):
        who = pod.spec.scheduler_name
        return f'{pod.key} has schedulerName "{who}", and nothing shows that this scheduler runs.', False
    under_way = [one for one in found.claim_reports if waits_for_others(one)]
    stuck = next((one for one in under_way if one.stuck), None)
    if stuck is not None and found.tried:
        return f"{pod.key} waits for its volumes: {stuck.verdict}", False
    if under_way and found.fitting:
        return f"{pod.key} waits for its volumes: {under_way[0].verdict}", True
    return _where_it_would_go(found)


def waits_for_others(claim: ClaimReport) -> bool:
    """Whether a claim waits for another component than its pod's scheduler."""
    return claim.state not in _FOR_THE_POD


def on_lost_node(pod: Pod, since: str) -> str:
    """Of a pod whose node does not report."""
    deleted = pod.metadata.deletion_timestamp
    going = f"; it is terminating since {deleted}, and its kubelet has not confirmed the end" if deleted else ""
    return f"{pod.key} is on {pod.spec.node_name}, which is lost: not ready {since_text(since)}{going}."


def _where_it_would_go(found: PodInspection) -> tuple[str, bool]:
    pod, nodes = found.pod, found.scene.decision.evaluated_nodes
    if found.fitting:
        return f"{pod.key} would fit on {found.fitting} of {counted_noun(nodes, 'node')}.", True
    if not found.tried:
        return f"{pod.key} is not scheduled: {found.refusals[0].reason}.", False
    if not nodes and NODE in found.view.objects.unlisted:
        return f"It is unknown where {pod.key} fits: nodes cannot be listed.", False
    why = cycle.fit_error(found.scene.decision).rstrip(".")
    return f"{pod.key} would not fit: {why}.", False


def _where_it_is(found: PodInspection) -> tuple[str, bool]:
    pod, name = found.pod, found.pod.spec.node_name
    here = found.nodes.get(name)
    if here is None:
        return f"{pod.key} is on {name}, which is not among the listed nodes: its volumes cannot be checked.", False
    against = next((one for one in (*found.refusals, *here.reasons) if one.plugin in VOLUME_PLUGINS), None)
    if against is not None:
        return f"{pod.key} is on {name}, but its volumes cannot be used there: {against.reason}.", False
    unbound = next((one.claim for one in here.volumes if one.state != "bound"), None)
    if unbound is not None:
        refused = found.view.events.last(POD, pod, well_known.PRESET_NODE_FAILED)
        bypassed = "a pod created with nodeName bypasses the scheduler, so no volume is selected"
        why = bypassed if refused is None else refused.message
        return f"{pod.key} is on {name}, but its claim {unbound} is not bound: {why}.", False
    return f"{pod.key} is on {name}, and its volumes can be used there.", True


def explain_pod(pod: Pod, objects: ClusterObjects, *, profile: Profile = DEFAULT) -> tuple[PodVerdict, tuple[str, ...]]:
    """Where the pod would go among these objects, or why nowhere; and what in the objects could not be understood and
    was counted as the scheduler counts it."""
    found = PodInspection(ClusterView(objects, profile=profile), pod)
    return _verdict(found), found.problems


def explain_in(view: ClusterView, pod: Pod) -> PodVerdict:
    """The same for one of many."""
    return _verdict(PodInspection(view, pod))


def _verdict(found: PodInspection) -> PodVerdict:
    pod, (said, ok) = found.pod, sentence(found)
    waiting = tuple(one for one in found.claim_reports if waits_for_others(one) or one.notes)
    node, told = pod.spec.node_name or None, tuple(notes(found))
    if pod.group_key and pod.waits and (group := explain_group(found.view, pod.group_key)) is not None:
        told = (*told, f"its group: {group.verdict} (mooring explain podgroup/{pod.group_key.partition('/')[2]})")
        if ok and not group.ok:
            verdict = PodVerdict(pod.key, waits_for_group(pod), found.refusals, found.nodes, node, False, waiting, told)
            return replace(verdict, remedy_texts=group.remedy_texts, checks=group.checks)
    verdict = PodVerdict(pod.key, said, found.refusals, found.nodes, node, ok, waiting, told)
    return verdict if ok else advice(found).added_to(verdict)


def waits_for_group(pod: Pod) -> str:
    return f"{pod.key} would fit by itself, and waits for its group {pod.group_key}."


def against_node(view: ClusterView, pod: Pod, node: str) -> tuple[Reason, ...]:
    """All that is said against one node for a pod."""
    found = PodInspection(view, pod)
    return (*found.refusals, *found.scene.against(node))


#: How many of the pods a claim waits for are explained with it.
MAX_LISTED_PODS: Final = 3
#: How many proposals are tried for a claim that no pod uses.
MAX_PROPOSALS: Final = 8


def explain_claim(view: ClusterView, claim: Claim) -> ClaimReport:
    """How far a claim has come, with the remedies of the first pod that waits for it."""
    report = view.claim_reports.of(claim)
    waiting = [pod for pod in view.claim_reports.pods(claim) if not pod.spec.node_name][:MAX_LISTED_PODS]
    if report.state == "ConsumerUnscheduled" and waiting:
        told = [explain_in(view, pod) for pod in waiting]
        first = told[0]
        report = replace(
            report,
            verdict=f"{report.verdict.removesuffix('.')}: {first.verdict}",
            notes=(*report.notes, *(other.verdict for other in told[1:])),
            stuck=not any(one.ok for one in told),
            checks=(),
        )
    elif report.stuck and waiting:
        first = explain_in(view, waiting[0])
    else:
        found = _tried_alone(view, claim, report) if report.stuck else Advice()
        return found._replace(checks=report.checks).added_to(report)
    checks = tuple(dict.fromkeys((*report.checks, *first.checks)))
    return Advice(first.remedies, first.not_enough, checks).added_to(report)


def _tried_alone(view: ClusterView, claim: Claim, report: ClaimReport) -> Advice:
    objects = view.objects
    proposals = [*new_node.for_place(report, claim, objects), *claims.claim_proposals(report, claim, objects)]
    remedies: list[Remedy] = []
    short: list[str] = []
    for remedy in (one for proposal in proposals[:MAX_PROPOSALS] for one in only_steps(proposal)):
        changed, _ = applied(objects, remedy.changes)
        found = changed.get(CLAIM, claim.key)
        after = None if found is None else ClaimReporter(changed, view.events).of(found)
        if after is not None and not after.stuck:
            remedies.append(remedy)
        elif after is not None and after.state != report.state:
            short.append(f"{remedy.text}; also needs: {after.verdict.removesuffix('.')}")
    return Advice(tuple(remedies), tuple(short))


class Line(ExplainStruct, frozen=True):
    """`ok` says that nothing is wrong with the waiting."""

    #: `pod/NAME` or `pvc/NAME`, as it would be asked about.
    what: str
    namespace: str
    verdict: str
    ok: bool


def overview(view: ClusterView, *, namespace: str = "") -> Iterator[Line]:
    """Groups first, then pods, then claims, each in the order of their names; those of one namespace, or of all."""
    objects = view.objects
    lost = lost_nodes(objects)
    groups = {report.group: report for report in waiting_groups(view, namespace)}
    for key, group in groups.items():
        own_namespace, _, name = key.partition("/")
        yield Line(f"podgroup/{name}", own_namespace, group.verdict, group.ok)
    for pod in sorted(objects.of(POD), key=lambda one: one.key):
        if _waits(pod) and namespace in ("", pod.namespace):
            said, ok = sentence(PodInspection(view, pod))
            if ok and pod.group_key in groups and not groups[pod.group_key].ok:
                said, ok = waits_for_group(pod), False
            yield Line(f"pod/{pod.name}", pod.namespace, said, ok)
        elif pod.spec.node_name in lost and namespace in ("", pod.namespace) and not pod.finished:
            if pod.controller is not None and pod.controller.kind == "DaemonSet":
                # It belongs to its node: it stays there, and comes back with it.
                continue
            yield Line(f"pod/{pod.name}", pod.namespace, on_lost_node(pod, lost[pod.spec.node_name]), ok=False)
    for claim in sorted(objects.of(CLAIM), key=lambda one: one.key):
        if namespace in ("", claim.namespace):
            report = view.claim_reports.of(claim)
            if report.state != "Bound":
                yield Line(f"pvc/{claim.name}", claim.namespace, report.verdict, not report.stuck)


def _waits(pod: Pod) -> bool:
    rejected = pod.status.phase == "Failed" and bool(pod.spec.node_name) and not pod.status.container_statuses
    return rejected or not (pod.spec.node_name or pod.finished)
