"""Snapshots built from objects, and a plugin's results for them, by node name."""

from mooring.api.views.core import Namespace, Node
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, CsiDriver, CsiNode, StorageCapacity, StorageClass, Volume, VolumeAttachment
from mooring.scheduler.cluster_events import ClusterEvent
from mooring.scheduler.framework.interface import CycleState, Filter, Plugin, PreFilter, Score
from mooring.scheduler.snapshot.snapshot import Snapshot


def a_snapshot(*objects: ApiObject) -> Snapshot:
    snapshot = Snapshot()
    for item in objects:
        match item:
            case Node():
                snapshot.observe_node(None, item)
            case Pod():
                snapshot.observe_pod(None, item)
            case Namespace():
                snapshot.observe_namespace(None, item)
            case Volume():
                snapshot.volumes.observe_volume(None, item)
            case Claim():
                snapshot.volumes.observe_claim(None, item)
            case StorageClass():
                snapshot.volumes.observe_class(None, item)
            case CsiNode():
                snapshot.volumes.observe_csi_node(None, item)
            case CsiDriver():
                snapshot.volumes.observe_driver(None, item)
            case StorageCapacity():
                snapshot.volumes.observe_capacity(None, item)
            case VolumeAttachment():
                snapshot.volumes.observe_attachment(None, item)
            case _:
                raise TypeError(f"a snapshot knows nothing of {item}")
    return snapshot


def refused(plugin: PreFilter, pod: Pod, snapshot: Snapshot) -> str | None:
    return plugin.prefilter(CycleState(pod, snapshot))


def rejected(plugin: Filter, pod: Pod, snapshot: Snapshot) -> dict[str, set[str]]:
    """Node names by reason. PreFilter runs first, where the plugin has one."""
    cycle = _prepared(plugin, pod, snapshot)
    nodes_by_reason: dict[str, set[str]] = {}
    for rejection in plugin.filter(cycle):
        names = set(snapshot.topology.names(rejection.nodes & snapshot.nodes))
        if names:
            nodes_by_reason.setdefault(rejection.reason, set()).update(names)
    return nodes_by_reason


def unresolvable(plugin: Filter, pod: Pod, snapshot: Snapshot) -> set[str]:
    """The nodes where preemption cannot change the plugin's result."""
    nodes = 0
    for rejection in plugin.filter(_prepared(plugin, pod, snapshot)):
        if not rejection.resolvable:
            nodes |= rejection.nodes
    return set(snapshot.topology.names(nodes & snapshot.nodes))


def scored(plugin: Score, pod: Pod, snapshot: Snapshot) -> dict[str, float] | None:
    """Scores by node name, all nodes being feasible; None if the plugin does not score."""
    scores = plugin.score(_prepared(plugin, pod, snapshot), snapshot.nodes)
    if scores is None:
        return None
    return {name: float(scores[snapshot.topology.slot(name)]) for name in snapshot.topology.names(snapshot.nodes)}


def requeues(plugin: Plugin, pod: Pod, change: ClusterEvent | None, *objects: ApiObject) -> bool:
    """Whether the event requeues a pod that the plugin rejected. `objects` are the relevant objects at the time of the
    rejection.
    """
    interests = CycleState(pod, a_snapshot(*objects)).interests
    return change is not None and any(hint.requeues(pod, interests, change) for hint in plugin.events_to_register)


def _prepared(plugin: Filter | Score, pod: Pod, snapshot: Snapshot) -> CycleState:
    cycle = CycleState(pod, snapshot)
    if isinstance(plugin, PreFilter):
        assert plugin.prefilter(cycle) is None
    return cycle
