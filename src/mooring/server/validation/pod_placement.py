"""Rules for what a pod says of where it wants to run: selectors, affinities, tolerations, spreading, gates."""

from collections.abc import Iterator
from typing import Final

from mooring.api.errors import Cause
from mooring.api.field_errors import bad_value, forbidden, required, unsupported
from mooring.api.object_names import check_dns1123_subdomain, check_label_value, check_qualified_name
from mooring.server.body import Body, part, rows
from mooring.server.validation.metadata import validate_labels
from mooring.server.validation.scalars import one_of, unique
from mooring.server.validation.selectors import (
    validate_label_selector,
    validate_node_selector,
    validate_node_selector_term,
)

TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_EQUAL: Final = "Equal"
_EXISTS: Final = "Exists"


def validate_placement(spec: Body, path: str) -> Iterator[Cause]:
    if node := spec.get("nodeName"):
        for why in check_dns1123_subdomain(node):
            yield bad_value(f"{path}.nodeName", node, why)
        if rows(spec, "schedulingGates"):
            yield forbidden(f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared")
    yield from validate_labels(part(spec, "nodeSelector"), f"{path}.nodeSelector")
    yield from _affinity(part(spec, "affinity"), f"{path}.affinity")
    for index, toleration in enumerate(rows(spec, "tolerations")):
        yield from _toleration(toleration, f"{path}.tolerations[{index}]")
    yield from _spread(rows(spec, "topologySpreadConstraints"), f"{path}.topologySpreadConstraints")
    yield from _gates(rows(spec, "schedulingGates"), f"{path}.schedulingGates")


def _affinity(affinity: Body, path: str) -> Iterator[Cause]:
    nodes = part(affinity, "nodeAffinity")
    at = f"{path}.nodeAffinity"
    if _REQUIRED in nodes:
        yield from validate_node_selector(nodes[_REQUIRED], f"{at}.{_REQUIRED}")
    for index, preferred in enumerate(rows(nodes, _PREFERRED)):
        here = f"{at}.{_PREFERRED}[{index}]"
        yield from _weight(preferred, here)
        yield from validate_node_selector_term(part(preferred, "preference"), f"{here}.preference")
    for field in ("podAffinity", "podAntiAffinity"):
        yield from _pod_affinity(part(affinity, field), f"{path}.{field}")


def _pod_affinity(affinity: Body, path: str) -> Iterator[Cause]:
    for index, term in enumerate(rows(affinity, _REQUIRED)):
        yield from _pod_term(term, f"{path}.{_REQUIRED}[{index}]")
    for index, preferred in enumerate(rows(affinity, _PREFERRED)):
        here = f"{path}.{_PREFERRED}[{index}]"
        yield from _weight(preferred, here)
        yield from _pod_term(part(preferred, "podAffinityTerm"), f"{here}.podAffinityTerm")


def _pod_term(term: Body, path: str) -> Iterator[Cause]:
    yield from validate_label_selector(part(term, "labelSelector"), f"{path}.labelSelector")
    yield from validate_label_selector(part(term, "namespaceSelector"), f"{path}.namespaceSelector")
    yield from _topology_key(term, path)


def _topology_key(term: Body, path: str) -> Iterator[Cause]:
    key = term.get("topologyKey", "")
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
        return
    for why in check_qualified_name(key):
        yield bad_value(f"{path}.topologyKey", key, why)


def _weight(preferred: Body, path: str) -> Iterator[Cause]:
    weight = preferred.get("weight", 0)
    if not 1 <= weight <= 100:
        yield bad_value(f"{path}.weight", weight, "must be in the range 1-100")


def _toleration(toleration: Body, path: str) -> Iterator[Cause]:
    key, value, effect = (toleration.get(field, "") for field in ("key", "value", "effect"))
    operator = toleration.get("operator", _EQUAL)
    if key:
        for why in check_qualified_name(key):
            yield bad_value(f"{path}.key", key, why)
    elif operator != _EXISTS:
        why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield bad_value(f"{path}.operator", toleration.get("operator", ""), why)
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        yield bad_value(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator == _EQUAL:
        for why in check_label_value(value):
            yield bad_value(f"{path}.operator", value, why)
    elif operator == _EXISTS:
        if value:
            yield bad_value(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
    else:
        yield unsupported(f"{path}.operator", operator, (_EQUAL, _EXISTS))
    if effect:
        yield from one_of(effect, TAINT_EFFECTS, f"{path}.effect")


def _spread(constraints: list[Body], path: str) -> Iterator[Cause]:
    pairs = [f"{{{c.get('topologyKey', '')}, {c.get('whenUnsatisfiable', '')}}}" for c in constraints]
    yield from unique(pairs, path, "{topologyKey, whenUnsatisfiable}")
    for index, constraint in enumerate(constraints):
        at = f"{path}[{index}]"
        if constraint.get("maxSkew", 0) <= 0:
            yield bad_value(f"{at}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero")
        yield from _topology_key(constraint, at)
        yield from one_of(
            constraint["whenUnsatisfiable"], ("DoNotSchedule", "ScheduleAnyway"), f"{at}.whenUnsatisfiable"
        )
        yield from validate_label_selector(part(constraint, "labelSelector"), f"{at}.labelSelector")


def _gates(gates: list[Body], path: str) -> Iterator[Cause]:
    names = [gate.get("name", "") for gate in gates]
    yield from unique(names, path, "name")
    for index, gate in enumerate(names):
        for why in check_qualified_name(gate):
            yield bad_value(f"{path}[{index}].name", gate, why)
