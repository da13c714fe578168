"""A real `mooring up` process and the real kubectl."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.e2e.cluster import Cluster
from support.e2e.kubectl import require_kubectl
from support.e2e.workspace import Workspace


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
    """Overridden by modules whose shared cluster has other options."""
    return ()


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, cluster_options: tuple[str, ...], kubectl_on_path: None
) -> Iterator[Cluster]:
    """One process for all tests of a module, which use different names and namespaces."""
    shared = Cluster(tmp_path_factory.mktemp("cluster"), "--in-memory", *cluster_options)
    shared.start()
    yield shared
    shared.end()


_numbers = itertools.count(1)


@pytest.fixture
def workspace(cluster: Cluster) -> Workspace:
    """A namespace for one test; it is deleted together with its cluster."""
    own = Workspace(cluster, f"test-{next(_numbers)}")
    cluster("create", "namespace", own.name)
    return own
