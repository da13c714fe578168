"""The real Kubernetes for the tests in this folder, or one line that says why they were left out.

`make conformance` builds the binaries first; plain `make test` only looks whether they are there. Fixtures:

    binaries         their directory; a test that needs it, by whatever fixture, is skipped without them
    kube             etcd and kube-apiserver, one pair for all tests; `with kube.controllers(...)` and
                     `with kube.scheduler()` add kube-controller-manager and kube-scheduler for a while
    start_kube       starts pairs of one's own, for tests that stop or break things
    client           Mooring's HTTP client as administrator of `kube`
"""

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from conformance.control_plane import ControlPlane
from mooring.client.http import HttpClient
from mooring.clock import SystemClock

pytest.register_assert_rewrite("client.conformance", "client.namespace_conformance")

HERE: Final = Path(__file__).parent
DRIVER: Final = HERE.parents[1] / "conformance" / "build.py"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skipped tests count as skipped by this folder: one line of the summary for all, not one for each."""
    report = yield
    if isinstance(report.longrepr, tuple):
        report.longrepr = (str(HERE), 0, report.longrepr[2])
    return report


@pytest.fixture(scope="session")
def binaries() -> Path:
    """Ask the build driver where they are; it answers at once and builds nothing."""
    looked = subprocess.run([sys.executable, str(DRIVER), "--check"], capture_output=True, text=True, check=False)
    if looked.returncode != 0:
        pytest.skip(looked.stderr.strip())
    return Path(looked.stdout.strip())


@contextmanager
def _starting(binaries: Path, folders: pytest.TempPathFactory) -> Iterator[Callable[[], ControlPlane]]:
    """Starts control planes; they end with the block."""
    with ExitStack() as started:

        def start() -> ControlPlane:
            control_plane = ControlPlane(binaries, folders.mktemp("kube"))
            started.callback(control_plane.stop)
            control_plane.start()
            return control_plane

        yield start


@pytest.fixture(scope="module")
def start_kube(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], ControlPlane]]:
    """They end with their module: a dozen that idle would take half a core from the others."""
    with _starting(binaries, tmp_path_factory) as start:
        yield start


@pytest.fixture(scope="session")
def kube(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with _starting(binaries, tmp_path_factory) as start:
        yield start()


@pytest.fixture
async def client(kube: ControlPlane) -> AsyncIterator[HttpClient]:
    client = HttpClient(kube.access, component="conformance", clock=SystemClock())
    yield client
    await client.close()
