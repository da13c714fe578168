"""Reading the one secret a driver call carries. Its data goes to the driver and nowhere else: never into logs."""

import base64
import binascii
from dataclasses import replace
from typing import Final, cast

from mooring.api.errors import ApiError
from mooring.api.kinds import SECRET, Kind
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Client, Unreachable
from mooring.provisioner.attempt import Refusal, State
from mooring.provisioner.secret_references import SecretReference


class SecretData(ApiObject, frozen=True, gc=False):
    data: dict[str, str] = {}


#: The same kind with its data in view; informers share the row that leaves it out.
_SECRET: Final = cast("Kind[SecretData]", replace(SECRET, view=SecretData))


async def read(client: Client, reference: SecretReference | None) -> dict[str, str] | Refusal:
    """Its values as text; nothing where none is named."""
    if reference is None:
        return {}
    shown = f"{reference.namespace}/{reference.name}"
    try:
        secret = await client.get(_SECRET, reference.name, namespace=reference.namespace)
    except (ApiError, Unreachable) as error:
        return Refusal(State.NO_CHANGE, f"error getting secret {shown}: {error}")
    try:
        return {key: base64.b64decode(value, validate=True).decode() for key, value in secret.data.items()}
    except (binascii.Error, UnicodeDecodeError):
        return Refusal(State.NO_CHANGE, f"secret {shown} holds values that are not text")
