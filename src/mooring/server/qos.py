"""A pod's quality-of-service class, from what its containers, or the pod as a whole, ask for and are limited to."""

from typing import Final

from mooring.api import quantity
from mooring.server.body import Body, part, rows

GUARANTEED: Final = "Guaranteed"
BURSTABLE: Final = "Burstable"
BEST_EFFORT: Final = "BestEffort"

#: The only resources the class depends on.
_COUNTED: Final = ("cpu", "memory")


def qos_class(pod: Body) -> str:
    """Guaranteed: every container limits both resources and asks for just that. BestEffort: none asks for either.
    Where the pod says something as a whole, that alone counts."""
    spec = part(pod, "spec")
    whole = part(spec, "resources", "requests") or part(spec, "resources", "limits")
    askers = [spec] if whole else rows(spec, "containers") + rows(spec, "initContainers")
    asks = [_amounts(asker, "requests") for asker in askers]
    limits = [_amounts(asker, "limits") for asker in askers]
    if not any(asks) and not any(limits):
        return BEST_EFFORT
    complete = all(len(limit) == len(_COUNTED) for limit in limits)
    return GUARANTEED if complete and asks == limits else BURSTABLE


def _amounts(asker: Body, which: str) -> dict[str, quantity.Quantity]:
    given = part(asker, "resources", which)
    amounts = {name: quantity.parse(given[name]) for name in _COUNTED if name in given}
    return {name: amount for name, amount in amounts.items() if amount > 0}
