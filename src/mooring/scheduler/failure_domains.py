"""What is lost with a zone: which pods could not run anywhere else if a failure domain went away. Pure.

A hint for people, before it happens: replicas that are spread over zones are not safe if their volumes cannot follow
them. Asked are the filters whose answer outlasts any crowd (node affinity, taints, volumes), so a pod counts as safe
where it could go if there were room. Whether there is room is what `mooring simulate` finds out. Nothing in the
scheduler depends on it; `explain` says it of the pods of a node.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from mooring.api import keys
from mooring.api.views.pod import Pod
from mooring.scheduler.contract import Cycle, Filter, PreFilter
from mooring.scheduler.profile import Profile
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot import Snapshot
from mooring.volumes.nodeset import EMPTY, NodeSet

_OF_VOLUMES: Final = frozenset({"VolumeBinding", "VolumeZone"})
_LASTING: Final = _OF_VOLUMES | {"NodeAffinity", "TaintToleration"}

#: How people call the domains of well-known keys.
_NAMES: Final[Mapping[str, str]] = {keys.ZONE: "zone", keys.REGION: "region", keys.HOSTNAME: "node"}


class Loss(NamedTuple):
    """A domain, and the pods that have nowhere else to go, by `namespace/name` in the order they were given."""

    key: str
    value: str
    pods: tuple[str, ...]
    #: Those of them that are held back by their volumes alone.
    by_volumes: tuple[str, ...]

    def __str__(self) -> str:
        told: list[str] = []
        if self.by_volumes:
            whose = "its" if len(self.by_volumes) == 1 else "their"
            told.append(f"{_listed(self.by_volumes)} cannot run anywhere else, since {whose} volumes are only there")
        if others := [pod for pod in self.pods if pod not in self.by_volumes]:
            told.append(f"{_listed(others)} cannot run anywhere else, since no other node will do")
        name = _NAMES.get(self.key)
        domain = f"{name} {self.value}" if name else f"{self.key}={self.value}"
        return f"if {domain} is lost, {'; '.join(told)}"


class _Reach(NamedTuple):
    nodes: NodeSet
    #: As far as volumes alone decide.
    of_volumes: NodeSet


def losses(
    pods: Iterable[Pod], snapshot: Snapshot, *, key: str = keys.ZONE, profile: Profile = DEFAULT
) -> tuple[Loss, ...]:
    """For every domain of a topology key by its value, the pods that depend on it; domains without any are left out.

    Pods that can go nowhere even now depend on nothing that could be lost.
    """
    reaches = {pod.key: _reach(pod, snapshot, profile) for pod in pods}
    found: list[Loss] = []
    for value, nodes in sorted(snapshot.topology.by_value(key).items()):
        lost = tuple(name for name, reach in reaches.items() if reach.nodes and not reach.nodes & ~nodes)
        if lost:
            by_volumes = tuple(name for name in lost if not reaches[name].of_volumes & ~nodes)
            found.append(Loss(key, value, lost, by_volumes))
    return tuple(found)


def _reach(pod: Pod, snapshot: Snapshot, profile: Profile) -> _Reach:
    """Where the pod could be, were it not for other pods."""
    cycle = Cycle(pod, snapshot)
    nodes = of_volumes = snapshot.nodes
    for plugin in profile.concerning(pod).plugins:
        if plugin.name not in _LASTING:
            continue
        rejected = snapshot.nodes if _refuses(plugin, cycle) else _rejected(plugin, cycle)
        nodes &= ~rejected
        if plugin.name in _OF_VOLUMES:
            of_volumes &= ~rejected
    return _Reach(nodes, of_volumes)


def _refuses(plugin: object, cycle: Cycle) -> bool:
    return isinstance(plugin, PreFilter) and plugin.prefilter(cycle) is not None


def _rejected(plugin: object, cycle: Cycle) -> NodeSet:
    rejected = EMPTY
    for rejection in plugin.filter(cycle) if isinstance(plugin, Filter) else ():
        rejected |= rejection.nodes
    return rejected


def _listed(names: Iterable[str]) -> str:
    *first, last = (name.rpartition("/")[2] for name in names)
    return f"{', '.join(first)} and {last}" if first else last
