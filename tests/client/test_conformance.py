"""The client conformance suite over real HTTP, and on the stand-in that the other tests here rely on."""

from collections.abc import AsyncIterator

import pytest

from mooring.api.kinds import SECRET
from mooring.client.access import Access
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from support.client_conformance import ClientConformance
from support.fake_api_server import FakeApiServer
from support.fake_client import FakeClient
from support.http_server import WireServer, serving


@pytest.fixture
def api() -> FakeApiServer:
    return FakeApiServer()


@pytest.fixture
def compacted_version(api: FakeApiServer) -> str:
    old = str(api.version)
    api.create(SECRET, "default", {"metadata": {"name": "later"}})
    api.forget()
    return old


class TestFakeClient(ClientConformance):
    @pytest.fixture
    def client(self, api: FakeApiServer) -> FakeClient:
        return FakeClient(api)


class TestHttpClient(ClientConformance):
    @pytest.fixture
    async def client(self, api: FakeApiServer) -> AsyncIterator[HttpClient]:
        async with serving(WireServer(api)) as address:
            client = HttpClient(Access(address), component="conformance", clock=SystemClock())
            yield client
            await client.close()
