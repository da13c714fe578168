"""TokenReviews, access reviews and rules reviews: create returns the object with its status, nothing is stored.

Behind `kubectl auth can-i`, `auth can-i --list` and `auth whoami`, and used by other servers for their own clients.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from mooring.api import kinds
from mooring.api.documents import Body
from mooring.api.errors import BadRequest, Cause, bad_value, invalid
from mooring.api.kinds import Kind
from mooring.api.views.core import PolicyRule
from mooring.server.auth.authenticator import BadToken
from mooring.server.auth.rbac import PathRequest, Request, ResourceRequest, missing_roles
from mooring.server.contract import SentBody, Target, User, WriteOptions, Written
from mooring.server.decoding import read_body
from mooring.server.encoding import meta, part
from mooring.server.environment import RequestContext
from mooring.server.system_fields import set_namespace
from mooring.server.verbs.write import CREATED

StatusOf = Callable[[RequestContext, Body], Awaitable[Body]]


async def create_review(context: RequestContext, target: Target, body: SentBody, options: WriteOptions) -> Written:
    review, warnings = await context.run(partial(read_body, target.kind, body, options), options.body_bytes)
    set_namespace(review, target)
    review["status"] = await _STATUS[target.kind](context, review)
    return Written(msgspec.json.encode(review), CREATED, warnings)


async def _local_access(context: RequestContext, review: Body) -> Body:
    path = "spec.resourceAttributes.namespace"
    asked, here = part(review, "spec", "resourceAttributes").get("namespace", ""), meta(review).get("namespace", "")
    causes = [] if asked == here else [bad_value(path, asked, "must match metadata.namespace")]
    return await _access(context, _subject(review), review, *causes)


async def _access(context: RequestContext, user: User, review: Body, *found: Cause) -> Body:
    causes, spec = [*found], part(review, "spec")
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) == (path is None):
        shown = {"Path": path.get("path", ""), "Verb": path.get("verb", "")} if path is not None else None
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        causes.append(bad_value("spec", shown, why))
    if not user.name and not user.groups:
        causes.append(bad_value("spec.user", "", "at least one of user or group must be specified"))
    if causes:
        # Without a kind, as in kube-apiserver.
        raise invalid("", "", causes, group=kinds.ACCESS_REVIEW.group)
    decision = await context.security.access.decide(user, _request(resource, path or {}))
    return {"allowed": decision.allowed} | ({"reason": decision.reason} if decision.reason else {})


def _request(resource: Body | None, path: Body) -> Request:
    if resource is None:
        return PathRequest(path.get("verb", ""), path.get("path", ""))
    asked = {field: resource.get(field, "") for field in ResourceRequest.__struct_fields__}
    return ResourceRequest(**asked)


def _subject(review: Body) -> User:
    spec = part(review, "spec")
    extra = {key: tuple(values) for key, values in part(spec, "extra").items()}
    return User(spec.get("user", ""), tuple(spec.get("groups", ())), spec.get("uid", ""), extra)


async def _rules(context: RequestContext, review: Body) -> Body:
    namespace = part(review, "spec").get("namespace")
    if not namespace:
        raise BadRequest("no namespace on request")
    # Upstream does not repeat the review in its answer.
    review["spec"] = {}
    found = await context.security.access.rules_of(context.user, namespace)
    status: Body = {
        "resourceRules": [_resource_rule(rule) for rule in found.rules if rule.resources],
        "nonResourceRules": [
            {"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls}
            for rule in found.rules
            if rule.non_resource_urls
        ],
        "incomplete": False,
    }
    return status | ({"evaluationError": missing_roles(found.missing)} if found.missing else {})


def _resource_rule(rule: PolicyRule) -> Body:
    status: Body = {"verbs": rule.verbs, "apiGroups": rule.api_groups, "resources": rule.resources}
    return status | ({"resourceNames": rule.resource_names} if rule.resource_names else {})


async def _self(context: RequestContext, review: Body) -> Body:
    meta(review)["creationTimestamp"] = context.now()
    return {"userInfo": _user_info(context.user)}


async def _token(context: RequestContext, review: Body) -> Body:
    spec = part(review, "spec")
    if not (token := spec.get("token")):
        raise BadRequest("token is required for TokenReview in authentication")
    try:
        found = await context.security.tokens.identify(token, tuple(spec.get("audiences", ())))
    except BadToken as problem:
        return {"user": {}, "error": f"[invalid bearer token, {problem}]"}
    if found is None:
        return {"user": {}, "error": "invalid bearer token"}
    status: Body = {"authenticated": True, "user": _user_info(found.user)}
    return status | ({"audiences": found.audiences} if found.audiences else {})


def _user_info(user: User) -> Body:
    info = {"username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra}
    return {field: value for field, value in info.items() if value}


_STATUS: Final[Mapping[Kind[Any], StatusOf]] = {
    kinds.TOKEN_REVIEW: _token,
    kinds.SELF_SUBJECT_REVIEW: _self,
    kinds.ACCESS_REVIEW: lambda context, review: _access(context, _subject(review), review),
    kinds.SELF_ACCESS_REVIEW: lambda context, review: _access(context, context.user, review),
    kinds.LOCAL_ACCESS_REVIEW: _local_access,
    kinds.SELF_RULES_REVIEW: _rules,
}
REVIEWS: Final = frozenset(_STATUS)
