"""A fresh API server with two namespaces for every test that asks."""

import pytest

from support.server.harness import Harness


@pytest.fixture
async def server() -> Harness:
    return await Harness().start()
