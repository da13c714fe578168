"""Authorizer protocol, kube-apiserver's Forbidden messages, impersonation."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol
from urllib.parse import unquote

from multidict import MultiMapping

from mooring.api.errors import BadRequest, Details, Forbidden
from mooring.api.views.core import PolicyRule
from mooring.server.auth import rbac
from mooring.server.auth.authenticator import AUTHENTICATED
from mooring.server.contract import User


class Authorizer(Protocol):
    async def decide(self, user: User, request: rbac.Request) -> rbac.AuthorizationDecision: ...

    async def rules_of(self, user: User, namespace: str) -> rbac.UserRules:
        """All rules of a user in a namespace and at cluster scope."""

    async def role(self, namespace: str, name: str) -> Sequence[PolicyRule] | None:
        """The rules of a Role, or without a namespace of a ClusterRole; None if it does not exist."""


class AlwaysAllow:
    """For servers with in-process callers only, such as those of simulated clusters."""

    async def decide(self, user: User, request: rbac.Request) -> rbac.AuthorizationDecision:
        return rbac.AuthorizationDecision(True)

    async def rules_of(self, user: User, namespace: str) -> rbac.UserRules:
        return rbac.UserRules(rbac.FULL_AUTHORITY)

    async def role(self, namespace: str, name: str) -> Sequence[PolicyRule] | None:
        return rbac.FULL_AUTHORITY


async def require(access: Authorizer, user: User, request: rbac.Request) -> None:
    """Raises Forbidden."""
    decision = await access.decide(user, request)
    if not decision.allowed:
        raise refusal(user, request, decision)


def refusal(user: User, request: rbac.Request, decision: rbac.AuthorizationDecision) -> Forbidden:
    reason = f": {decision.reason}" if decision.reason else ""
    if isinstance(request, rbac.PathRequest):
        text = f'forbidden: User "{user.name}" cannot {request.verb} path "{request.path}"{reason}'
        return Forbidden(text, details=Details())
    scope = f'in the namespace "{request.namespace}"' if request.namespace else "at the cluster scope"
    resource = f"{request.resource}.{request.group}" if request.group else request.resource
    subject = f'{resource} "{request.name}"' if request.name else resource
    return Forbidden(
        f'{subject} is forbidden: User "{user.name}" cannot {request.verb} resource "{request.full_resource}" '
        f'in API group "{request.group}" {scope}{reason}',
        details=Details(name=request.name, group=request.group, kind=request.resource),
    )


ANONYMOUS: Final = "system:anonymous"
UNAUTHENTICATED: Final = "system:unauthenticated"

_USER: Final = "Impersonate-User"
_GROUP: Final = "Impersonate-Group"
_UID: Final = "Impersonate-Uid"
_EXTRA: Final = "impersonate-extra-"
_PREFIX: Final = "impersonate-"
_IDENTITIES: Final = "authentication.k8s.io"


async def impersonated(headers: MultiMapping[str], user: User, access: Authorizer) -> User:
    """The acting user: `user`, or the impersonated one (`kubectl --as`). Raises BadRequest and Forbidden.

    Each part of the requested identity needs the right to the verb `impersonate`.
    """
    requested = requested_user(headers)
    if requested is None:
        return user
    for request in _rights(requested):
        await require(access, user, request)
    return User(requested.name, _groups(requested), requested.uid, requested.extra)


def requested_user(headers: MultiMapping[str]) -> User | None:
    """The identity in the Impersonate headers; None without such headers."""
    if not [name for name in headers if name[: len(_PREFIX)].lower() == _PREFIX]:
        return None
    name, uid = headers.get(_USER, ""), headers.get(_UID, "")
    if not name:
        raise BadRequest("requested to impersonate groups, a uid or extra fields without impersonating a user name")
    return User(name, tuple(headers.getall(_GROUP, [])), uid, dict(_extras(headers)))


def _extras(headers: MultiMapping[str]) -> Mapping[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {}
    for name, value in headers.items():
        if name.lower().startswith(_EXTRA):
            key = unquote(name[len(_EXTRA) :].lower())
            extra[key] = (*extra.get(key, ()), value)
    return extra


def _rights(requested: User) -> Iterator[rbac.ResourceRequest]:
    account = rbac.split_user_name(requested.name)
    if account is not None:
        yield rbac.ResourceRequest("impersonate", "", "serviceaccounts", "", *account)
    else:
        yield rbac.ResourceRequest("impersonate", "", "users", name=requested.name)
    for group in requested.groups:
        yield rbac.ResourceRequest("impersonate", "", "groups", name=group)
    for key, values in requested.extra.items():
        for value in values:
            yield rbac.ResourceRequest("impersonate", _IDENTITIES, "userextras", key, name=value)
    if requested.uid:
        yield rbac.ResourceRequest("impersonate", _IDENTITIES, "uids", name=requested.uid)


def _groups(requested: User) -> tuple[str, ...]:
    """The requested groups and those that authentication would have added."""
    groups = list(requested.groups)
    account = rbac.split_user_name(requested.name)
    if account is not None and not groups:
        groups = [*rbac.service_account_groups(account[0])]
    if requested.name == ANONYMOUS:
        if UNAUTHENTICATED not in groups:
            groups.append(UNAUTHENTICATED)
    elif not {AUTHENTICATED, UNAUTHENTICATED} & set(groups):
        groups.append(AUTHENTICATED)
    return tuple(groups)
