"""Reads the values of a Secret. They go to whoever asked and nowhere else: never into logs or errors."""

import base64
import binascii
from dataclasses import replace
from typing import Final, cast

from mooring.api.errors import BadRequest
from mooring.api.kinds import SECRET, Kind
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Client


class SecretValues(ApiObject, frozen=True, gc=False):
    data: dict[str, str] = {}


#: The same kind with its data in view; informers share the row that leaves it out.
_SECRET: Final = cast("Kind[SecretValues]", replace(SECRET, view=SecretValues))


async def secret_values(client: Client, name: str, *, namespace: str) -> dict[str, str]:
    """As text. Raises ApiError as `get` does, and BadRequest for values that are not text."""
    secret = await client.get(_SECRET, name, namespace=namespace)
    try:
        return {key: base64.b64decode(value, validate=True).decode() for key, value in secret.data.items()}
    except (binascii.Error, UnicodeDecodeError) as error:
        raise BadRequest(f"secret {namespace}/{name} holds values that are not text") from error
