"""The small listener of a component's process: `/healthz`, `/livez`, `/readyz` and `/metrics`, and nothing else.

Plain HTTP for probes and scrapers, on loopback unless told otherwise; it tells no secrets and changes nothing.
"""

from collections.abc import Callable, Mapping

from aiohttp import web

from mooring.api.health import Check
from mooring.server.http.answers import metrics_answer, text_answer
from mooring.server.http.listening import Listener, listen
from mooring.server.http.options import flag
from mooring.server.http.probes import ENDPOINTS, Probes


class Monitoring:
    """What the listener answers."""

    def __init__(self, readiness: Mapping[str, Check], metrics: Callable[[], bytes]) -> None:
        self._probes = Probes(readiness)
        self._metrics = metrics

    async def listen(self, host: str, port: int) -> Listener:
        """Answer there until the listener is closed. Raises CannotListen."""
        return await listen(self.handle, host, port, None)

    async def handle(self, request: web.BaseRequest) -> web.Response:
        if request.method not in ("GET", "HEAD"):
            return text_answer("method not allowed\n", code=405)
        match request.path.strip("/").split("/"):
            case ["metrics"]:
                return metrics_answer(self._metrics())
            case [endpoint, *below] if endpoint in ENDPOINTS:
                verbose, exclude = flag(request.query, "verbose"), request.query.getall("exclude", [])
                answer = self._probes.answer(endpoint, below, verbose=verbose, exclude=exclude)
                if answer is not None:
                    return answer
            case _:
                pass
        return text_answer("404 page not found\n", code=404)
