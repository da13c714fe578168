"""Kubernetes' components for the tests in this folder, or one line with the reason why they are skipped.

`make conformance` builds the binaries first; plain `make test` only checks whether they exist. Fixtures:

    binaries         their directory; a test that needs it, by any fixture, is skipped without them
    release          Kubernetes' release, for tests that expect different results of releases
    kube             etcd and kube-apiserver, one pair for all tests; `with kube.controllers(...)` and
                     `with kube.scheduler()` add kube-controller-manager and kube-scheduler
    start_kube       starts further pairs, for tests that stop or break components
    client           Mooring's HTTP client as administrator of `kube`
"""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from support.conformance.control_plane import ControlPlane
from support.conformance.matrix_results import MARKER, MatrixResults, rows_of
from support.conformance.releases import Release, release_of
from support.requirements.plugin import WITHOUT_BINARIES

HERE: Final = Path(__file__).parent
DRIVER: Final = HERE.parents[1] / "conformance" / "build.py"
RESULTS: Final = pytest.StashKey[MatrixResults]()


def pytest_configure(config: pytest.Config) -> None:
    """`MOORING_MATRIX` names the file of the version matrix; workers report to the process that writes it."""
    if os.environ.get("MOORING_MATRIX") and not hasattr(config, "workerinput"):
        config.stash[RESULTS] = MatrixResults()
        config.pluginmanager.register(config.stash[RESULTS])


def pytest_unconfigure(config: pytest.Config) -> None:
    if (results := config.stash.get(RESULTS, None)) is not None:
        release = release_of(directory())
        results.write(Path(os.environ["MOORING_MATRIX"]), release.name, release.version, datetime.now(UTC).date())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests end while clients connect to servers that are being stopped. asyncio closes a connection that is cancelled
    during its TLS handshake one step later, when the loop of the test may have ended. A later test would report it."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report all skipped tests of this folder at one location: one line of the summary."""
    report = yield
    report.user_properties += rows_of(item.iter_markers(MARKER))
    if isinstance(report.longrepr, tuple):
        report.longrepr = (str(HERE), 0, report.longrepr[2])
    return report


def directory() -> Path:
    """The directory of the binaries, as the build driver prints it; it builds nothing. Raises LookupError."""
    looked = subprocess.run([sys.executable, str(DRIVER), "--check"], capture_output=True, text=True, check=False)
    if looked.returncode != 0:
        raise LookupError(looked.stderr.strip())
    return Path(looked.stdout.strip())


@pytest.fixture(scope="session")
def binaries() -> Path:
    try:
        return directory()
    except LookupError as error:
        pytest.skip(f"{WITHOUT_BINARIES}{error}")


@pytest.fixture(scope="session")
def release(binaries: Path) -> Release:
    return release_of(binaries)


@contextmanager
def _starting(binaries: Path, folders: pytest.TempPathFactory) -> Iterator[Callable[[], ControlPlane]]:
    """Start control planes; they stop at the end of the block."""
    with ExitStack() as started:

        def start() -> ControlPlane:
            control_plane = ControlPlane(binaries, folders.mktemp("kube"))
            started.callback(control_plane.stop)
            control_plane.start()
            return control_plane

        yield start


@pytest.fixture(scope="module")
def start_kube(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], ControlPlane]]:
    """They stop with their module: a dozen idle control planes use half a core."""
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
