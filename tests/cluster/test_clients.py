"""One conformance suite, both clients, the real API server: in process, and over HTTPS with kubeconfig and all."""

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.api.kinds import CONFIG_MAP, NAMESPACE
from mooring.client import kubeconfig
from mooring.client.contract import Client
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import Layout
from mooring.cluster.embedded import Settings, serving
from mooring.cluster.local_client import LocalClient
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.store.state import Limits
from mooring.store.watch_cache import MemoryStore
from support.client_conformance import ClientConformance
from support.namespace_conformance import NamespaceConformance

#: More than any test of the suite writes while it watches.
KEPT_CHANGES = 200


async def _let_history_roll_over(client: Client, changes: int) -> str:
    first = await client.create(CONFIG_MAP, {"metadata": {"generateName": "old-"}}, namespace="default")
    for _ in range(changes + 1):
        await client.create(CONFIG_MAP, {"metadata": {"generateName": "later-"}}, namespace="default")
    return first.metadata.resource_version


class TestLocalClient(ClientConformance, NamespaceConformance):
    @pytest.fixture
    async def client(self) -> LocalClient:
        store = MemoryStore(history=Limits(changes=KEPT_CHANGES, bytes=1 << 24))
        client = LocalClient(ApiServer(store, SystemClock(), random.Random(1)), User("tester", ("system:masters",)))
        await client.create(NAMESPACE, {"metadata": {"name": "default"}})
        return client

    @pytest.fixture
    async def compacted_version(self, client: LocalClient) -> str:
        return await _let_history_roll_over(client, KEPT_CHANGES)


class TestHttpClient(ClientConformance, NamespaceConformance):
    """Against what `mooring up` serves; the nodes it plays are left out, so that no kubelet runs the suite's pods."""

    @pytest.fixture
    async def client(self, tmp_path: Path) -> AsyncIterator[HttpClient]:
        config = tmp_path / "kubeconfig"
        settings = Settings(Layout(nodes=0), port=0, data_dir=tmp_path / "data", kubeconfig=config)
        async with serving(settings, clock=SystemClock(), rng=random.Random(1)):
            pass  # started once and stopped: the history of a store begins anew when it is opened
        async with serving(settings, clock=SystemClock(), rng=random.Random(2)):
            client = HttpClient(kubeconfig.from_files([config]), component="conformance", clock=SystemClock())
            yield client
            await client.close()

    @pytest.fixture
    def compacted_version(self) -> str:
        return "1"
