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
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from conformance.control_plane import ControlPlane
from mooring.client.http import HttpClient
from mooring.clock import SystemClock

pytest.register_assert_rewrite("client.conformance")

DRIVER: Final = Path(__file__).parents[2] / "conformance" / "build.py"

SKIPPED: Final = pytest.StashKey[str]()


def _look() -> subprocess.CompletedProcess[str]:
    """Ask the build driver where the binaries are; it answers at once and builds nothing."""
    return subprocess.run([sys.executable, str(DRIVER), "--check"], capture_output=True, text=True, check=False)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ours = [item for item in items if isinstance(item, pytest.Function) and "binaries" in item.fixturenames]
    if not ours or (looked := _look()).returncode == 0:
        return
    why = looked.stderr.strip()
    config.stash[SKIPPED] = f"conformance: {len(ours)} tests with the real Kubernetes skipped: {why}"
    for item in ours:
        item.add_marker(pytest.mark.skip(reason=why))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if line := config.stash.get(SKIPPED, ""):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def binaries() -> Path:
    return Path(_look().stdout.strip())


@pytest.fixture(scope="session")
def start_kube(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], ControlPlane]]:
    started: list[ControlPlane] = []

    def start() -> ControlPlane:
        control_plane = ControlPlane(binaries, tmp_path_factory.mktemp("kube"))
        started.append(control_plane)
        control_plane.start()
        return control_plane

    yield start
    for control_plane in started:
        control_plane.stop()


@pytest.fixture(scope="session")
def kube(start_kube: Callable[[], ControlPlane]) -> ControlPlane:
    return start_kube()


@pytest.fixture
async def client(kube: ControlPlane) -> AsyncIterator[HttpClient]:
    client = HttpClient(kube.access, component="conformance", clock=SystemClock())
    yield client
    await client.close()
