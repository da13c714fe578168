"""The one secret a driver call carries, or why the call cannot be made without it."""

from mooring.api.errors import ApiError
from mooring.client.contract import Client, Unreachable
from mooring.client.secret_values import secret_values
from mooring.provisioner.attempt import Refusal, State
from mooring.provisioner.secret_references import SecretReference


async def read(client: Client, reference: SecretReference | None) -> dict[str, str] | Refusal:
    """Its values as text; nothing where none is named."""
    if reference is None:
        return {}
    try:
        return await secret_values(client, reference.name, namespace=reference.namespace)
    except (ApiError, Unreachable) as error:
        shown = f"{reference.namespace}/{reference.name}"
        return Refusal(State.NO_CHANGE, f"error getting secret {shown}: {error}")
