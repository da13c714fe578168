"""Live reads: objects that may not exist, and the values of a Secret, which never appear in logs or errors."""

import asyncio
import base64
import binascii
from collections.abc import Collection
from dataclasses import replace
from typing import Final, TypeVar, cast

from mooring.api.errors import BadRequest, NotFound
from mooring.api.kinds import SECRET, Kind
from mooring.api.views.meta import ApiObject
from mooring.api.views.storage import SecretReference
from mooring.client.contract import Client
from mooring.client.informer import Informer

V = TypeVar("V", bound=ApiObject)

#: Objects that are read one by one at the most, and how many listed ones cost as much as one that is read.
MAX_SINGLE_READS: Final = 32
LISTED_PER_READ: Final = 50


async def get_or_none(client: Client, kind: Kind[V], name: str, *, namespace: str = "", uid: str = "") -> V | None:
    """A live read; None if the object does not exist or, with `uid`, if another one has its name."""
    try:
        found = await client.get(kind, name, namespace=namespace)
    except NotFound:
        return None
    return found if uid in ("", found.uid) else None


async def get_named(informer: Informer[V], client: Client, names: Collection[str], *, namespace: str) -> dict[str, V]:
    """Live reads of the named objects, by key; without those that do not exist. One list, unless there are so many
    objects of the informer's kind that it would cost more than single reads."""
    kind = informer.kind
    if len(names) > MAX_SINGLE_READS or len(names) * LISTED_PER_READ >= len(informer.items()):
        listed = (await client.list(kind, namespace=namespace)).items
        return {each.key: each for each in listed if each.name in names}
    found = await asyncio.gather(*(get_or_none(client, kind, name, namespace=namespace) for name in names))
    return {each.key: each for each in found if each is not None}


class SecretValues(ApiObject, frozen=True, gc=False):
    data: dict[str, str] = {}


#: With `data` in its view, unlike the SECRET that informers share.
_SECRET: Final = cast("Kind[SecretValues]", replace(SECRET, view=SecretValues))


async def secret_values(client: Client, reference: SecretReference | None) -> dict[str, str]:
    """The decoded values; empty without a reference. Raises ApiError as `get` does, and BadRequest for values that are
    not text."""
    if reference is None:
        return {}
    secret = await client.get(_SECRET, reference.name, namespace=reference.namespace)
    try:
        return {key: base64.b64decode(value, validate=True).decode() for key, value in secret.data.items()}
    except (binascii.Error, UnicodeDecodeError) as error:
        raise BadRequest(f"secret {reference.namespace}/{reference.name} holds values that are not text") from error
