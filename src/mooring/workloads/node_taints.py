"""The taints a node should have for what its conditions say.

Pure. `NoSchedule` keeps new pods away and follows the conditions at once; `NoExecute` also sends away the pods that
are there, and is put on and taken off by whoever judges whether that is wise. Taints that people set stay as they are.
"""

from collections.abc import Iterable
from typing import Any, Final

from mooring.api import keys
from mooring.api.views.node import Node, Taint

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"

#: Condition and status, and the taint they mean; upstream's table.
_BY_CONDITION: Final = {
    ("Ready", "False"): keys.NOT_READY,
    ("Ready", "Unknown"): keys.UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
_OURS: Final = frozenset({*_BY_CONDITION.values(), keys.UNSCHEDULABLE})
#: Those that may also send pods away.
_LOST: Final = frozenset({keys.NOT_READY, keys.UNREACHABLE})


def barred(node: Node) -> list[str]:
    """Keys of the `NoSchedule` taints the node should have."""
    by_condition = (_BY_CONDITION.get((c.type, c.status)) for c in node.status.conditions)
    wanted = [key for key in by_condition if key is not None]
    return [*wanted, keys.UNSCHEDULABLE] if node.spec.unschedulable else wanted


def lost(node: Node) -> str | None:
    """Key of the `NoExecute` taint that a node which is not ready deserves; None for one that is, or never said."""
    return next(
        (key for c in node.status.conditions if (key := _BY_CONDITION.get((c.type, c.status))) in _LOST),
        None,
    )


def has(node: Node, key: str, effect: str) -> bool:
    return any(taint.key == key and taint.effect == effect for taint in node.spec.taints)


def evicting(node: Node) -> bool:
    """Whether the node has a taint of ours that sends pods away."""
    return any(taint.key in _LOST and taint.effect == NO_EXECUTE for taint in node.spec.taints)


def wanted(node: Node, *, evict: bool, now: str) -> list[dict[str, Any]] | None:
    """All taints the node should have; None if it has them. `evict` says whether its pods shall be sent away."""
    kept = [taint for taint in node.spec.taints if not _ours(taint)]
    mine = [Taint(key=key, effect=NO_SCHEDULE) for key in barred(node)]
    key = lost(node) if evict else None
    if key is not None:
        mine.append(Taint(key=key, effect=NO_EXECUTE, time_added=now))
    if _names(mine) == _names(taint for taint in node.spec.taints if _ours(taint)):
        return None
    before = {(taint.key, taint.effect): taint for taint in node.spec.taints}
    return [_body(before.get((taint.key, taint.effect), taint)) for taint in (*kept, *mine)]


def _ours(taint: Taint) -> bool:
    if taint.effect == NO_EXECUTE:
        return taint.key in _LOST
    return taint.effect == NO_SCHEDULE and taint.key in _OURS


def _names(taints: Iterable[Taint]) -> set[tuple[str, str]]:
    return {(taint.key, taint.effect) for taint in taints}


def _body(taint: Taint) -> dict[str, Any]:
    fields = {"key": taint.key, "value": taint.value, "effect": taint.effect, "timeAdded": taint.time_added}
    return {field: value for field, value in fields.items() if value}
