"""Exceptions nobody foresaw: the log gets everything, the client a reference to it and nothing else."""

import random
from typing import Final

import structlog
from aiohttp import web

from mooring.api.errors import ApiError

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


def internal_error(request: web.BaseRequest, error: Exception, rng: random.Random) -> ApiError:
    """Logs the exception with its traceback; the answer is a 500 that names the log line."""
    reference = f"{rng.getrandbits(32):08x}"
    _log.error(
        "unexpected error",
        reference=reference,
        method=request.method,
        path=request.path,
        client=request.remote,
        exc_info=error,
    )
    return ApiError(f"Internal error occurred: the server's log has the details under reference {reference}")
