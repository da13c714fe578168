"""Refusals that are no news: what a controller need not tell and must not try again. Pure."""

from typing import Final

from mooring.api.errors import ApiError, Forbidden

#: The cause the server names when it refuses new contents in a namespace that goes.
TERMINATING: Final = "NamespaceTerminating"


def namespace_goes(error: ApiError) -> bool:
    """Whether the server refused because the namespace is being deleted: everything in it goes anyway."""
    causes = error.details.causes if error.details is not None else ()
    return isinstance(error, Forbidden) and any(cause.reason == TERMINATING for cause in causes)
