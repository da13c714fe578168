"""Fixtures for pytest, registered by the entry point `mooring` when the package is installed.

`mooring_cluster` is a cluster for one test, `mooring_session_cluster` one for all tests of the run. Options of
`mooring up` come from the marker: `@pytest.mark.mooring(nodes=6, zones=2)`; the shared cluster has the default ones.
Nothing of Mooring but this module is imported until a test asks for a cluster, so that other tests pay nothing.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mooring.testing.cluster import TestCluster


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "mooring(nodes=3, zones=3, local_pvs=2, options=()): the cluster of the fixture mooring_cluster"
    )


@pytest.fixture
def mooring_cluster(request: pytest.FixtureRequest) -> "Iterator[TestCluster]":
    """An embedded cluster for this test."""
    from mooring.testing.cluster import cluster

    marker = request.node.get_closest_marker("mooring")
    with cluster(**(marker.kwargs if marker else {})) as made:
        yield made


@pytest.fixture(scope="session")
def mooring_session_cluster() -> "Iterator[TestCluster]":
    """An embedded cluster that all tests of the run share; use a namespace per test."""
    from mooring.testing.cluster import cluster

    with cluster() as made:
        yield made
