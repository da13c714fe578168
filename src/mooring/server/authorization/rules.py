"""What a rule allows, and how rules are told. Pure; `coverage` has what rules lack of others.

The star is everything: every verb, group or resource; `*/scale` is one subresource of every resource, and a path
that ends in a star is everything below it. A resource does not include its subresources.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from mooring.api.views.access import PolicyRule
from mooring.server.authorization.attributes import PathRequest, ResourceRequest

ALL: Final = "*"
#: Everything there is to allow.
FULL_AUTHORITY: Final = (PolicyRule((ALL,), (ALL,), (ALL,)), PolicyRule((ALL,), non_resource_urls=(ALL,)))


def allows_resource(rule: PolicyRule, request: ResourceRequest) -> bool:
    return (
        _has(rule.verbs, request.verb)
        and _has(rule.api_groups, request.group)
        and _has_resource(rule.resources, request.full_resource)
        and (not rule.resource_names or request.name in rule.resource_names)
    )


def allows_path(rule: PolicyRule, request: PathRequest) -> bool:
    return _has(rule.verbs, request.verb) and any(_is_below(url, request.path) for url in rule.non_resource_urls)


def compacted(rules: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Rules on resources that differ in nothing but their verbs, as one. Rules on paths stay as they are."""
    paths: list[PolicyRule] = []
    verbs: dict[PolicyRule, list[str]] = {}
    for rule in rules:
        if rule.non_resource_urls:
            paths.append(rule)
        else:
            verbs.setdefault(msgspec.structs.replace(rule, verbs=()), []).extend(rule.verbs)
    return [*(msgspec.structs.replace(about, verbs=tuple(said)) for about, said in verbs.items()), *paths]


def described(rule: PolicyRule) -> str:
    """In the words of upstream's refusals: `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`."""
    parts = (
        ("APIGroups", rule.api_groups),
        ("Resources", rule.resources),
        ("NonResourceURLs", rule.non_resource_urls),
        ("ResourceNames", rule.resource_names),
        ("Verbs", rule.verbs),
    )
    return "{" + ", ".join(f"{name}:{quoted(values)}" for name, values in parts if values) + "}"


def quoted(values: Iterable[str]) -> str:
    """A list as Go prints it."""
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def _has(allowed: Sequence[str], wanted: str) -> bool:
    return wanted in allowed or ALL in allowed


def _has_resource(allowed: Sequence[str], wanted: str) -> bool:
    if wanted in allowed or ALL in allowed:
        return True
    _, slash, subresource = wanted.partition("/")
    return bool(slash) and f"{ALL}/{subresource}" in allowed


def _is_below(url: str, path: str) -> bool:
    return url == path or (url.endswith(ALL) and path.startswith(url.rstrip(ALL)))
