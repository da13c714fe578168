"""Which endpoints an object has besides its own."""

from mooring.api.errors import NotFound
from mooring.server.contract import Target


def require_endpoint(target: Target) -> None:
    """The object itself and, where the kind has one, its status; NotFound for anything else."""
    if target.subresource and not (target.subresource == "status" and target.kind.has_status):
        raise NotFound("the server could not find the requested resource")
