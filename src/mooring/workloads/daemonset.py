"""What a DaemonSet needs next: pods on nodes that lack one, fewer where there are too many, newer ones in turn.

Pure: the set's revision, its pods and the nodes in, what to do out. Rolling updates either take away old pods, no more
at a time than may be unavailable, or put new ones beside them first, as the strategy says.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mooring.api import keys
from mooring.api.views.daemon_set import DaemonSet
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.workloads import availability, shares
from mooring.workloads.daemon_placement import Verdict, node_of, template_pod, verdict
from mooring.workloads.revisions import Revision


class World(NamedTuple):
    revision: Revision
    pods: Collection[Pod]
    nodes: Sequence[Node]
    now: float


class Plan(NamedTuple):
    """Nodes to make a pod on, pods to remove, pods that failed and are to be replaced, and when to look again."""

    create: list[str]
    delete: list[Pod]
    replace: list[Pod]
    again: float | None


class Census(NamedTuple):
    """Every node with what is wanted there and the pods that are."""

    verdicts: Mapping[str, Verdict]
    pods: Mapping[str, list[Pod]]


def census(world: World) -> Census:
    template = template_pod(world.revision)
    pods: dict[str, list[Pod]] = {}
    for pod in world.pods:
        pods.setdefault(node_of(pod), []).append(pod)
    for here in pods.values():
        here.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.name))
    return Census({node.name: verdict(template, node) for node in world.nodes}, pods)


def plan(daemon_set: DaemonSet, world: World) -> Plan:
    seen = census(world)
    found = Plan([], [], [], _again(daemon_set, world))
    if daemon_set.deleting:
        return found._replace(again=None)
    surge = _surge(daemon_set, seen)
    for name, (run, stay) in seen.verdicts.items():
        here = [pod for pod in seen.pods.get(name, []) if not pod.deleting]
        found.replace.extend(pod for pod in here if pod.status.phase == "Failed" and stay)
        alive = [pod for pod in here if pod.status.phase != "Failed"]
        if not stay:
            found.delete.extend(alive)
        elif run and not seen.pods.get(name):
            found.create.append(name)
        else:
            found.delete.extend(_surplus(daemon_set, alive, world, surge=surge))
    gone = (pod for name, pods in seen.pods.items() if name not in seen.verdicts for pod in pods)
    found.delete.extend(pod for pod in gone if not pod.deleting)
    if not (found.create or found.delete or found.replace):
        _roll(daemon_set, seen, world, found, surge)
    return found


def _surplus(daemon_set: DaemonSet, pods: list[Pod], world: World, *, surge: int) -> list[Pod]:
    """All but one pod of each node; while pods surge, an old one stays until the new one beside it is available."""
    new = [pod for pod in pods if _is_new(pod, world.revision)]
    old = [pod for pod in pods if pod not in new]
    if not surge or not new:
        return (new + old)[1:] if new else old[1:]
    done = any(availability.wait(pod, daemon_set.spec.min_ready_seconds, now=world.now) == 0 for pod in new)
    return new[1:] + (old if done else old[1:])


def _roll(daemon_set: DaemonSet, seen: Census, world: World, found: Plan, surge: int) -> None:
    if daemon_set.spec.update_strategy.type != "RollingUpdate":
        return
    wanted = [name for name, said in seen.verdicts.items() if said.run]
    alone = {name: here[0] for name in wanted if len(here := seen.pods.get(name, [])) == 1}
    old = {name: pod for name, pod in alone.items() if not _is_new(pod, world.revision) and not pod.deleting}
    least = daemon_set.spec.min_ready_seconds
    ill = [name for name, pod in old.items() if availability.wait(pod, least, now=world.now) > 0]
    well = [name for name in old if name not in ill]
    if surge:
        crowded = sum(len(seen.pods.get(name, [])) > 1 for name in wanted)
        found.create.extend(ill + well[: max(surge - crowded, 0)])
        return
    missing = sum(not _served(seen.pods.get(name, []), least, world.now) for name in wanted)
    room = max(_unavailable(daemon_set, len(wanted)) - missing, 0)
    found.delete.extend(old[name] for name in ill + well[:room])


def _served(pods: Iterable[Pod], least: int, now: float) -> bool:
    return any(not pod.deleting and availability.wait(pod, least, now=now) == 0 for pod in pods)


def _is_new(pod: Pod, revision: Revision) -> bool:
    return pod.metadata.labels.get(keys.CONTROLLER_REVISION_HASH) == revision.hash


def _unavailable(daemon_set: DaemonSet, nodes: int) -> int:
    rolling = daemon_set.spec.update_strategy.rolling_update
    most = rolling.max_unavailable if rolling is not None else None
    return shares.resolved(most, nodes, up=True, default=1)


def _surge(daemon_set: DaemonSet, seen: Census) -> int:
    rolling = daemon_set.spec.update_strategy.rolling_update
    if daemon_set.spec.update_strategy.type != "RollingUpdate" or rolling is None:
        return 0
    return shares.resolved(rolling.max_surge, sum(said.run for said in seen.verdicts.values()), up=True, default=0)


def _again(daemon_set: DaemonSet, world: World) -> float | None:
    waits = [availability.wait(pod, daemon_set.spec.min_ready_seconds, now=world.now) for pod in world.pods]
    return min((wait for wait in waits if 0 < wait < math.inf), default=None)


def status(daemon_set: DaemonSet, world: World) -> dict[str, Any]:
    seen = census(world)
    wanted = [name for name, said in seen.verdicts.items() if said.run]
    best = {name: _best(seen.pods.get(name, []), world.revision) for name in seen.verdicts}
    serving = [pod for name in wanted if (pod := best[name]) is not None]
    least = daemon_set.spec.min_ready_seconds
    available = sum(availability.wait(pod, least, now=world.now) == 0 for pod in serving)
    return {
        "observedGeneration": daemon_set.metadata.generation,
        "desiredNumberScheduled": len(wanted),
        "currentNumberScheduled": len(serving),
        "numberMisscheduled": sum(pod is not None and name not in wanted for name, pod in best.items()),
        "numberReady": sum(pod.ready for pod in serving),
        "updatedNumberScheduled": sum(_is_new(pod, world.revision) for pod in serving),
        "numberAvailable": available,
        "numberUnavailable": len(wanted) - available,
    }


def _best(pods: Sequence[Pod], revision: Revision) -> Pod | None:
    """The pod that counts for a node: of the newest revision if there is one, the oldest of those."""
    alive = [pod for pod in pods if not pod.deleting]
    return next((pod for pod in alive if _is_new(pod, revision)), alive[0] if alive else None)


def reported(daemon_set: DaemonSet) -> dict[str, Any]:
    """What the status says now, in the form `status` gives."""
    said = daemon_set.status
    return {
        "observedGeneration": said.observed_generation,
        "desiredNumberScheduled": said.desired_number_scheduled,
        "currentNumberScheduled": said.current_number_scheduled,
        "numberMisscheduled": said.number_misscheduled,
        "numberReady": said.number_ready,
        "updatedNumberScheduled": said.updated_number_scheduled,
        "numberAvailable": said.number_available,
        "numberUnavailable": said.number_unavailable,
    }
