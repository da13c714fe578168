"""A claim as the server has it now: what is decided on old news would have to be undone."""

from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Client


async def live_claim(client: Client, uid: str, known: ApiObject | None) -> Claim | None:
    """The claim of this uid, if it is still there; `known` is what has its name."""
    if known is None:
        return None
    try:
        live = await client.get(CLAIM, known.name, namespace=known.namespace)
    except NotFound:
        return None
    return live if live.uid == uid else None
