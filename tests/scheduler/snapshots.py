"""Snapshots built from objects, and what a plugin says about them, by node name."""

from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.api.views.namespace import Namespace
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.api.views.storage import CsiDriver, CsiNode, StorageCapacity, StorageClass, VolumeAttachment
from mooring.api.views.volume import Volume
from mooring.scheduler.contract import Change, Cycle, Filter, Plugin, PreFilter, Score
from mooring.scheduler.snapshot import Snapshot


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
    return plugin.prefilter(Cycle(pod, snapshot))


def rejected(plugin: Filter, pod: Pod, snapshot: Snapshot) -> dict[str, set[str]]:
    """Node names by reason. Plugins that must be asked before filtering are."""
    cycle = _prepared(plugin, pod, snapshot)
    said: dict[str, set[str]] = {}
    for rejection in plugin.filter(cycle):
        names = set(snapshot.topology.names(rejection.nodes & snapshot.nodes))
        if names:
            said.setdefault(rejection.reason, set()).update(names)
    return said


def unresolvable(plugin: Filter, pod: Pod, snapshot: Snapshot) -> set[str]:
    """The nodes for which evicting pods cannot change the plugin's mind."""
    nodes = 0
    for rejection in plugin.filter(_prepared(plugin, pod, snapshot)):
        if not rejection.resolvable:
            nodes |= rejection.nodes
    return set(snapshot.topology.names(nodes & snapshot.nodes))


def scored(plugin: Score, pod: Pod, snapshot: Snapshot) -> dict[str, float] | None:
    """Scores by node name, all nodes being feasible; None when the plugin has no opinion."""
    scores = plugin.score(_prepared(plugin, pod, snapshot), snapshot.nodes)
    if scores is None:
        return None
    return {name: float(scores[snapshot.topology.slot(name)]) for name in snapshot.topology.names(snapshot.nodes)}


def wakes(plugin: Plugin, pod: Pod, change: Change | None, *objects: ApiObject) -> bool:
    """Whether a pod that the plugin rejected is worth another try after the change. `objects` are what there was when
    it was rejected, as far as it matters."""
    interests = Cycle(pod, a_snapshot(*objects)).interests
    return change is not None and any(hint.wakes(pod, interests, change) for hint in plugin.wakes_on)


def _prepared(plugin: Filter | Score, pod: Pod, snapshot: Snapshot) -> Cycle:
    cycle = Cycle(pod, snapshot)
    if isinstance(plugin, PreFilter):
        assert plugin.prefilter(cycle) is None
    return cycle
