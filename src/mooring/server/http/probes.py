"""Health probes: `/healthz`, `/livez`, `/readyz`, each with `?verbose` and `?exclude`, and its checks as paths below.

Being alive means being able to answer; what being ready means beyond that is given by whoever composes the process.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import structlog
from aiohttp import web
from structlog.typing import FilteringBoundLogger

from mooring.api.health import Check, Health
from mooring.server.http.answers import text_answer

ENDPOINTS: Final = frozenset({"healthz", "livez", "readyz"})

log: FilteringBoundLogger = structlog.get_logger(__name__)


class Probes:
    def __init__(self, readiness: Mapping[str, Check]) -> None:
        self._endpoints = {
            "healthz": Health("healthz", {}),
            "livez": Health("livez", {}),
            "readyz": Health("readyz", readiness),
        }

    def answer(
        self, endpoint: str, below: Sequence[str], *, verbose: bool, exclude: Collection[str] = ()
    ) -> web.Response | None:
        """`below` names one check of the endpoint, or nothing for all; None where there is no such check."""
        health = self._endpoints[endpoint]
        if len(below) > 1:
            return None
        answer = health.answer_one(below[0]) if below else health.answer(verbose=verbose, exclude=exclude)
        if answer is None:
            return None
        if answer.failures:
            log.info("probe failed", endpoint=endpoint, failures=dict(answer.failures))
        return text_answer(answer.text, code=200 if answer.healthy else 500)
