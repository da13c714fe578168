"""Get one object, through its own endpoint or that of its status: both show all of it."""

from mooring.server.contract import Target
from mooring.server.environment import Environment
from mooring.server.subresources import require_endpoint
from mooring.server.versions import BadVersion, parse, reached


async def get_object(environment: Environment, target: Target, resource_version: str = "") -> bytes:
    require_endpoint(target, "get")
    try:
        wanted = parse(resource_version)
    except ValueError as problem:
        raise BadVersion(str(problem)) from problem
    await reached(environment, wanted)
    return (await environment.objects.require(target)).body
