"""The rules of all kinds, joined, and validation with them.

A kind without rules is served with the rules for metadata only, and printed with name and age.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

from mooring.api.documents import Body
from mooring.api.errors import Cause, invalid
from mooring.api.kinds import Kind
from mooring.server.encoding import meta
from mooring.server.kinds import (
    claims,
    core,
    events,
    passive,
    pod_groups,
    pod_templates,
    pods,
    policy,
    storage,
    workloads,
)
from mooring.server.kinds.field_checks import (
    fixed_fields,
    immutable_fields,
    validate_metadata,
    validate_metadata_update,
)
from mooring.server.kinds.rules import KindRules


def join_rules(*tables: Mapping[Kind[Any], KindRules]) -> Mapping[Kind[Any], KindRules]:
    """Raises ValueError if two tables have rules for one kind."""
    joined: dict[Kind[Any], KindRules] = {}
    for table in tables:
        if twice := joined.keys() & table.keys():
            raise ValueError(f"kinds with two sets of rules: {', '.join(sorted(kind.kind for kind in twice))}")
        joined |= table
    return joined


RULES: Final = join_rules(
    claims.RULES,
    core.RULES,
    events.RULES,
    passive.RULES,
    pod_groups.RULES,
    pod_templates.RULES,
    pods.RULES,
    policy.RULES,
    storage.RULES,
    workloads.RULES,
)
_NO_RULES: Final = KindRules()


def rules_of(kind: Kind[Any]) -> KindRules:
    return RULES.get(kind, _NO_RULES)


def require_valid(kind: Kind[Any], obj: Body) -> None:
    """Raises Invalid with all causes against a new object."""
    rules = rules_of(kind)
    _raise_invalid(kind, obj, chain(validate_metadata(rules.check_name, obj), rules.create(obj)))


def require_valid_update(kind: Kind[Any], new: Body, old: Body, subresource: str) -> None:
    """Raises Invalid with all causes against an update; through a subresource, the spec is not checked."""
    rules = rules_of(kind)
    if subresource:
        causes = rules.update_status(new, old)
    elif rules.update is not None:
        causes = rules.update(new, old)
    else:
        kept = chain(immutable_fields(new, old, *rules.immutable), fixed_fields(new, old, *rules.fixed))
        causes = chain(rules.create(new), kept)
    _raise_invalid(kind, new, chain(validate_metadata_update(rules.check_name, new, old), causes))


def _raise_invalid(kind: Kind[Any], obj: Body, causes: Iterator[Cause]) -> None:
    """Consumes the causes lazily: `invalid` keeps only those that it lists."""
    kind = kind.stored_as or kind  # kube-apiserver validates, and names, the stored form
    first = next(causes, None)
    if first is not None:
        raise invalid(kind.kind, meta(obj).get("name", ""), chain((first,), causes), group=kind.group)
