"""Rules for selectors inside objects: label selectors, node selectors, topologies of storage classes."""

from collections.abc import Iterator
from typing import Final

from mooring.api.errors import Cause
from mooring.api.field_errors import bad_value, duplicate, forbidden, required
from mooring.api.label_selector import Operator
from mooring.api.node_selector import NODE_NAME_FIELD
from mooring.api.object_names import check_label_value, check_qualified_name
from mooring.server.body import Body, part, rows
from mooring.server.validation.metadata import validate_labels

_SETS: Final = (Operator.IN, Operator.NOT_IN)
_PRESENCE: Final = (Operator.EXISTS, Operator.DOES_NOT_EXIST)
_ORDER: Final = (Operator.GT, Operator.LT)


def validate_label_selector(selector: Body, path: str) -> Iterator[Cause]:
    yield from validate_labels(part(selector, "matchLabels"), f"{path}.matchLabels")
    for index, requirement in enumerate(rows(selector, "matchExpressions")):
        at = f"{path}.matchExpressions[{index}]"
        operator, values = requirement.get("operator", ""), requirement.get("values", [])
        if operator in _SETS:
            if not values:
                yield required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in _PRESENCE:
            if values:
                yield forbidden(f"{at}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        else:
            yield bad_value(f"{at}.operator", operator, "not a valid selector operator")
        yield from _key(requirement, at)
        for position, value in enumerate(values):
            for why in check_label_value(value):
                yield bad_value(f"{at}.values[{position}]", value, why)


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
            taken: set[str] = set()
            for place, value in enumerate(values):
                if value in taken:
                    yield duplicate(f"{at}.values[{place}]", value)
                taken.add(value)


def _node_requirement(requirement: Body, path: str) -> Iterator[Cause]:
    operator, values = requirement.get("operator", ""), requirement.get("values", [])
    if operator in _SETS:
        if not values:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in _PRESENCE:
        if values:
            yield forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator in _ORDER:
        if len(values) != 1:
            yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        elif not _is_integer(values[0]):
            yield bad_value(f"{path}.values[0]", values[0], "must be an integer when `operator` is 'Lt' or 'Gt'")
    else:
        yield bad_value(f"{path}.operator", operator, "not a valid selector operator")
    yield from _key(requirement, path)


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
    key = requirement.get("key", "")
    for why in check_qualified_name(key):
        yield bad_value(f"{path}.key", key, why)


def _is_integer(text: str) -> bool:
    digits = text[1:] if text[:1] in ("+", "-") else text
    return digits.isascii() and digits.isdigit()
