"""Being somebody else for one request: `kubectl --as`, `--as-group`, `--as-uid`, `--as-user-extra`.

Each part of the other identity is a right of its own, asked of the roles under the verb `impersonate`: users, groups,
serviceaccounts, and in group authentication.k8s.io uids and userextras. Whoever has them all becomes that user and
is from then on judged as that user; nobody else learns whether the user exists.
"""

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import unquote

from multidict import MultiMapping

from mooring.api.errors import BadRequest
from mooring.server.authentication import service_accounts
from mooring.server.authentication.tokens import AUTHENTICATED
from mooring.server.authorization.access import Access
from mooring.server.authorization.attributes import ResourceRequest
from mooring.server.authorization.refusals import require
from mooring.server.contract import User

ANONYMOUS: Final = "system:anonymous"
UNAUTHENTICATED: Final = "system:unauthenticated"

_USER: Final = "Impersonate-User"
_GROUP: Final = "Impersonate-Group"
_UID: Final = "Impersonate-Uid"
_EXTRA: Final = "impersonate-extra-"
_PREFIX: Final = "impersonate-"
_IDENTITIES: Final = "authentication.k8s.io"


async def impersonated(headers: MultiMapping[str], user: User, access: Access) -> User:
    """Who acts: the user, or whoever the user may be. Raises BadRequest and Forbidden."""
    wanted = wanted_user(headers)
    if wanted is None:
        return user
    for request in _rights(wanted):
        await require(access, user, request)
    return User(wanted.name, _groups(wanted), wanted.uid, wanted.extra)


def wanted_user(headers: MultiMapping[str]) -> User | None:
    """What the headers ask for, exactly; None where they ask for nothing."""
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


def _rights(wanted: User) -> Iterator[ResourceRequest]:
    account = service_accounts.split(wanted.name)
    if account is not None:
        yield ResourceRequest("impersonate", "", "serviceaccounts", "", *account)
    else:
        yield ResourceRequest("impersonate", "", "users", name=wanted.name)
    for group in wanted.groups:
        yield ResourceRequest("impersonate", "", "groups", name=group)
    for key, values in wanted.extra.items():
        for value in values:
            yield ResourceRequest("impersonate", _IDENTITIES, "userextras", key, name=value)
    if wanted.uid:
        yield ResourceRequest("impersonate", _IDENTITIES, "uids", name=wanted.uid)


def _groups(wanted: User) -> tuple[str, ...]:
    """What the server itself would have said of that user, beside what was asked for."""
    groups = list(wanted.groups)
    account = service_accounts.split(wanted.name)
    if account is not None and not groups:
        groups = [*service_accounts.groups(account[0])]
    if wanted.name == ANONYMOUS:
        if UNAUTHENTICATED not in groups:
            groups.append(UNAUTHENTICATED)
    elif not {AUTHENTICATED, UNAUTHENTICATED} & set(groups):
        groups.append(AUTHENTICATED)
    return tuple(groups)
