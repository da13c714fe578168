"""Checks of claims, volumes and nodes: lost, stuck and unused ones, and attach limits. Pure."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from mooring.api.kinds import CLAIM, NODE, POD, VOLUME
from mooring.api.times import from_time, human_duration, time_or_none
from mooring.api.views.storage import Claim
from mooring.doctor.findings import MAX_LISTED, Finding, Severity
from mooring.explain.cluster_objects import lost_nodes, since_text
from mooring.explain.cluster_view import ClusterView, users_of
from mooring.explain.node_details import volume_limits
from mooring.explain.orphans import OrphanedClaim, orphans
from mooring.explain.remedies import data_loss
from mooring.explain.text import counted_noun, listed_names
from mooring.explain.volume_candidates import quantity_text

#: Claims without a pod for longer than this are reported.
UNUSED_SECONDS: Final = 7 * 24 * 3600.0
#: Share of an attach limit above which it is nearly reached.
NEARLY: Final = 0.9
#: Condition of claims that no pod uses; Kubernetes 1.36 and later.
UNUSED: Final = "Unused"
#: Fix of a finding for which no remedy is known.
_EXPLAIN: Final = "mooring explain pvc/{} -n {}"


def unreachable_findings(view: ClusterView) -> Iterator[Finding]:
    """Volumes that no ready node can reach, and claims whose volume or selected node was deleted."""
    found = orphans(view.objects)
    for each in found.volumes:
        pods = _pods(each.claim)
        used = each.claim is not None
        evidence = [f"requires {each.where}"]
        evidence += [f"lost nodes: {', '.join(each.lost_nodes)}"] if each.lost_nodes else []
        evidence += [f"deleted nodes: {', '.join(each.missing_nodes)}"] if each.missing_nodes else []
        evidence += [f"pods: {listed_names(pods, MAX_LISTED)}"] if pods else []
        claim = f" of claim {each.claim.claim}" if each.claim is not None else ""
        yield Finding(
            severity=Severity.ERROR if used else Severity.WARNING,
            code="VolumeUnreachable",
            object=f"PersistentVolume {each.volume}",
            problem=f"no ready node can reach the volume{claim} ({each.size}, {each.phase}).",
            evidence=tuple(evidence),
            fix=each.remedy_texts[0] if each.remedy_texts else "mooring orphans",
            affected=max(len(pods), 1),
        )
    for one in found.claims:
        pods = _pods(one)
        yield Finding(
            severity=Severity.ERROR,
            code="ClaimLost",
            object=f"PersistentVolumeClaim {one.claim}",
            problem=f"{one.reason}.",
            evidence=(f"phase {one.phase}", *((f"pods: {listed_names(pods, MAX_LISTED)}",) if pods else ())),
            fix=one.remedy_texts[0],
            affected=max(len(pods), 1),
        )


def _pods(claim: OrphanedClaim | None) -> list[str]:
    return [] if claim is None else [each.pod for each in claim.pods]


def lost_node_findings(view: ClusterView) -> Iterator[Finding]:
    objects = view.objects
    on_node = Counter(pod.spec.node_name for pod in objects.of(POD) if not pod.finished)
    for name, since in sorted(lost_nodes(objects).items()):
        yield Finding(
            severity=Severity.ERROR,
            code="NodeLost",
            object=f"Node {name}",
            problem=f"not ready {since_text(since)}; {counted_noun(on_node[name], 'pod')} on it, and its local "
            "volumes cannot "
            "be used.",
            fix=f"bring {name} back. If it will not return, what follows {data_loss.give_up_node(name)}",
            affected=max(on_node[name], 1),
        )


def stuck_findings(view: ClusterView) -> Iterator[Finding]:
    """Claims that will not be bound without a change; those of lost volumes are reported as such."""
    for claim in sorted(view.objects.of(CLAIM), key=lambda one: one.key):
        if claim.fully_bound or claim.spec.volume_name or claim.deleting:
            continue
        report = view.claim_reports.of(claim)
        # `orphans` reports a deleted selected node.
        if report.stuck and report.state != "SelectedNodeGone":
            yield Finding(
                severity=Severity.ERROR,
                code="ClaimStuck",
                object=f"PersistentVolumeClaim {claim.key}",
                problem=report.verdict,
                evidence=report.notes[:MAX_LISTED],
                fix=report.checks[0] if report.checks else _EXPLAIN.format(claim.name, claim.namespace),
                affected=max(len(view.claim_reports.pods(claim)), 1),
            )


def unused_findings(view: ClusterView) -> Iterator[Finding]:
    """Bound claims that no pod has used for long. Without the time of listing nothing can be said."""
    now = view.objects.moment
    if now is None:
        return
    users = users_of(view.objects.of(POD))
    found: list[tuple[float, Claim]] = []
    for claim in view.objects.of(CLAIM):
        since = _unused_since(view, claim)
        if claim.fully_bound and not claim.deleting and not users.get(claim.key) and since is not None:
            found.append((now - since, claim))
    late = sorted(((unused, claim.key, claim) for unused, claim in found if unused > UNUSED_SECONDS), reverse=True)
    if late:
        yield Finding(
            severity=Severity.INFO,
            code="ClaimUnused",
            object=f"PersistentVolumeClaim {late[0][1]}" + (f" and {len(late) - 1} more" if len(late) > 1 else ""),
            problem=f"{counted_noun(len(late), 'bound claim')} without a pod for more than "
            f"{human_duration(UNUSED_SECONDS)}: the storage stays reserved.",
            evidence=tuple(
                f"{key}: {quantity_text(claim.request)}, unused for {human_duration(unused)}"
                for unused, key, claim in late[:MAX_LISTED]
            ),
            fix=f"keep them if a removed replica may return: a StatefulSet keeps its claims unless its "
            f"persistentVolumeClaimRetentionPolicy says Delete. Otherwise what follows {data_loss.UNUSED_CLAIMS}",
            affected=len(late),
        )


def _unused_since(view: ClusterView, claim: Claim) -> float | None:
    """By the claim's condition, else the later of the claim's creation and the binding of its volume."""
    said = next((one for one in claim.status.conditions if one.type == UNUSED and one.status == "True"), None)
    if said is not None and said.last_transition_time:
        return from_time(said.last_transition_time)
    volume = view.objects.get(VOLUME, claim.spec.volume_name)
    bound = time_or_none(volume.status.last_phase_transition_time) if volume is not None else None
    times = [one for one in (time_or_none(claim.metadata.creation_timestamp), bound) if one is not None]
    return max(times, default=None)


def limit_findings(view: ClusterView) -> Iterator[Finding]:
    """Nodes that take no or few more volumes of a driver."""
    snapshot, _ = view.as_listed
    for node in sorted(view.objects.of(NODE), key=lambda one: one.name):
        for driver, limit, left in volume_limits(snapshot, view.objects, node.name):
            used = limit - left
            if used < limit * NEARLY or not used:
                continue
            full = left <= 0
            yield Finding(
                severity=Severity.WARNING if full else Severity.INFO,
                code="AttachLimitReached" if full else "AttachLimitNear",
                object=f"Node {node.name}",
                problem=f"{used} of {limit} volumes of {driver} are attached or needed: "
                + ("no pod with a further one can run there." if full else f"{left} more fit."),
                fix="add nodes, or move pods with volumes to nodes with fewer; a larger instance type may have a "
                "higher limit",
                affected=used,
            )
