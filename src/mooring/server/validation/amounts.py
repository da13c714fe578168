"""Rules for resource amounts: names of resources, signs, whole numbers, requests against limits."""

from collections.abc import Iterator, Mapping
from typing import Final

from mooring.api import quantity
from mooring.api.errors import Cause
from mooring.api.field_errors import bad_value, required, unsupported
from mooring.api.object_names import check_qualified_name
from mooring.api.pod_requests import HUGE_PAGES, is_of_pods
from mooring.server.body import Body, part, rows
from mooring.server.pod_resources import containers_request

#: Resources without a domain that a container may ask for.
_STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage", "storage"})


def validate_resources(container: Body, path: str) -> Iterator[Cause]:
    """`resources` of a container."""
    requests, limits = part(container, "resources", "requests"), part(container, "resources", "limits")
    yield from _container_amounts(limits, f"{path}.resources.limits")
    yield from _container_amounts(requests, f"{path}.resources.requests")
    yield from _against_limits(requests, limits, path)


def validate_pod_resources(spec: Body, path: str) -> Iterator[Cause]:
    """`resources` of a pod as a whole: room for what its containers ask for, and limits that none of theirs exceeds."""
    requests, limits = part(spec, "resources", "requests"), part(spec, "resources", "limits")
    yield from _pod_amounts(limits, f"{path}.resources.limits")
    yield from _pod_amounts(requests, f"{path}.resources.requests")
    yield from _against_limits(requests, limits, path)
    together = containers_request(spec) if requests else {}
    for name, text in requests.items():
        if name in together and quantity.parse(text) < quantity.parse(together[name]):
            why = f"must be greater than or equal to aggregate container requests of {together[name]}"
            yield bad_value(f"{path}.resources.requests[{name}]", text, why)
    for index, container in enumerate(rows(spec, "containers") if limits else ()):
        for name, text in part(container, "resources", "limits").items():
            if name in limits and quantity.parse(text) > quantity.parse(limits[name]):
                why = f"must be less than or equal to pod limits of {limits[name]}"
                yield bad_value(f"{path}.resources.containers[{index}][{name}].limits", text, why)


def _against_limits(requests: Mapping[str, str], limits: Mapping[str, str], path: str) -> Iterator[Cause]:
    for name, text in requests.items():
        at = f"{path}.resources.requests"
        if name not in limits:
            if _is_extended(name):
                yield required(f"{path}.resources.limits", "Limit must be set for non overcommitable resources")
        elif _is_extended(name) and quantity.parse(text) != quantity.parse(limits[name]):
            yield bad_value(at, text, f"must be equal to {name} limit of {limits[name]}")
        elif quantity.parse(text) > quantity.parse(limits[name]):
            yield bad_value(at, text, f"must be less than or equal to {name} limit of {limits[name]}")


def validate_amounts(amounts: Mapping[str, str], path: str) -> Iterator[Cause]:
    """What a node or a claim has: no negative amounts, and whole numbers of extended resources."""
    for name, text in amounts.items():
        amount = quantity.parse(text)
        if amount < 0:
            yield bad_value(f"{path}[{name}]", text, "must be greater than or equal to 0")
        if _is_extended(name) and amount % quantity.NANOS_PER_UNIT:
            yield bad_value(f"{path}[{name}]", text, "must be an integer")


def _container_amounts(amounts: Mapping[str, str], path: str) -> Iterator[Cause]:
    for name in amounts:
        for why in check_qualified_name(name):
            yield bad_value(path, name, why)
        if "/" not in name and name not in _STANDARD and not name.startswith(HUGE_PAGES):
            yield bad_value(path, name, "must be a standard resource type or fully qualified")
    yield from validate_amounts(amounts, path)


def _pod_amounts(amounts: Mapping[str, str], path: str) -> Iterator[Cause]:
    for name in amounts:
        if not is_of_pods(name):
            yield unsupported(f"{path}[{name}]", name, ("cpu", HUGE_PAGES, "memory"))
    yield from validate_amounts(amounts, path)


def _is_extended(name: str) -> bool:
    """Devices and the like: counted, never shared and never over-committed."""
    domain, slash, _ = name.partition("/")
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")
