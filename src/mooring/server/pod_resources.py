"""What the containers of a pod ask for together, where the pod also asks as a whole: defaults and rules need it."""

import msgspec

from mooring.api import quantity
from mooring.api.pod_requests import containers_ask, is_of_pods
from mooring.api.quantity import QuantityError
from mooring.api.views.pod import Container, Pod, PodSpec
from mooring.server.body import Body, rows


def containers_request(spec: Body) -> dict[str, str]:
    """Only what a pod can ask for as a whole, each amount spelled like the first of its kind."""
    kept = {field: rows(spec, field) for field in ("containers", "initContainers")}
    view = msgspec.convert(kept, PodSpec)
    try:
        asked = containers_ask(Pod(spec=view))
    except QuantityError:
        # SEEN: a negative amount, of which the rules for containers tell.
        return {}
    return {name: quantity.spelled_like(milli, _first(view, name)) for name, milli in asked.items() if is_of_pods(name)}


def _first(spec: PodSpec, resource: str) -> str | float:
    several: tuple[Container, ...] = (*spec.containers, *spec.init_containers)
    return next(one.resources.requests[resource] for one in several if resource in one.resources.requests)
