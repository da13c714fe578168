"""What a rule allows, and what rules cover of other rules. Pure.

The star is everything: every verb, group or resource; `*/scale` is one subresource of every resource, and a path
that ends in a star is everything below it. A resource does not include its subresources.
"""

from collections.abc import Iterable, Iterator, Sequence
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


def uncovered(held: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """The smallest parts of the wanted rules that none of the rules held includes."""
    return [part for rule in wanted for part in _parts(rule) if not any(_covers(mine, part) for mine in held)]


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


def _parts(rule: PolicyRule) -> Iterator[PolicyRule]:
    for verb in rule.verbs:
        for url in rule.non_resource_urls:
            yield PolicyRule((verb,), non_resource_urls=(url,))
        for group in rule.api_groups:
            for resource in rule.resources:
                if not rule.resource_names:
                    yield PolicyRule((verb,), (group,), (resource,))
                for name in rule.resource_names:
                    yield PolicyRule((verb,), (group,), (resource,), (name,))


def _covers(held: PolicyRule, part: PolicyRule) -> bool:
    """`part` is one of `_parts`: one verb on one thing."""
    if not _has(held.verbs, part.verbs[0]):
        return False
    if part.non_resource_urls:
        return any(_is_below(url, part.non_resource_urls[0]) for url in held.non_resource_urls)
    return (
        _has(held.api_groups, part.api_groups[0])
        and _has_resource(held.resources, part.resources[0])
        and (not held.resource_names or (bool(part.resource_names) and part.resource_names[0] in held.resource_names))
    )


def _has(allowed: Sequence[str], wanted: str) -> bool:
    return wanted in allowed or ALL in allowed


def _has_resource(allowed: Sequence[str], wanted: str) -> bool:
    if wanted in allowed or ALL in allowed:
        return True
    _, slash, subresource = wanted.partition("/")
    return bool(slash) and f"{ALL}/{subresource}" in allowed


def _is_below(url: str, path: str) -> bool:
    return url == path or (url.endswith(ALL) and path.startswith(url.rstrip(ALL)))
