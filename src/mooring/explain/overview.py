"""Everything that waits in a cluster, one line each: pods without a node, or on one that is lost, and claims without a
volume that can be used."""

from collections.abc import Iterator

from mooring.api.kinds import CLAIM, POD
from mooring.api.views.pod import Pod
from mooring.explain.lost_nodes import lost_nodes
from mooring.explain.pod import in_brief
from mooring.explain.sentences import on_lost_node
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
    lost = lost_nodes(objects)
    for pod in sorted(objects.of(POD), key=lambda one: one.key):
        if _waits(pod) and namespace in ("", pod.namespace):
            yield Line(f"pod/{pod.name}", pod.namespace, *in_brief(situation, pod))
        elif pod.spec.node_name in lost and namespace in ("", pod.namespace) and not (pod.finished or _is_daemon(pod)):
            yield Line(f"pod/{pod.name}", pod.namespace, on_lost_node(pod, lost[pod.spec.node_name]), ok=False)
    for claim in sorted(objects.of(CLAIM), key=lambda one: one.key):
        if namespace in ("", claim.namespace):
            standing = situation.standings.of(claim)
            if standing.state != "Bound":
                yield Line(f"pvc/{claim.name}", claim.namespace, standing.verdict, not standing.stuck)


def _is_daemon(pod: Pod) -> bool:
    """Whether a pod belongs to its node: it stays there, and comes back with it."""
    return pod.controller is not None and pod.controller.kind == "DaemonSet"


def _waits(pod: Pod) -> bool:
    rejected = pod.status.phase == "Failed" and bool(pod.spec.node_name) and not pod.status.container_statuses
    return rejected or not (pod.spec.node_name or pod.finished)
