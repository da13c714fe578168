"""Pods. The status cell is not the phase: it says what holds the pod up or brought it down.

Upstream's rules, which people read the cell by: the pod's own reason first, then its init containers in order,
then its containers from the last to the first, and whatever happens Terminating while it is being deleted.
"""

from dataclasses import dataclass
from typing import Final

from mooring.server.tables.columns import AGE, NAME, WIDE, Cell, Column, Printer, RowCondition
from mooring.server.tables.reading import (
    NONE,
    Json,
    age,
    flag,
    is_deleting,
    name,
    number,
    part,
    parts,
    since,
    text,
)

_COMPLETED: Final = {
    "Succeeded": (RowCondition("Completed", "True", "Succeeded", "The pod has completed successfully."),),
    "Failed": (RowCondition("Completed", "True", "Failed", "The pod failed."),),
}


@dataclass
class _Tally:
    """What is counted over container statuses."""

    ready: int = 0
    restarts: int = 0
    last_restart: str = ""

    def count_restarts(self, status: Json) -> None:
        self.restarts += number(status, "restartCount")
        # Timestamps of one format and zone: the latest is the largest text.
        self.last_restart = max(self.last_restart, text(status, "lastState", "terminated", "finishedAt"))

    def restarts_cell(self, now: float) -> str:
        if self.restarts and self.last_restart:
            return f"{self.restarts} ({since(self.last_restart, now)} ago)"
        return str(self.restarts)


def _cells(pod: Json, now: float) -> tuple[Cell, ...]:
    sidecars = _sidecars(pod)
    reason = text(pod, "status", "reason") or text(pod, "status", "phase")
    if any(text(gate, "reason") == "SchedulingGated" for gate in _conditions(pod, "PodScheduled")):
        reason = "SchedulingGated"
    ready, tally, holding = _init_containers(pod, sidecars)
    if holding:
        reason = holding
    if not holding or _is_true(pod, "Initialized"):
        tally = _sidecar_restarts(pod, sidecars)
        reason = _containers(pod, tally, reason)
    total = len(parts(pod, "spec", "containers")) + len(sidecars)
    return (
        name(pod),
        f"{ready + tally.ready}/{total}",
        _deleting(pod) or reason,
        tally.restarts_cell(now),
        age(pod, now),
        _address(pod) or NONE,
        text(pod, "spec", "nodeName") or NONE,
        text(pod, "status", "nominatedNodeName") or NONE,
        _readiness_gates(pod),
    )


def _sidecars(pod: Json) -> frozenset[str]:
    """Init containers that keep running beside the others."""
    return frozenset(
        text(container, "name")
        for container in parts(pod, "spec", "initContainers")
        if text(container, "restartPolicy") == "Always"
    )


def _init_containers(pod: Json, sidecars: frozenset[str]) -> tuple[int, _Tally, str]:
    """Ready sidecars, restarts so far, and what initialisation is waiting for (empty when it is done)."""
    tally, ready = _Tally(), 0
    total = len(parts(pod, "spec", "initContainers"))
    for position, status in enumerate(parts(pod, "status", "initContainerStatuses")):
        tally.count_restarts(status)
        terminated, waiting = part(status, "state", "terminated"), part(status, "state", "waiting")
        if terminated and number(terminated, "exitCode") == 0:
            continue
        if text(status, "name") in sidecars and flag(status, "started"):
            ready += flag(status, "ready")
            continue
        if terminated:
            return ready, tally, f"Init:{_exit(terminated)}"
        if text(waiting, "reason") not in ("", "PodInitializing"):
            return ready, tally, f"Init:{text(waiting, 'reason')}"
        return ready, tally, f"Init:{position}/{total}"
    return ready, tally, ""


def _sidecar_restarts(pod: Json, sidecars: frozenset[str]) -> _Tally:
    tally = _Tally()
    for status in parts(pod, "status", "initContainerStatuses"):
        if text(status, "name") in sidecars:
            tally.count_restarts(status)
    return tally


def _containers(pod: Json, tally: _Tally, reason: str) -> str:
    running = False
    for status in reversed(parts(pod, "status", "containerStatuses")):
        tally.count_restarts(status)
        terminated = part(status, "state", "terminated")
        if waiting := text(status, "state", "waiting", "reason"):
            reason = waiting
        elif terminated:
            reason = _exit(terminated)
        elif flag(status, "ready") and "running" in part(status, "state"):
            running = True
            tally.ready += 1
    if reason == "Completed" and running:
        return "Running" if _is_true(pod, "Ready") else "NotReady"
    return reason


def _exit(terminated: Json) -> str:
    if reason := text(terminated, "reason"):
        return reason
    if signal := number(terminated, "signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{number(terminated, 'exitCode')}"


def _deleting(pod: Json) -> str:
    if not is_deleting(pod):
        return ""
    if text(pod, "status", "reason") == "NodeLost":
        return "Unknown"
    return "" if text(pod, "status", "phase") in _COMPLETED else "Terminating"


def _address(pod: Json) -> str:
    addresses = parts(pod, "status", "podIPs")
    return text(addresses[0], "ip") if addresses else text(pod, "status", "podIP")


def _readiness_gates(pod: Json) -> str:
    gates = [text(gate, "conditionType") for gate in parts(pod, "spec", "readinessGates")]
    return f"{sum(_is_true(pod, gate) for gate in gates)}/{len(gates)}" if gates else NONE


def _conditions(pod: Json, type_: str) -> list[Json]:
    return [condition for condition in parts(pod, "status", "conditions") if text(condition, "type") == type_]


def _is_true(pod: Json, type_: str) -> bool:
    return any(text(condition, "status") == "True" for condition in _conditions(pod, type_))


PODS: Final = Printer(
    columns=(
        NAME,
        Column("Ready", description="Containers that are ready, of all containers."),
        Column("Status", description="The phase, or the reason that says more."),
        Column("Restarts", description="How often containers were restarted, and when last."),
        AGE,
        Column("IP", description="The pod's address.", priority=WIDE),
        Column("Node", description="The node the pod was given.", priority=WIDE),
        Column("Nominated Node", description="The node the scheduler expects to use.", priority=WIDE),
        Column("Readiness Gates", description="Readiness gates that are true, of all.", priority=WIDE),
    ),
    cells=_cells,
    conditions=lambda pod: _COMPLETED.get(text(pod, "status", "phase"), ()),
)
