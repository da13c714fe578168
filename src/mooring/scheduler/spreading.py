"""A pod's topology spread constraints, compiled: whom it counts, per what, and which nodes are counted in.

From the read view to values; what they mean for a node is decided in `plugins.pod_topology_spread`.
"""

from typing import Final, NamedTuple

from mooring.api import keys, label_selector
from mooring.api.label_selector import SelectorError
from mooring.api.tolerations import tolerated
from mooring.api.views.pod import Pod
from mooring.scheduler.affinity import PodSelector, selector_of, with_own_labels
from mooring.scheduler.required_nodes import required_of
from mooring.scheduler.snapshot import Snapshot
from mooring.volumes.nodeset import NodeSet

DO_NOT_SCHEDULE: Final = "DoNotSchedule"
SCHEDULE_ANYWAY: Final = "ScheduleAnyway"

#: Topology keys and skews that default constraints have.
_DEFAULTS: Final = ((keys.HOSTNAME, 3), (keys.ZONE, 5))
_HONOR: Final = "Honor"
_FORBIDDING: Final = frozenset({"NoSchedule", "NoExecute"})


class Constraint(NamedTuple):
    topology_key: str
    max_skew: int
    pods: PodSelector
    #: With fewer domains than this, an empty one is taken to exist.
    min_domains: int
    honours_affinity: bool
    honours_taints: bool

    @property
    def counts_nobody(self) -> bool:
        """A selector for everything counts no pod at all; upstream's habit."""
        return self.pods.labels == label_selector.EVERYTHING

    def matches(self, pod: Pod) -> bool:
        return self.pods.labels.matches(pod.metadata.labels)


def constraints_of(pod: Pod, action: str) -> tuple[Constraint, ...]:
    """The pod's constraints of one kind. Raises SelectorError for a selector that cannot be understood."""
    return tuple(
        Constraint(
            wish.topology_key,
            wish.max_skew,
            PodSelector(
                with_own_labels(selector_of(wish.label_selector), pod, wish.match_label_keys),
                frozenset({pod.namespace}),
                leaving=False,
            ),
            1 if wish.min_domains is None else wish.min_domains,
            (wish.node_affinity_policy or _HONOR) == _HONOR,
            wish.node_taints_policy == _HONOR,
        )
        for wish in pod.spec.topology_spread_constraints
        if wish.when_unsatisfiable == action
    )


def default_constraints(pod: Pod, snapshot: Snapshot) -> tuple[Constraint, ...]:
    """How pods that belong together are spread where they say nothing themselves; kube-scheduler's system defaults."""
    selector = snapshot.siblings.of(pod)
    if selector is None:
        return ()
    pods = PodSelector(selector, frozenset({pod.namespace}), leaving=False)
    return tuple(Constraint(key, skew, pods, 1, honours_affinity=True, honours_taints=False) for key, skew in _DEFAULTS)


def counted_nodes(constraint: Constraint, pod: Pod, snapshot: Snapshot) -> NodeSet:
    """The nodes whose pods count: where the pod could go at all, as far as the constraint wants that looked at."""
    nodes = snapshot.nodes
    if constraint.honours_affinity:
        try:
            nodes &= required_of(pod).matching(snapshot.topology)
        except SelectorError:
            # Told by NodeAffinity; here, as upstream does it, such a selector matches no node.
            return 0
    if constraint.honours_taints:
        for taint, tainted in snapshot.taints.items():
            if taint.effect in _FORBIDDING and not tolerated(pod.spec.tolerations, taint):
                nodes &= ~tainted
    return nodes
