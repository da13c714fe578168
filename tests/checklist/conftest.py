"""The compatibility list of the API server: one test for each line, with its number.

The lines cover starting the server (1-9), objects (10-30), watches (31-42), pods and nodes (43-55), storage (56-64),
workloads and generic behaviour (65-76), access (77-80) and load (91-95); lines 81-90, about Kubernetes' own components,
are in `tests/conformance`. kubectl is the one on the PATH; the Python clients are the published ones.
"""

import itertools
from collections.abc import Iterator

import pytest

from mooring.client.kubeconfig import from_files
from support.checklist.bare_server import BareServer
from support.checklist.programs import Programs
from support.checklist.wire import Wire
from support.e2e.kubectl import Kubectl, require_kubectl

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareServer]:
    require_kubectl()
    server = BareServer(tmp_path_factory.mktemp("bare"))
    server.start()
    server.stop()
    server.start()  # now it has a past that it no longer remembers
    yield server
    server.stop()


@pytest.fixture(scope="session")
def wire(server: BareServer) -> Wire:
    access = from_files([server.kubeconfig])
    return Wire(access.server, access.authority, access.token)


@pytest.fixture(scope="session")
def kubectl(server: BareServer) -> Kubectl:
    return Kubectl(server.kubeconfig)


@pytest.fixture
def space(kubectl: Kubectl) -> str:
    """The name of a namespace for this test only."""
    name = f"space-{next(_numbers)}"
    kubectl("create", "namespace", name)
    return name


@pytest.fixture
def inside(kubectl: Kubectl, space: str) -> Kubectl:
    """kubectl in a namespace for this test only."""
    return kubectl.within(space)


@pytest.fixture
def program(server: BareServer) -> Programs:
    return Programs(server.kubeconfig)
