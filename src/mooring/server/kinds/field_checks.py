"""Checks shared by many kinds: metadata, resource amounts, single values, label and node selectors."""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from mooring.api import quantity
from mooring.api.documents import Body
from mooring.api.errors import Cause, bad_value, duplicate, forbidden, required, too_long, unsupported
from mooring.api.names import check_label_value, check_qualified_name
from mooring.api.node_selectors import NODE_NAME_FIELD
from mooring.api.pod_requirements import HUGE_PAGES, containers_ask, is_of_pods
from mooring.api.quantity import QuantityError
from mooring.api.selectors import Operator
from mooring.api.views.pods import Container, Pod, PodSpec
from mooring.api.well_known import FOREGROUND_DELETION, NAMESPACE_CONTENTS, ORPHAN_DEPENDENTS
from mooring.server.encoding import finalizers, is_deleting, meta, part, rows

T = TypeVar("T", bound=Hashable)


def containers_request(spec: Body, *, field: str = "requests") -> dict[str, str]:
    """Sum of the container requests, or limits, that pod-level requests may contain, in the suffixes of the first
    amount."""
    kept = {
        listed: [
            container | {"resources": {"requests": part(container, "resources", field)}}
            for container in rows(spec, listed)
        ]
        for listed in ("containers", "initContainers")
    }
    view = msgspec.convert(kept, PodSpec)
    try:
        asked = containers_ask(Pod(spec=view))
    except QuantityError:
        return {}  # a negative amount, which the rules for containers reject
    return {name: quantity.spelled_like(milli, _first(view, name)) for name, milli in asked.items() if is_of_pods(name)}


def _first(spec: PodSpec, resource: str) -> str | float:
    several: tuple[Container, ...] = (*spec.containers, *spec.init_containers)
    return next(one.resources.requests[resource] for one in several if resource in one.resources.requests)


#: Resources without a domain that a container may request.
_STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage", "storage"})


def validate_resources(container: Body, path: str) -> Iterator[Cause]:
    """`resources` of a container."""
    requests, limits = part(container, "resources", "requests"), part(container, "resources", "limits")
    yield from _container_amounts(limits, f"{path}.resources.limits")
    yield from _container_amounts(requests, f"{path}.resources.requests")
    yield from _against_limits(requests, limits, path)


def validate_pod_resources(spec: Body, path: str) -> Iterator[Cause]:
    """Pod-level `resources`: requests cover those of the containers, and no container limit exceeds the pod's."""
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
    """No negative amounts, and whole numbers of extended resources."""
    for name, text in amounts.items():
        amount = quantity.parse(text)
        if amount < 0:
            yield bad_value(f"{path}[{name}]", text, "must be greater than or equal to 0")
        if _is_extended(name) and amount % quantity.NANOS_PER_UNIT:
            yield bad_value(f"{path}[{name}]", text, "must be an integer")


def _container_amounts(amounts: Mapping[str, str], path: str) -> Iterator[Cause]:
    for name in amounts:
        yield from violations(check_qualified_name, name, path)
        if "/" not in name and name not in _STANDARD and not name.startswith(HUGE_PAGES):
            yield bad_value(path, name, "must be a standard resource type or fully qualified")
    yield from validate_amounts(amounts, path)


def _pod_amounts(amounts: Mapping[str, str], path: str) -> Iterator[Cause]:
    for name in amounts:
        if not is_of_pods(name):
            yield unsupported(f"{path}[{name}]", name, ("cpu", HUGE_PAGES, "memory"))
    yield from validate_amounts(amounts, path)


def _is_extended(name: str) -> bool:
    """Extended resources, such as devices, cannot be overcommitted."""
    domain, slash, _ = name.partition("/")
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


#: Bytes of all annotation keys and values; kube-apiserver's limit.
MAX_ANNOTATION_BYTES: Final = 256 * 1024

#: Finalizers without a domain.
_STANDARD_FINALIZERS: Final = frozenset({FOREGROUND_DELETION, ORPHAN_DEPENDENTS, NAMESPACE_CONTENTS})
_IMMUTABLE: Final = ("name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds")
_OWNER_FIELDS: Final = {"apiVersion": "version", "kind": "kind", "name": "name", "uid": "uid"}


def validate_metadata(check_name: Callable[[str], list[str]], obj: Body) -> Iterator[Cause]:
    metadata = meta(obj)
    yield from _names(check_name, metadata)
    yield from validate_labels(metadata.get("labels", {}), "metadata.labels")
    yield from validate_annotations(metadata.get("annotations", {}), "metadata.annotations")
    names, path = finalizers(obj), "metadata.finalizers"
    yield from validate_finalizers(names, path)
    if {FOREGROUND_DELETION, ORPHAN_DEPENDENTS} <= set(names):
        why = f"finalizer {ORPHAN_DEPENDENTS} and {FOREGROUND_DELETION} cannot be both set"
        yield bad_value(path, ", ".join(names), why)
    yield from _owners(metadata.get("ownerReferences", []))


def validate_metadata_update(check_name: Callable[[str], list[str]], new: Body, old: Body) -> Iterator[Cause]:
    now, was = meta(new), meta(old)
    if is_deleting(old) and (added := _added(finalizers(new), frozenset(finalizers(old)))):
        listed = ", ".join(f'"{finalizer}"' for finalizer in added)
        why = (
            f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{listed}}}"
        )
        yield forbidden("metadata.finalizers", why)
    for field in _IMMUTABLE:
        if now.get(field) != was.get(field):
            yield bad_value(f"metadata.{field}", now.get(field, ""), "field is immutable")
    if now != was:
        yield from validate_metadata(check_name, new)


def _added(now: list[str], known: frozenset[str]) -> list[str]:
    return [finalizer for finalizer in now if finalizer not in known]


def validate_labels(labels: Mapping[str, str], path: str) -> Iterator[Cause]:
    for key, value in labels.items():
        yield from violations(check_qualified_name, key, path)
        yield from violations(check_label_value, value, path)


def validate_annotations(annotations: Mapping[str, str], path: str) -> Iterator[Cause]:
    size = 0
    for key, value in annotations.items():
        size += len(key.encode()) + len(value.encode())
        for why in check_qualified_name(key.lower()):
            yield bad_value(path, key, why)
    if size > MAX_ANNOTATION_BYTES:
        yield too_long(path, MAX_ANNOTATION_BYTES)


def _names(check: Callable[[str], list[str]], metadata: Body) -> Iterator[Cause]:
    if prefix := metadata.get("generateName"):
        # A trailing dash is valid, because characters follow it.
        for why in check(prefix[:-1] + "a" if prefix.endswith("-") else prefix):
            yield bad_value("metadata.generateName", prefix, why)
    if name := metadata.get("name"):
        yield from violations(check, name, "metadata.name")
    else:
        yield required("metadata.name", "name or generateName is required")


def validate_finalizers(names: list[str], path: str) -> Iterator[Cause]:
    for name in names:
        yield from violations(check_qualified_name, name, path)
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            yield bad_value(path, name, "name is neither a standard finalizer name nor is it fully qualified")


def _owners(owners: list[Body]) -> Iterator[Cause]:
    controllers = []
    for index, owner in enumerate(owners):
        for field, called in _OWNER_FIELDS.items():
            if not owner.get(field):
                yield bad_value(f"metadata.ownerReferences[{index}].{field}", "", f"{called} must not be empty")
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind', '')}/{owner.get('name', '')}")
    if len(controllers) > 1:
        why = (
            "Only one reference can have Controller set to true. "
            f'Found "true" in references for {controllers[0]} and {controllers[1]}'
        )
        yield bad_value("metadata.ownerReferences", ", ".join(controllers), why)


MAX_PORT: Final = 65535

#: kube-apiserver's, with fewer digits.
_PERCENT: Final = re.compile(r"[0-9]{1,9}%")
_PERCENT_RULE: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)


def violations(check: Callable[[str], list[str]], value: str, path: str) -> Iterator[Cause]:
    """The causes against a name or label, by a check of `api.names`."""
    for why in check(value):
        yield bad_value(path, value, why)


def not_negative(value: int, path: str) -> Iterator[Cause]:
    if value < 0:
        yield bad_value(path, value, "must be greater than or equal to 0")


def none_negative(obj: Body, path: str, *fields: str) -> Iterator[Cause]:
    for field in fields:
        yield from not_negative(obj.get(field, 0), f"{path}.{field}")


def one_of(obj: Body, path: str, field: str, *choices: str) -> Iterator[Cause]:
    """The field of the object at a path is required, and one of the choices."""
    value = obj.get(field, "")
    if not value:
        yield required(below(path, field))
    elif value not in choices:
        yield unsupported(below(path, field), value, choices)


def present(obj: Body, path: str, *fields: str) -> Iterator[Cause]:
    """The fields of the object at a path are required."""
    for field in fields:
        if not obj.get(field):
            yield required(below(path, field))


def below(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field


def check_port(value: int, path: str) -> Iterator[Cause]:
    if not 1 <= value <= MAX_PORT:
        yield bad_value(path, value, f"must be between 1 and {MAX_PORT}, inclusive")


def validate_name(value: str, check: Callable[[str], list[str]], path: str) -> Iterator[Cause]:
    if value:
        yield from violations(check, value, path)
    else:
        yield required(path)


def unique(values: Sequence[str], path: str, field: str) -> Iterator[Cause]:
    """`values` are the `field`s of the items of a list at `path`."""
    for index, value in repeated(values):
        if value:
            yield duplicate(f"{path}[{index}].{field}", value)


def repeated(values: Iterable[T]) -> Iterator[tuple[int, T]]:
    """The values that have occurred before, and their places."""
    seen: set[T] = set()
    for index, value in enumerate(values):
        if value in seen:
            yield index, value
        seen.add(value)


def immutable(new: object, old: object, path: str) -> Iterator[Cause]:
    if new != old:
        yield bad_value(path, "" if new is None else new, "field is immutable")


def immutable_fields(new: Body, old: Body, *paths: str) -> Iterator[Cause]:
    for path in paths:
        *sections, field = path.split(".")
        yield from immutable(part(new, *sections).get(field), part(old, *sections).get(field), path)


def fixed_fields(new: Body, old: Body, *paths: str) -> Iterator[Cause]:
    """The same for fields whose rule kube-apiserver declares with their type: it does not show the value."""
    for path in paths:
        *sections, field = path.split(".")
        if part(new, *sections).get(field) != part(old, *sections).get(field):
            yield bad_value(path, None, "field is immutable")


def count_or_share(value: int | str, path: str) -> Iterator[Cause]:
    """A number or a percentage."""
    if isinstance(value, int):
        yield from not_negative(value, path)
    elif not _PERCENT.fullmatch(value):
        yield bad_value(path, value, _PERCENT_RULE)


def at_most_all(value: int | str, path: str) -> Iterator[Cause]:
    if isinstance(value, str) and _PERCENT.fullmatch(value) and int(value[:-1]) > 100:
        yield bad_value(path, value, "must not be greater than 100%")


def is_nothing(value: int | str) -> bool:
    """Whether a number or percentage is zero; as in kube-apiserver, an invalid one counts as zero."""
    if isinstance(value, int):
        return value == 0
    return not _PERCENT.fullmatch(value) or int(value[:-1]) == 0


_CONDITION_STATUSES: Final = ("False", "True", "Unknown")
_CONDITION_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_CONDITION_REASON_RULE: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    "'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
    "'[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)
_MAX_REASON_BYTES: Final = 1024
_MAX_MESSAGE_BYTES: Final = 32 * 1024


def validate_conditions(conditions: Sequence[Body], path: str) -> Iterator[Cause]:
    """Conditions of the type that kinds share, `meta/v1.Condition`."""
    twice = dict(repeated(condition.get("type", "") for condition in conditions))
    for index, condition in enumerate(conditions):
        if index in twice:
            yield duplicate(f"{path}[{index}]", twice[index])
        yield from _condition(condition, f"{path}[{index}]")


def _condition(condition: Body, path: str) -> Iterator[Cause]:
    if type_ := condition.get("type"):
        yield from violations(check_qualified_name, type_, f"{path}.type")
    else:
        yield required(f"{path}.type", "is required")
    yield from one_of(condition, path, "status", *_CONDITION_STATUSES)
    if (generation := condition.get("observedGeneration", 0)) < 0:
        yield bad_value(f"{path}.observedGeneration", generation, "must be greater than or equal to zero")
    yield from present(condition, path, "lastTransitionTime")
    if reason := condition.get("reason"):
        if not _CONDITION_REASON.fullmatch(reason):
            yield bad_value(f"{path}.reason", reason, _CONDITION_REASON_RULE)
        if len(reason.encode()) > _MAX_REASON_BYTES:
            yield too_long(f"{path}.reason", _MAX_REASON_BYTES)
    else:
        yield required(f"{path}.reason")
    if len(condition.get("message", "").encode()) > _MAX_MESSAGE_BYTES:
        yield too_long(f"{path}.message", _MAX_MESSAGE_BYTES)


_SETS: Final = (Operator.IN, Operator.NOT_IN)
_PRESENCE: Final = (Operator.EXISTS, Operator.DOES_NOT_EXIST)
_ORDER: Final = (Operator.GT, Operator.LT)


def validate_label_selector(selector: Body, path: str) -> Iterator[Cause]:
    yield from validate_labels(part(selector, "matchLabels"), f"{path}.matchLabels")
    for index, requirement in enumerate(rows(selector, "matchExpressions")):
        at = f"{path}.matchExpressions[{index}]"
        yield from _operator_and_values(requirement, at)
        yield from _key(requirement, at)
        for position, value in enumerate(requirement.get("values", [])):
            yield from violations(check_label_value, value, f"{at}.values[{position}]")


def validate_node_selector(selector: Body, path: str) -> Iterator[Cause]:
    terms = rows(selector, "nodeSelectorTerms")
    if not terms:
        yield required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from validate_node_selector_term(term, f"{path}.nodeSelectorTerms[{index}]")


def validate_node_selector_term(term: Body, path: str) -> Iterator[Cause]:
    for index, requirement in enumerate(rows(term, "matchExpressions")):
        yield from _node_requirement(requirement, f"{path}.matchExpressions[{index}]")
    for index, requirement in enumerate(rows(term, "matchFields")):
        yield from _field_requirement(requirement, f"{path}.matchFields[{index}]")


def validate_topologies(terms: list[Body], path: str) -> Iterator[Cause]:
    """`allowedTopologies`."""
    for index, term in enumerate(terms):
        seen: set[str] = set()
        for position, requirement in enumerate(rows(term, "matchLabelExpressions")):
            at = f"{path}[{index}].matchLabelExpressions[{position}]"
            key = requirement.get("key", "")
            if key in seen:
                yield duplicate(f"{at}.key", key)
            seen.add(key)
            yield from _key(requirement, at)
            values: list[str] = requirement.get("values", [])
            if not values:
                yield required(f"{at}.values")
            for place, value in repeated(values):
                yield duplicate(f"{at}.values[{place}]", value)


def _node_requirement(requirement: Body, path: str) -> Iterator[Cause]:
    values = requirement.get("values", [])
    if requirement.get("operator", "") not in _ORDER:
        yield from _operator_and_values(requirement, path)
    elif len(values) != 1:
        yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    elif not _is_integer(values[0]):
        yield bad_value(f"{path}.values[0]", values[0], "must be an integer when `operator` is 'Lt' or 'Gt'")
    yield from _key(requirement, path)


def _operator_and_values(requirement: Body, path: str) -> Iterator[Cause]:
    operator, values = requirement.get("operator", ""), requirement.get("values", [])
    if operator in _SETS:
        if not values:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in _PRESENCE:
        if values:
            yield forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    else:
        yield bad_value(f"{path}.operator", operator, "not a valid selector operator")


def _field_requirement(requirement: Body, path: str) -> Iterator[Cause]:
    key, operator, values = (requirement.get(field, "") for field in ("key", "operator", "values"))
    if operator not in _SETS:
        yield bad_value(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        yield required(
            f"{path}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        )
    if key != NODE_NAME_FIELD:
        yield bad_value(f"{path}.key", key, "not a valid field selector key")


def _key(requirement: Body, path: str) -> Iterator[Cause]:
    yield from violations(check_qualified_name, requirement.get("key", ""), f"{path}.key")


def _is_integer(text: str) -> bool:
    digits = text[1:] if text[:1] in ("+", "-") else text
    return digits.isascii() and digits.isdigit()
