"""Clusters as lists of bodies, explained."""

from builders import Body
from mooring.api.kinds import CLAIM, POD
from mooring.explain.claim import explain_claim
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.pod import explain_pod
from mooring.explain.situation import Situation
from mooring.explain.verdicts import ClaimStanding, ClaimVerdict, PodVerdict
from mooring.explain.words import closing, paragraphs, standing
from mooring.scheduler.profile import Profile
from mooring.scheduler.registry import DEFAULT


def listed(*bodies: Body, now: float | None = None) -> ClusterObjects:
    objects = ClusterObjects(now=now)
    for body in bodies:
        objects.add(body)
    return objects


def explained(*bodies: Body, pod: str = "default/pod-1") -> PodVerdict:
    objects = listed(*bodies)
    wanted = objects.get(POD, pod)
    assert wanted is not None
    return explain_pod(wanted, objects).verdict


def standing_of(*bodies: Body, claim: str = "default/data", now: float | None = None) -> ClaimStanding:
    return rendered_claim(listed(*bodies, now=now), claim)[0]


def rendered_pod(objects: ClusterObjects, pod: str = "default/pod-1", *, profile: Profile = DEFAULT) -> str:
    """All that people are told about a pod."""
    wanted = objects.get(POD, pod)
    assert wanted is not None
    verdict = explain_pod(wanted, objects, profile=profile).verdict
    return "\n".join([verdict.verdict, *paragraphs(verdict)])


def rendered_claim(objects: ClusterObjects, key: str) -> tuple[ClaimStanding, str]:
    """How a claim stands, and all that people are told about it."""
    claim = objects.get(CLAIM, key)
    assert claim is not None
    found = explain_claim(Situation(objects), claim)
    return found, "\n".join([*standing(found), *closing((), found.helps, found.not_enough, found.checks)])


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
