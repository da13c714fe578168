"""Cost of a start: requests and transactions, at one size and at twice that size."""

import random
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from mooring.api.views.meta import ApiObject
from mooring.client.informer import Informer
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import Layout
from mooring.cluster.control_plane import ControlPlane, running_control_plane
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.store.sqlite import SqliteFile, SqliteStore
from support.partial_control_plane.counting import CountingClient

TESTER = User("tester", ("system:masters",))


class Start(NamedTuple):
    requests: Counter[str]
    #: Of the store, until the cluster is ready.
    transactions: int
    #: Nodes that were looked up in the informer until then.
    lookups: int


async def start(folder: Path, nodes: int, monkeypatch: pytest.MonkeyPatch) -> Start:
    requests: Counter[str] = Counter()
    commits: list[int] = []
    commit = SqliteFile.commit

    def counted(file: SqliteFile, results: dict[str, object], revision: int) -> None:
        commits.append(len(results))
        commit(file, results, revision)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(SqliteFile, "commit", counted)
        lookups: Counter[str] = Counter()
        get = Informer.get

        def looked_up(informer: Informer[ApiObject], key: str) -> ApiObject | None:
            lookups[informer.kind.plural] += 1
            return get(informer, key)

        patch.setattr(Informer, "get", looked_up)
        store = await SqliteStore.open(folder / "state.db", "normal")
        clock, rng = SystemClock(), random.Random(0)
        client = CountingClient(ApiServer(store, clock, rng), TESTER, requests)
        async with running_control_plane(ControlPlane(lambda _: client, Layout(nodes), clock=clock, rng=rng)):
            done = Start(Counter(requests), len(commits), lookups["nodes"])
        await store.close()
    return done


async def test_twice_the_nodes_do_not_cost_more_than_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = [await start(tmp_path / f"{n}", n, monkeypatch) for n in _folders(tmp_path, 100, 200)]
    for nodes, done in ((100, small), (200, large)):
        assert done.requests["create nodes"] == done.requests["create csinodes"] == nodes
        assert done.requests["create persistentvolumes"] == 2 * nodes
        assert done.requests["create leases"] <= nodes + 5
        # A Node is created with its topology and status, and its Lease is created without asking for it first.
        assert done.requests["patch nodes"] == done.requests["get csinodes"] == 0
        assert done.requests["patch leases"] <= 5
        # Objects are written side by side: far fewer transactions than objects, of which there are more than 500.
        assert done.transactions <= 60
        # None by how often readiness is asked for.
        assert done.lookups <= 10 * nodes


async def test_a_start_on_existing_data_writes_nothing_for_nodes_that_are_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [folder] = _folders(tmp_path, 50)
    await start(tmp_path / f"{folder}", 50, monkeypatch)
    again = await start(tmp_path / f"{folder}", 50, monkeypatch)
    assert again.requests["create nodes"] == again.requests["create persistentvolumes"] == 0
    assert again.requests["patch nodes"] == again.requests["create csinodes"] == again.requests["get csinodes"] == 0


def _folders(below: Path, *sizes: int) -> tuple[int, ...]:
    for size in sizes:
        (below / f"{size}").mkdir()
    return sizes
