"""A real `mooring up` process and the real kubectl, as a newcomer has them."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.cluster import Cluster
from e2e.kubectl import require_kubectl
from e2e.workspace import Workspace


@pytest.fixture(scope="session")
def kubectl_on_path() -> None:
    require_kubectl()


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
