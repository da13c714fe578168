"""The small listener of a component's process: `/healthz`, `/livez`, `/readyz`, `/metrics`, and what the component
shows of its inner state under `/debug/`.

Plain HTTP for probes and scrapers, on loopback unless told otherwise; it tells no secrets and changes nothing. Metrics
name no pods, debug documents do: whatever the address, they are for callers on this machine, such as `kubectl
port-forward`, and the listener's `host_guard` keeps web sites in their browsers out.
"""

import socket
from collections.abc import Callable, Mapping
from typing import Final

from aiohttp import web

from mooring.api.debug_documents import DebugDocuments, Inspect
from mooring.api.errors import ApiError
from mooring.api.health import Check
from mooring.server.http.answers import failure, json_answer, metrics_answer, text_answer
from mooring.server.http.host_guard import CLUSTER_NAMES, is_loopback
from mooring.server.http.listening import Listener, listen
from mooring.server.http.options import flag
from mooring.server.http.probes import ENDPOINTS, Probes

NOT_FROM_HERE: Final = "forbidden: only for those who ask from this machine; kubectl port-forward does\n"


class Monitoring:
    """What the listener answers."""

    def __init__(
        self, readiness: Mapping[str, Check], metrics: Callable[[], bytes], debug: DebugDocuments | None = None
    ) -> None:
        self._probes = Probes(readiness)
        self._metrics = metrics
        self._debug = dict(debug or {})

    async def listen(self, host: str, port: int) -> Listener:
        """Answer there until the listener is closed. Raises CannotListen."""
        names = () if is_loopback(host) else (*CLUSTER_NAMES, socket.gethostname())
        return await listen(self.handle, host, port, None, names=names)

    async def handle(self, request: web.BaseRequest) -> web.Response:
        if request.method not in ("GET", "HEAD"):
            return text_answer("method not allowed\n", code=405)
        if (inspect := self._debug.get(request.path)) is not None:
            return _shown(inspect, request)
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


def _shown(inspect: Inspect, request: web.BaseRequest) -> web.Response:
    if not is_loopback(request.remote or ""):
        return text_answer(NOT_FROM_HERE, code=403)
    try:
        return json_answer(inspect(request.query))
    except ApiError as error:
        return failure(error)
