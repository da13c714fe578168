"""Explanations of clusters that are given as lists of bodies."""

from collections.abc import Mapping

from mooring.api.kinds import CLAIM, POD, Kind
from mooring.api.views.meta import ApiObject
from mooring.explain.cluster_objects import ALL_LISTED, ClusterObjects
from mooring.explain.cluster_view import ClusterView
from mooring.explain.pod import explain_claim, explain_pod
from mooring.explain.results import ClaimReport, ClaimVerdict, PodVerdict
from mooring.explain.text import claim_lines, closing_lines, pod_paragraphs
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.registry import DEFAULT
from support.builders import Body


def listed(
    *bodies: Body, now: float | None = None, unlisted: Mapping[Kind[ApiObject], str] = ALL_LISTED
) -> ClusterObjects:
    objects = ClusterObjects(now=now, unlisted=unlisted)
    for body in bodies:
        objects.add(body)
    return objects


def explained(*bodies: Body, pod: str = "default/pod-1") -> PodVerdict:
    objects = listed(*bodies)
    explained_pod = objects.get(POD, pod)
    assert explained_pod is not None
    return explain_pod(explained_pod, objects)[0]


def claim_report(*bodies: Body, claim: str = "default/data", now: float | None = None) -> ClaimReport:
    return rendered_claim(listed(*bodies, now=now), claim)[0]


def rendered_pod(objects: ClusterObjects, pod: str = "default/pod-1", *, profile: Profile = DEFAULT) -> str:
    """The complete output about a pod."""
    explained_pod = objects.get(POD, pod)
    assert explained_pod is not None
    verdict = explain_pod(explained_pod, objects, profile=profile)[0]
    return "\n".join([verdict.verdict, *pod_paragraphs(verdict)])


def rendered_claim(objects: ClusterObjects, key: str) -> tuple[ClaimReport, str]:
    """The report about a claim, and its complete output."""
    claim = objects.get(CLAIM, key)
    assert claim is not None
    found = explain_claim(ClusterView(objects), claim)
    return found, "\n".join(
        [*claim_lines(found), *closing_lines((), found.remedy_texts, found.not_enough, found.checks)]
    )


def event_body(about: Body, reason: str, message: str, *, at: str, component: str = "") -> Body:
    meta = about["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{meta['name']}.{reason.lower()}", "namespace": meta.get("namespace", "default")},
        "involvedObject": {"kind": about["kind"], "namespace": meta.get("namespace", ""), "name": meta["name"]},
        "reason": reason,
        "message": message,
        "source": {"component": component},
        "firstTimestamp": at,
        "lastTimestamp": at,
    }


def reasons(verdict: PodVerdict, node: str) -> list[tuple[str, str]]:
    return [(one.plugin, one.reason) for one in verdict.nodes[node].reasons]


def claim_on(verdict: PodVerdict, node: str, claim: str) -> ClaimVerdict:
    [found] = [one for one in verdict.nodes[node].volumes if one.claim == f"default/{claim}"]
    return found
