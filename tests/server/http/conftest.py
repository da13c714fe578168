"""A shell over a stub Api on a real socket, and a client that is allowed everything."""

import random
from collections.abc import AsyncIterator

import msgspec
import pytest
from aiohttp import ClientSession

from mooring.server.auth.authenticator import Authenticator, StaticTokens
from mooring.server.contract import User
from mooring.server.http.handler import RequestHandler
from mooring.server.http.listener import Listener, listen
from support.server.policies import Policy
from support.server.stub_api import StoppedClock, StubApi

TOKENS = {"admin-token": User("admin", ("system:masters",)), "alice-token": User("alice", ("dev",))}


@pytest.fixture
def api() -> StubApi:
    return StubApi()


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def policy() -> Policy:
    return Policy()


@pytest.fixture
def handler(api: StubApi, clock: StoppedClock, policy: Policy) -> RequestHandler:
    return RequestHandler(
        api,
        authenticator=Authenticator(StaticTokens(TOKENS)),
        access=policy,
        clock=clock,
        rng=random.Random(1),
        metrics=lambda: b"some_metric 1\n",
        debug={"/debug/told": lambda query: msgspec.json.encode(dict(query))},
        drain_seconds=0.2,
    )


@pytest.fixture
async def listener(handler: RequestHandler) -> AsyncIterator[Listener]:
    listener = await listen(handler.handle, "127.0.0.1", 0, None)
    yield listener
    handler.end_watches()
    await listener.close()


@pytest.fixture
async def admin(listener: Listener) -> AsyncIterator[ClientSession]:
    async with ClientSession(listener.url, headers={"Authorization": "Bearer admin-token"}) as session:
        yield session


@pytest.fixture
async def alice(listener: Listener) -> AsyncIterator[ClientSession]:
    async with ClientSession(listener.url, headers={"Authorization": "Bearer alice-token"}) as session:
        yield session


@pytest.fixture
async def anonymous(listener: Listener) -> AsyncIterator[ClientSession]:
    async with ClientSession(listener.url) as session:
        yield session
