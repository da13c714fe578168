"""Get one object, through its own endpoint or that of its status: both show all of it."""

from mooring.server.contract import Target
from mooring.server.environment import Environment
from mooring.server.subresources import require_endpoint


async def get_object(environment: Environment, target: Target) -> bytes:
    require_endpoint(target, "get")
    return (await environment.objects.require(target)).body
