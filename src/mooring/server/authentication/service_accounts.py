"""Service accounts as users: the names and groups by which the rest of the server knows them."""

from collections.abc import Mapping
from typing import Final

from mooring.server.contract import User

PREFIX: Final = "system:serviceaccount:"
_GROUP: Final = "system:serviceaccounts"


def user_name(namespace: str, name: str) -> str:
    return f"{PREFIX}{namespace}:{name}"


def groups(namespace: str) -> tuple[str, str]:
    return _GROUP, f"{_GROUP}:{namespace}"


def service_account(
    namespace: str, name: str, uid: str = "", extra: Mapping[str, tuple[str, ...]] | None = None
) -> User:
    return User(user_name(namespace, name), groups(namespace), uid, dict(extra or {}))


def split(user: str) -> tuple[str, str] | None:
    """Namespace and name, where a user name is that of a service account."""
    namespace, colon, name = user.removeprefix(PREFIX).partition(":")
    is_one = user.startswith(PREFIX) and colon and namespace and name and ":" not in name
    return (namespace, name) if is_one else None
