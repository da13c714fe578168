"""Cluster roles made of others: which rules an aggregated role has. Pure.

The server fills in its bootstrap roles with this, a controller keeps all aggregated roles current.
"""

from collections.abc import Iterable

from mooring.api import label_selector
from mooring.api.views.access import ClusterRole, PolicyRule


def aggregated_rules(role: ClusterRole, roles: Iterable[ClusterRole]) -> tuple[PolicyRule, ...]:
    """The rules of all roles that the selectors choose, itself excepted, by name and without repetition."""
    if role.aggregation_rule is None:
        return role.rules or ()
    views = role.aggregation_rule.cluster_role_selectors
    selectors = [label_selector.from_view(view.match_labels, view.match_expressions) for view in views]
    chosen = [
        other
        for other in sorted(roles, key=lambda other: other.name)
        if other.name != role.name and any(selector.matches(other.metadata.labels) for selector in selectors)
    ]
    return tuple(dict.fromkeys(rule for other in chosen for rule in other.rules or ()))
