"""Nobody grants more than they have: the checks on writing roles and bindings.

A role may hold only rules its writer has, unless they may `escalate` that role; a binding may hand out only a role
whose rules its writer has, unless they may `bind` that role. Without this, the right to write roles would be the right
to do anything. Upstream keeps these in the storage of the RBAC kinds; the texts are its own.
"""

from collections.abc import Sequence

import msgspec

from mooring.api.errors import not_found
from mooring.api.views.access import PolicyRule
from mooring.server.admission.review import Review
from mooring.server.authorization.attributes import ResourceRequest, is_master
from mooring.server.authorization.rules import FULL_AUTHORITY, compacted, described, quoted, uncovered
from mooring.server.body import Body, meta, part


async def refuse_escalation(review: Review) -> None:
    """For roles."""
    kind, name = review.kind, meta(review.new).get("name", "")
    if _is_same(review, "rules", "aggregationRule") or is_master(review.user):
        return
    escalate = ResourceRequest("escalate", kind.group, kind.plural, "", review.namespace, name)
    if (await review.access.decide(review.user, escalate)).allowed:
        return
    await _require_held(review, _rules(review.new))
    if "aggregationRule" in review.new and uncovered(await _held(review), FULL_AUTHORITY):
        raise review.forbidden("must have cluster-admin privileges to use the aggregationRule")


async def refuse_foreign_role(review: Review) -> None:
    """For bindings."""
    if _is_same(review, "roleRef", "subjects") or is_master(review.user):
        return
    ref = part(review.new, "roleRef")
    of_namespace = ref.get("kind") == "Role"
    name = ref.get("name", "")
    plural = "roles" if of_namespace else "clusterroles"
    bind = ResourceRequest("bind", review.kind.group, plural, "", review.namespace, name)
    if (await review.access.decide(review.user, bind)).allowed:
        return
    rules = await review.access.role(review.namespace if of_namespace else "", name)
    if rules is None:
        # Upstream names the resource of the binding here, although it is the role that was not found.
        raise not_found(review.kind.plural, name, group=review.kind.group)
    await _require_held(review, rules)


async def _require_held(review: Review, wanted: Sequence[PolicyRule]) -> None:
    missing = uncovered(await _held(review), wanted)
    if missing:
        listed = "\n".join(sorted(described(rule) for rule in compacted(missing)))
        user = review.user
        raise review.forbidden(
            f'user "{user.name}" (groups={quoted(user.groups)}) is attempting to grant RBAC permissions '
            f"not currently held:\n{listed}"
        )


async def _held(review: Review) -> Sequence[PolicyRule]:
    return (await review.access.rules_of(review.user, review.namespace)).rules


def _rules(role: Body) -> Sequence[PolicyRule]:
    return msgspec.convert(role.get("rules", []), tuple[PolicyRule, ...])


def _is_same(review: Review, *fields: str) -> bool:
    """Whether an update leaves alone what grants rights; labels and owners are not looked at."""
    return review.old is not None and all(review.new.get(field) == review.old.get(field) for field in fields)
