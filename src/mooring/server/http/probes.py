"""Health probes: `/healthz`, `/livez`, `/readyz`, each with `?verbose` and with its checks as paths below it.

Being able to answer at all is the check `ping`; what readiness beyond that means is given by whoever composes the
process. Upstream's texts, since people and probes grep for them.
"""

from collections.abc import Callable, Sequence
from typing import Final

from aiohttp import web

from mooring.server.http.answers import text_answer

ENDPOINTS: Final = frozenset({"healthz", "livez", "readyz"})


class Probes:
    def __init__(self, ready: Callable[[], bool]) -> None:
        self._ready = ready

    def answer(self, endpoint: str, below: Sequence[str], *, verbose: bool) -> web.Response | None:
        """`below` names one check of the endpoint, or nothing for all; None where there is no such check."""
        checks = {"ping": True}
        if endpoint == "readyz":
            checks["components"] = self._ready()
        if below:
            if len(below) > 1 or below[0] not in checks:
                return None
            checks = {below[0]: checks[below[0]]}
        passed = all(checks.values())
        if passed and not verbose:
            return text_answer("ok")
        lines = [f"[+]{check} ok" if good else f"[-]{check} failed: not ready" for check, good in checks.items()]
        lines.append(f"{endpoint} check {'passed' if passed else 'failed'}")
        return text_answer("\n".join(lines) + "\n", code=200 if passed else 500)
