"""Reviews: questions about who somebody is and what they may do, answered in the object that asks. Nothing is kept.

What `kubectl auth can-i`, `auth can-i --list` and `auth whoami` ask, and what other servers ask on behalf of their own
callers. Who may ask about others is a right like any other.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from mooring.api.errors import BadRequest, Cause, invalid
from mooring.api.field_errors import bad_value
from mooring.api.kinds import (
    ACCESS_REVIEW,
    LOCAL_ACCESS_REVIEW,
    SELF_ACCESS_REVIEW,
    SELF_RULES_REVIEW,
    SELF_SUBJECT_REVIEW,
    TOKEN_REVIEW,
    Kind,
)
from mooring.api.views.access import PolicyRule
from mooring.server.authentication.tokens import BadToken
from mooring.server.authorization.attributes import PathRequest, Request, ResourceRequest
from mooring.server.authorization.index import missing_roles
from mooring.server.body import Body, meta, part
from mooring.server.contract import Target, User, WriteOptions, Written
from mooring.server.decoding import read_body
from mooring.server.environment import Environment
from mooring.server.system_fields import place
from mooring.server.verbs.create import CREATED

Answer = Callable[[Environment, Body], Awaitable[Body]]


async def create_review(
    environment: Environment, target: Target, body: Mapping[str, Any], options: WriteOptions
) -> Written:
    question, warnings = await environment.run(partial(read_body, target.kind, body, options), options.body_bytes)
    place(question, target)
    question["status"] = await _ANSWERS[target.kind](environment, question)
    return Written(msgspec.json.encode(question), CREATED, warnings)


async def _self_access(environment: Environment, question: Body) -> Body:
    return await _access(environment, environment.user, question, [])


async def _local_access(environment: Environment, question: Body) -> Body:
    path = "spec.resourceAttributes.namespace"
    asked, here = part(question, "spec", "resourceAttributes").get("namespace", ""), meta(question).get("namespace", "")
    causes = [] if asked == here else [bad_value(path, asked, "must match metadata.namespace")]
    return await _access(environment, _subject(question), question, causes)


async def _others_access(environment: Environment, question: Body) -> Body:
    return await _access(environment, _subject(question), question, [])


async def _access(environment: Environment, user: User, question: Body, causes: list[Cause]) -> Body:
    spec = part(question, "spec")
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is None and path is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        causes.append(bad_value("spec.resourceAttributes", None, why))
    if resource is not None and path is not None:
        shown = {"Path": path.get("path", ""), "Verb": path.get("verb", "")}
        why = "cannot be specified in combination with resourceAttributes"
        causes.append(bad_value("spec.nonResourceAttributes", shown, why))
    if not user.name and not user.groups:
        causes.append(bad_value("spec.user", "", "at least one of user or group must be specified"))
    if causes:
        # Without a kind, as upstream words it: these are questions, not objects.
        raise invalid("", "", causes, group=ACCESS_REVIEW.group)
    decision = await environment.security.access.decide(user, _request(resource, path or {}))
    return {"allowed": decision.allowed} | ({"reason": decision.reason} if decision.reason else {})


def _request(resource: Body | None, path: Body) -> Request:
    if resource is None:
        return PathRequest(path.get("verb", ""), path.get("path", ""))
    asked = {field: resource.get(field, "") for field in ResourceRequest.__struct_fields__}
    return ResourceRequest(**asked)


def _subject(question: Body) -> User:
    spec = part(question, "spec")
    extra = {key: tuple(values) for key, values in part(spec, "extra").items()}
    return User(spec.get("user", ""), tuple(spec.get("groups", ())), spec.get("uid", ""), extra)


async def _rules(environment: Environment, question: Body) -> Body:
    namespace = part(question, "spec").get("namespace")
    if not namespace:
        raise BadRequest("no namespace on request")
    # Upstream does not repeat the question in its answer.
    question["spec"] = {}
    found = await environment.security.access.rules_of(environment.user, namespace)
    status: Body = {
        "resourceRules": [_resource_rule(rule) for rule in found.rules if rule.resources],
        "nonResourceRules": [_path_rule(rule) for rule in found.rules if rule.non_resource_urls],
        "incomplete": False,
    }
    return status | ({"evaluationError": missing_roles(found.missing)} if found.missing else {})


def _resource_rule(rule: PolicyRule) -> Body:
    said: Body = {"verbs": rule.verbs, "apiGroups": rule.api_groups, "resources": rule.resources}
    return said | ({"resourceNames": rule.resource_names} if rule.resource_names else {})


def _path_rule(rule: PolicyRule) -> Body:
    return {"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls}


async def _self(environment: Environment, question: Body) -> Body:
    meta(question)["creationTimestamp"] = environment.now()
    return {"userInfo": _user_info(environment.user)}


async def _token(environment: Environment, question: Body) -> Body:
    spec = part(question, "spec")
    if not (token := spec.get("token")):
        raise BadRequest("token is required for TokenReview in authentication")
    try:
        found = await environment.security.tokens.identify(token, tuple(spec.get("audiences", ())))
    except BadToken as problem:
        return {"user": {}, "error": f"[invalid bearer token, {problem}]"}
    if found is None:
        return {"user": {}, "error": "invalid bearer token"}
    status: Body = {"authenticated": True, "user": _user_info(found.user)}
    return status | ({"audiences": found.audiences} if found.audiences else {})


def _user_info(user: User) -> Body:
    said = {"username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra}
    return {field: value for field, value in said.items() if value}


_ANSWERS: Final[Mapping[Kind[Any], Answer]] = {
    TOKEN_REVIEW: _token,
    SELF_SUBJECT_REVIEW: _self,
    ACCESS_REVIEW: _others_access,
    SELF_ACCESS_REVIEW: _self_access,
    LOCAL_ACCESS_REVIEW: _local_access,
    SELF_RULES_REVIEW: _rules,
}
REVIEWS: Final = frozenset(_ANSWERS)
