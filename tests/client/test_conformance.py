"""The client conformance suite over real HTTP, and on the stand-in that the other tests here rely on."""

from collections.abc import AsyncIterator

import pytest

from client.conformance import ClientConformance
from client.tiny_api import TinyApi
from client.tiny_client import TinyClient
from client.wire_server import WireServer, serving
from mooring.api.kinds import SECRET
from mooring.client.access import Access
from mooring.client.http import HttpClient
from mooring.clock import SystemClock


@pytest.fixture
def api() -> TinyApi:
    return TinyApi()


@pytest.fixture
def forgotten_version(api: TinyApi) -> str:
    old = str(api.version)
    api.create(SECRET, "default", {"metadata": {"name": "later"}})
    api.forget()
    return old


class TestTinyClient(ClientConformance):
    @pytest.fixture
    def client(self, api: TinyApi) -> TinyClient:
        return TinyClient(api)


class TestHttpClient(ClientConformance):
    @pytest.fixture
    async def client(self, api: TinyApi) -> AsyncIterator[HttpClient]:
        async with serving(WireServer(api)) as address:
            client = HttpClient(Access(address), component="conformance", clock=SystemClock())
            yield client
            await client.close()
