"""Nobody grants more than they have: the checks on writing roles and bindings.

A role may hold only rules its writer has, unless they may `escalate` that role; a binding may hand out only a role
whose rules its writer has, unless they may `bind` that role. Without this, the right to write roles would be the right
to do anything. Upstream keeps these in the storage of the RBAC kinds; the texts are its own.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from mooring.api.errors import not_found
from mooring.api.views.access import PolicyRule
from mooring.server.admission.review import Review
from mooring.server.authorization.attributes import ResourceRequest, is_master
from mooring.server.authorization.coverage import Lacking, TooWide, lacking
from mooring.server.authorization.index import UserRules, missing_roles
from mooring.server.authorization.rules import FULL_AUTHORITY, compacted, described, quoted
from mooring.server.body import Body, meta, part

#: Metadata that may change without a look at the rights: what the garbage collector writes, and who owns fields.
_COLLECTION: Final = frozenset({"ownerReferences", "finalizers", "selfLink", "managedFields"})


async def refuse_escalation(review: Review) -> None:
    """For roles."""
    kind = review.kind
    if is_master(review.user):
        return
    escalate = ResourceRequest("escalate", kind.group, kind.plural, "", review.namespace, review.requested_name)
    if (await review.access.decide(review.user, escalate)).allowed:
        return
    if _only_changes_collection(review):
        return
    await _require_held(review, _rules(review.new))
    aggregates = _aggregates(review.new) or _aggregates(review.old or {})
    if aggregates and _lacking(review, await _held(review), FULL_AUTHORITY).rights:
        raise review.forbidden("must have cluster-admin privileges to use the aggregationRule")


async def refuse_foreign_role(review: Review) -> None:
    """For bindings."""
    if is_master(review.user) or _only_changes_collection(review):
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
    held = await _held(review)
    missing = _lacking(review, held, wanted)
    if missing.rights:
        listed = "\n".join(sorted({described(rule) for rule in compacted(missing.rights)}))
        if missing.more:
            listed += f"\nand {missing.more} more"
        unresolved = ""
        if held.missing:
            unresolved = f"; resolution errors: [{missing_roles(held.missing, called=review.kind.plural)}]"
        user = review.user
        raise review.forbidden(
            f'user "{user.name}" (groups={quoted(user.groups)}) is attempting to grant RBAC permissions '
            f"not currently held:\n{listed}{unresolved}"
        )


def _lacking(review: Review, held: UserRules, wanted: Sequence[PolicyRule]) -> Lacking:
    try:
        return lacking(held.rules, wanted)
    except TooWide as problem:
        raise review.forbidden(str(problem)) from problem


async def _held(review: Review) -> UserRules:
    return await review.access.rules_of(review.user, review.namespace)


def _rules(role: Body) -> Sequence[PolicyRule]:
    return msgspec.convert(role.get("rules", []), tuple[PolicyRule, ...])


def _aggregates(role: Body) -> bool:
    return bool(part(role, "aggregationRule").get("clusterRoleSelectors"))


def _only_changes_collection(review: Review) -> bool:
    """Whether an update changes nothing but what garbage collection does: owners and finalizers.

    Labels count as a change: by its labels a role becomes part of aggregated roles, and so grants its rules to every
    subject of those. As upstream, an update that leaves out the uid, the version or the creation time is a change too.
    """
    if review.old is None:
        return False
    sent = {name: value for name, value in review.sent_metadata.items() if name not in _COLLECTION}
    kept = {name: value for name, value in meta(review.old).items() if name not in _COLLECTION}
    return sent == kept and review.new | {"metadata": None} == review.old | {"metadata": None}
