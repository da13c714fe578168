"""A real `mooring up` process and the real kubectl, as a newcomer has them."""

import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from e2e.cluster import Cluster
from e2e.workspace import Workspace

OLDEST_KUBECTL: Final = (1, 30)


def _kubectl_version() -> tuple[int, int] | None:
    if shutil.which("kubectl") is None:
        return None
    told = subprocess.run(
        ["kubectl", "version", "--client", "-o", "json"], capture_output=True, text=True, timeout=30, check=False
    )
    if told.returncode != 0:
        return None
    version = json.loads(told.stdout)["clientVersion"]
    return int(version["major"]), int(re.sub(r"\D", "", version["minor"]))


@pytest.fixture(scope="session")
def kubectl_on_path() -> None:
    version = _kubectl_version()
    if version is None or version < OLDEST_KUBECTL:
        pytest.skip("no kubectl 1.30 or newer on the PATH: end-to-end tests with kubectl are not run")


@pytest.fixture
def start_cluster(tmp_path: Path, kubectl_on_path: None) -> Iterator[Callable[..., Cluster]]:
    started: list[Cluster] = []

    def start(*options: str) -> Cluster:
        cluster = Cluster(tmp_path, *options)
        started.append(cluster)
        cluster.start()
        return cluster

    yield start
    for cluster in started:
        cluster.end()


@pytest.fixture(scope="module")
def cluster_options() -> tuple[str, ...]:
    """For modules that want another shared cluster to define anew."""
    return ()


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, cluster_options: tuple[str, ...], kubectl_on_path: None
) -> Iterator[Cluster]:
    """One process for all tests of a module, which keep out of each other's way by names and namespaces."""
    shared = Cluster(tmp_path_factory.mktemp("cluster"), "--in-memory", *cluster_options)
    shared.start()
    yield shared
    shared.end()


_numbers = itertools.count(1)


@pytest.fixture
def workspace(cluster: Cluster) -> Workspace:
    """A namespace nobody else uses. It stays until its cluster goes, which is soon."""
    own = Workspace(cluster, f"test-{next(_numbers)}")
    cluster("create", "namespace", own.name)
    return own
