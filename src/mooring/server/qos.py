"""A pod's quality-of-service class, from what its containers ask for and are limited to."""

from typing import Final

from mooring.api import quantity
from mooring.server.body import Body, part, rows

GUARANTEED: Final = "Guaranteed"
BURSTABLE: Final = "Burstable"
BEST_EFFORT: Final = "BestEffort"

#: The only resources the class depends on.
_COUNTED: Final = ("cpu", "memory")


def qos_class(pod: Body) -> str:
    """Guaranteed: every container limits both resources and asks for just that. BestEffort: none asks for either."""
    containers = rows(pod, "spec", "containers") + rows(pod, "spec", "initContainers")
    asks = [_amounts(container, "requests") for container in containers]
    limits = [_amounts(container, "limits") for container in containers]
    if not any(asks) and not any(limits):
        return BEST_EFFORT
    complete = all(len(limit) == len(_COUNTED) for limit in limits)
    return GUARANTEED if complete and asks == limits else BURSTABLE


def _amounts(container: Body, which: str) -> dict[str, quantity.Quantity]:
    given = part(container, "resources", which)
    amounts = {name: quantity.parse(given[name]) for name in _COUNTED if name in given}
    return {name: amount for name, amount in amounts.items() if amount > 0}
