"""Clusters as lists of bodies, explained."""

from builders import Body
from mooring.api.kinds import POD
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.pod import explain_pod
from mooring.explain.verdicts import ClaimVerdict, PodVerdict


def listed(*bodies: Body) -> ClusterObjects:
    objects = ClusterObjects()
    for body in bodies:
        objects.add(body)
    return objects


def explained(*bodies: Body, pod: str = "default/pod-1") -> PodVerdict:
    objects = listed(*bodies)
    wanted = objects.get(POD, pod)
    assert wanted is not None
    return explain_pod(wanted, objects).verdict


def reasons(verdict: PodVerdict, node: str) -> list[tuple[str, str]]:
    return [(one.plugin, one.reason) for one in verdict.nodes[node].reasons]


def claim_on(verdict: PodVerdict, node: str, claim: str) -> ClaimVerdict:
    [found] = [one for one in verdict.nodes[node].volumes if one.claim == f"default/{claim}"]
    return found
