"""HTTP server of the extender: one path per verb, JSON bodies, `/version`; certificates are reloaded when renewed.

A caller can have any pod bound to any node, so addresses other than loopback require client certificates.
"""

import asyncio
import contextlib
import random
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec
import structlog
from aiohttp import web
from structlog.typing import FilteringBoundLogger

from mooring import __version__
from mooring.clock import Clock
from mooring.scheduler.extender.component import NOT_READY, UNAVAILABLE, Reply, error_reply
from mooring.scheduler.extender.protocol import VERBS
from mooring.server.http.host_guard import is_loopback
from mooring.server.http.listener import Listener, listen
from mooring.server.http.responses import internal_error, json_response, text_response

#: Of each file when it was written, and which one it is.
Stamps = list[tuple[int, int]]


class InvalidExtenderCredentials(ValueError):
    """Unusable certificates, or an address that requires client certificates."""


@dataclass(frozen=True)
class ExtenderCredentials:
    """PEM files of the server certificate and of the CA of client certificates."""

    certificate: Path
    key: Path
    #: CA of client certificates. None, for loopback only, accepts all clients.
    client_authority: Path | None = None
    #: Accepted common names of clients; empty for all of the CA.
    client_names: frozenset[str] = frozenset()

    def context(self) -> ssl.SSLContext:
        """Raises InvalidExtenderCredentials."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.load_into(context)
        return context

    def load_into(self, context: ssl.SSLContext) -> None:
        """Applies to new connections; CAs are added to the loaded ones. Raises InvalidExtenderCredentials."""
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ValueError) as error:
            raise InvalidExtenderCredentials(
                f"{self.certificate} and {self.key} are not a certificate and its key: {error}."
            ) from error
        if self.client_authority is not None:
            try:
                context.load_verify_locations(self.client_authority)
            except (OSError, ValueError) as error:
                raise InvalidExtenderCredentials(f"{self.client_authority} holds no certificates: {error}.") from error
            context.verify_mode = ssl.CERT_REQUIRED

    def stamps(self) -> Stamps:
        """Which say whether files have changed; a file that cannot be looked at has none."""
        found: Stamps = []
        for file in (self.certificate, self.key, self.client_authority):
            with contextlib.suppress(OSError):
                if file is not None:
                    status = file.stat()
                    found.append((status.st_mtime_ns, status.st_ino))
        return found


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
class ExtenderServerSettings:
    host: str
    port: int
    #: None for plain HTTP.
    credentials: ExtenderCredentials | None = None

    def check(self) -> None:
        """Raises InvalidExtenderCredentials if unauthenticated clients on the network could bind pods."""
        if not is_loopback(self.host) and (self.credentials is None or self.credentials.client_authority is None):
            raise InvalidExtenderCredentials(
                f"{self.host} is not loopback, and callers can bind pods: set --tls-cert-file, "
                "--tls-private-key-file and --client-ca-file, or listen on 127.0.0.1."
            )


class ExtenderServer:
    """Listens before the extender is ready; as a component it reloads renewed certificates."""

    name: ClassVar[str] = "extender door"
    ready: ClassVar[bool] = True

    def __init__(self, settings: ExtenderServerSettings, clock: Clock, rng: random.Random) -> None:
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._tls: ssl.SSLContext | None = None
        self._stamps: Stamps = []
        self._names = settings.credentials.client_names if settings.credentials is not None else frozenset()
        self._call: Call | None = None

    def set_handler(self, call: Call) -> None:
        """Forward calls to this function; until then they get 503."""
        self._call = call

    async def open(self) -> Listener:
        """Answer until the listener is closed. Raises InvalidExtenderCredentials and CannotListen."""
        settings = self._settings
        settings.check()
        if settings.credentials is not None:
            self._stamps = settings.credentials.stamps()
            self._tls = settings.credentials.context()
        return await listen(self.handle, settings.host, settings.port, self._tls)

    async def run(self) -> None:
        """Poll for renewed certificates until cancelled."""
        credentials, tls = self._settings.credentials, self._tls
        while True:
            await self._clock.sleep(RENEWAL_SECONDS)
            if credentials is not None and tls is not None and (now := credentials.stamps()) != self._stamps:
                self._stamps = now
                try:
                    # Validated first: the pair may be half written.
                    credentials.context()
                    credentials.load_into(tls)
                except InvalidExtenderCredentials as error:
                    log.warning("renewed certificates rejected; keeping the previous ones", error=str(error))
                else:
                    log.info("certificates reloaded")

    async def handle(self, request: web.BaseRequest) -> web.Response:
        verb = request.path.strip("/")
        if verb not in (*VERBS, VERSION):
            return text_response(f"404 page not found: calls go to /{', /'.join(VERBS)}\n", code=404)
        if request.method != ("GET" if verb == VERSION else "POST"):
            return text_response("method not allowed\n", code=405)
        if self._names and not _common_names(request.get_extra_info("peercert")) & self._names:
            log.warning("extender call rejected", verb=verb, client=request.remote, reason="common name not allowed")
            return text_response("the certificate's common name is none of those allowed to call\n", code=403)
        if verb == VERSION:
            return json_response(msgspec.json.encode({"gitVersion": f"v{__version__}"}))
        try:
            reply = await self._answer(request, verb)
        except Exception as error:
            reply = error_reply(verb, internal_error(request, error, self._rng).message, code=500)
        return json_response(reply.body, code=reply.code)

    async def _answer(self, request: web.BaseRequest, verb: str) -> Reply:
        # Web pages can make a browser on this machine send forms, but not this.
        if request.content_type != JSON:
            return error_reply(verb, f"the body must be {JSON}", code=415)
        body = await _body(request)
        if isinstance(body, str):
            return error_reply(verb, body, code=413)
        if self._call is None:
            return error_reply(verb, NOT_READY, code=UNAVAILABLE)
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
