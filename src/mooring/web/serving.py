"""The page as a server: a listener, a token, and the address to open. What `mooring up` and `mooring page` start.

Listens on loopback unless told otherwise, over plain HTTP: what leaves the machine should go through something that
encrypts. Nothing of the cluster is read before somebody opens the page.
"""

import random
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from mooring.client.contract import Client
from mooring.clock import Clock
from mooring.server.http.connections import ConnectionLimits
from mooring.server.http.listening import CannotListen, Listener, listen
from mooring.web.application import Application
from mooring.web.guard import Guard
from mooring.web.session import EVERYTHING, Focus, Readership

LOOPBACK: Final = "127.0.0.1"
#: Two dozen streams, and the requests of as many tabs.
LIMITS: Final = ConnectionLimits(connections=96, first_request_seconds=10.0, stalled_seconds=15.0)


@dataclass(frozen=True)
class PageSettings:
    #: Secret; whoever has it sees what the client may see.
    token: str = field(repr=False)
    host: str = LOOPBACK
    #: 0 picks a free one.
    port: int = 0
    #: Whether another port will do where this one is taken.
    any_port: bool = False
    #: Host names, besides addresses and localhost, that people may write into the address bar.
    names: tuple[str, ...] = ()
    focus: Focus = EVERYTHING


@asynccontextmanager
async def page(client: Client, settings: PageSettings, *, clock: Clock, rng: random.Random) -> AsyncIterator[str]:
    """The page, served inside the block at the address it is given. Raises CannotListen."""
    readership = Readership(client, settings.focus, clock=clock, rng=rng)
    application = Application(readership, Guard(settings.token), clock=clock)
    listener = await _listen(application, settings)
    try:
        yield f"{_reached_at(listener)}/#{settings.token}"
    finally:
        application.close()
        await listener.close()
        await readership.close()


def new_token() -> str:
    """For one start. Kept nowhere: tabs of an earlier start may have shown theirs to another program on the port."""
    return secrets.token_urlsafe(32)


async def _listen(application: Application, settings: PageSettings) -> Listener:
    try:
        return await listen(application.handle, settings.host, settings.port, None, LIMITS, names=_names(settings))
    except CannotListen:
        if not settings.any_port:
            raise
        return await listen(application.handle, settings.host, 0, None, LIMITS, names=_names(settings))


def _names(settings: PageSettings) -> tuple[str, ...]:
    """On loopback nobody needs a name; elsewhere the machine's own count."""
    if settings.host == LOOPBACK:
        return settings.names
    return (*settings.names, socket.gethostname(), socket.getfqdn())


def _reached_at(listener: Listener) -> str:
    any_address = listener.host in ("0.0.0.0", "::")
    return f"http://{socket.gethostname()}:{listener.port}" if any_address else listener.url
