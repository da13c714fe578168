"""Whether a pod puts up with a taint. Pure; which taints matter is for the scheduler, nodes and evictors to say."""

from collections.abc import Iterable

from mooring.api.views.node import Taint
from mooring.api.views.pod import Toleration


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """An empty effect or key stands for any; an operator nobody knows tolerates nothing."""
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case _:
            return False


def tolerated(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(tolerates(toleration, taint) for toleration in tolerations)
