"""The extender's port: kube-scheduler's calls over HTTP, with mutual TLS wherever others could reach it.

One path per verb, JSON bodies, `/version`, and nothing else: probes and metrics have a port of their own. Whoever is
let in may have any pod bound to any node, so beyond this machine only those get in who show a certificate. What a call
means is `scheduler.extender`'s business; until that is there, callers are told to come back.
"""

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import msgspec
import structlog
from aiohttp import web
from structlog.typing import FilteringBoundLogger

from mooring import __version__
from mooring.clock import Clock
from mooring.cluster.extender_credentials import Credentials, Stamps, Unusable
from mooring.control.component import Component
from mooring.scheduler.extender.component import NOT_READY, UNAVAILABLE, Reply, refusal
from mooring.scheduler.extender.wire import VERBS
from mooring.server.http.answers import json_answer, text_answer
from mooring.server.http.host_guard import is_loopback
from mooring.server.http.internal_errors import internal_error
from mooring.server.http.listening import Listener, listen

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Five thousand nodes of some 13 kB each, as whole objects; their names are a hundredth of that.
LIMIT_BYTES: Final = 64 * 1024 * 1024
#: Seconds for a body to arrive: kube-scheduler itself waits no longer than this for the answer.
BODY_SECONDS: Final = 5.0

#: Seconds between two looks at the certificates; the kubelet brings new ones every minute.
RENEWAL_SECONDS: Final = 60.0

JSON: Final = "application/json"
#: Beside the verbs, to be read: who answers, in the field that Kubernetes' components say it in.
VERSION: Final = "version"

#: Who answers: verb and body in, code and body out.
Call = Callable[[str, bytes], Awaitable[Reply]]


@dataclass(frozen=True)
class DoorSettings:
    host: str
    port: int
    #: None for plain HTTP.
    credentials: Credentials | None = None

    def check(self) -> None:
        """Raises Unusable where anybody on the network could bind pods."""
        if not is_loopback(self.host) and (self.credentials is None or self.credentials.client_authority is None):
            raise Unusable(
                f"{self.host} can be reached from elsewhere, and whoever calls may place pods: give --tls-cert-file, "
                "--tls-private-key-file and --client-ca-file, or listen on 127.0.0.1."
            )


class ExtenderDoor:
    """Open it before the extender is there; as a component it then takes up renewed certificates."""

    name: ClassVar[str] = "extender door"
    ready: ClassVar[bool] = True

    def __init__(self, settings: DoorSettings, clock: Clock, rng: random.Random) -> None:
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._tls: ssl.SSLContext | None = None
        self._stamps: Stamps = []
        self._names = settings.credentials.client_names if settings.credentials is not None else frozenset()
        self._call: Call | None = None

    def lead_to(self, call: Call) -> None:
        """From now on calls go there."""
        self._call = call

    async def open(self) -> Listener:
        """Answer until the listener is closed. Raises Unusable and CannotListen."""
        settings = self._settings
        settings.check()
        if settings.credentials is not None:
            self._stamps = settings.credentials.stamps()
            self._tls = settings.credentials.context()
        return await listen(self.handle, settings.host, settings.port, self._tls)

    async def run(self) -> None:
        """Look whether certificates were renewed, until cancelled."""
        credentials, tls = self._settings.credentials, self._tls
        while True:
            await self._clock.sleep(RENEWAL_SECONDS)
            if credentials is not None and tls is not None and (now := credentials.stamps()) != self._stamps:
                self._stamps = now
                self._renew(credentials, tls)

    @staticmethod
    def _renew(credentials: Credentials, tls: ssl.SSLContext) -> None:
        try:
            # Into nothing first: half of a pair that is just being written must not be taken up.
            credentials.context()
            credentials.load_into(tls)
        except Unusable as error:
            log.warning("renewed certificates cannot be used, going on with the old ones", why=str(error))
        else:
            log.info("renewed certificates are in use")

    async def handle(self, request: web.BaseRequest) -> web.Response:
        verb = request.path.strip("/")
        if verb not in (*VERBS, VERSION):
            return text_answer(f"404 page not found: calls go to /{', /'.join(VERBS)}\n", code=404)
        if request.method != ("GET" if verb == VERSION else "POST"):
            return text_answer("method not allowed\n", code=405)
        if self._names and not _common_names(request.get_extra_info("peercert")) & self._names:
            log.warning("refused a caller", verb=verb, client=request.remote, why="common name is not allowed")
            return text_answer("the certificate's common name is none of those allowed to call\n", code=403)
        if verb == VERSION:
            return json_answer(msgspec.json.encode({"gitVersion": f"v{__version__}"}))
        try:
            reply = await self._answer(request, verb)
        except Exception as error:
            reply = refusal(verb, internal_error(request, error, self._rng).message, code=500)
        return json_answer(reply.body, code=reply.code)

    async def _answer(self, request: web.BaseRequest, verb: str) -> Reply:
        # Web pages can make a browser on this machine send forms, but not this.
        if request.content_type != JSON:
            return refusal(verb, f"the body must be {JSON}", code=415)
        body = await _body(request)
        if isinstance(body, str):
            return refusal(verb, body, code=413)
        if self._call is None:
            return refusal(verb, NOT_READY, code=UNAVAILABLE)
        return await self._call(verb, body)


async def _body(request: web.BaseRequest) -> bytes | str:
    """All of it, or what is wrong with it."""
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.content.iter_any():
                size += len(chunk)
                if size > LIMIT_BYTES:
                    return f"the body is larger than {LIMIT_BYTES} bytes: set nodeCacheCapable to true"
                chunks.append(chunk)
    except TimeoutError:
        return f"the body did not arrive within {BODY_SECONDS:g} seconds"
    except web.RequestPayloadError as error:
        return f"the body could not be read: {error}"
    return b"".join(chunks)


def _common_names(certificate: Mapping[str, Any] | None) -> set[str]:
    """Of what `ssl` gives for a caller's certificate: tuples of tuples of pairs."""
    subject = (certificate or {}).get("subject", ())
    return {value for part in subject for name, value in part if name == "commonName"}


def _contract(door: ExtenderDoor) -> Component:
    return door
