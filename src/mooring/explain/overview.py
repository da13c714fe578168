"""Everything that waits in a cluster, one line each: pods without a node, claims without a volume."""

from collections.abc import Iterator

from mooring.api.kinds import CLAIM, POD
from mooring.api.views.pod import Pod
from mooring.explain.pod import in_brief
from mooring.explain.situation import Situation
from mooring.explain.verdicts import Part


class Line(Part, frozen=True):
    """`ok` says that nothing is wrong with the waiting."""

    #: `pod/NAME` or `pvc/NAME`, as it would be asked about.
    what: str
    namespace: str
    verdict: str
    ok: bool


def overview(situation: Situation, *, namespace: str = "") -> Iterator[Line]:
    """Pods first, each in the order of their names; those of one namespace, or of all."""
    objects = situation.objects
    for pod in sorted(objects.of(POD), key=lambda one: one.key):
        if _waits(pod) and namespace in ("", pod.namespace):
            yield Line(f"pod/{pod.name}", pod.namespace, *in_brief(situation, pod))
    for claim in sorted(objects.of(CLAIM), key=lambda one: one.key):
        if namespace in ("", claim.namespace):
            standing = situation.standings.of(claim)
            if standing.state != "Bound":
                yield Line(f"pvc/{claim.name}", claim.namespace, standing.verdict, not standing.stuck)


def _waits(pod: Pod) -> bool:
    rejected = pod.status.phase == "Failed" and bool(pod.spec.node_name) and not pod.status.container_statuses
    return rejected or not (pod.spec.node_name or pod.finished)
