"""A whole API server on a socket, and a log in which nothing unexpected may stand."""

import random
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, ClientTimeout
from structlog.testing import capture_logs

from mooring.api.kinds import NAMESPACE, SERVICE_ACCOUNT
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import SERVER, install_policy
from mooring.cluster.local_client import LocalClient
from mooring.server.api import ApiServer
from mooring.server.auth.authenticator import Authenticator
from mooring.server.auth.authorizer import cluster_security
from mooring.server.contract import User
from mooring.server.http.handler import RequestHandler
from mooring.server.http.listener import listen
from mooring.store.watch_cache import MemoryStore

ADMIN = "fuzz-t0ken"


@dataclass(frozen=True)
class Victim:
    """The server under test; `tokens` are good ones, the administrator's first."""

    session: ClientSession
    host: str
    port: int
    tokens: tuple[str, ...]
    logs: list[Any]

    def unexpected(self) -> list[Any]:
        """What the server itself calls a bug."""
        return [line for line in self.logs if line.get("event") == "unexpected error"]


@pytest.fixture
def logs() -> Iterator[list[Any]]:
    with capture_logs() as lines:
        yield lines


@pytest.fixture
async def victim(tmp_path: Path, logs: list[Any]) -> AsyncIterator[Victim]:
    clock, store = SystemClock(), MemoryStore()
    users = {ADMIN: User("admin", ("system:masters",))}
    security = cluster_security(store, clock=clock, directory=tmp_path, tokens=users)
    api = ApiServer(store, clock, random.Random(0), security)
    await install_policy(api)
    local = LocalClient(api, SERVER)
    await local.create(SERVICE_ACCOUNT, {"metadata": {"name": "default"}}, namespace="default")
    await local.create(NAMESPACE, {"metadata": {"name": "a"}})
    assert security.accounts is not None
    account = await local.get(SERVICE_ACCOUNT, "default", namespace="default")
    issued = security.accounts.issue(account, audiences=security.accounts.audiences, seconds=3600, token_id="t")
    shell = RequestHandler(
        api,
        authenticator=Authenticator(security.tokens),
        access=security.access,
        clock=clock,
        rng=random.Random(0),
        drain_seconds=1.0,
    )
    listener = await listen(shell.handle, "127.0.0.1", 0, None)
    async with ClientSession(listener.url, timeout=ClientTimeout(total=10)) as session:
        yield Victim(session, "127.0.0.1", listener.port, (ADMIN, issued.token), logs)
    shell.end_watches()
    await listener.close()
