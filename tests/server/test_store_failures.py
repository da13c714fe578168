"""A store that fails: clients hear that it did, nothing more, and may try again."""

import pytest

from mooring.api.errors import Conflict, ServiceUnavailable, TooLarge
from mooring.api.kinds import CONFIG_MAP
from mooring.store.contract import (
    Record,
    Revision,
    RevisionConflict,
    StoreChange,
    StoreClosed,
    StoreError,
    StoreUnusable,
    ValueTooLarge,
)
from mooring.store.watch_cache import MemoryStore
from support.server.harness import Harness


class FailingStore(MemoryStore):
    """Fails every write with the error it is given, while it is given one."""

    error: StoreError | None = None

    async def write(
        self, key: str, value: bytes | None, *, expect: Revision, precondition: Record | None = None
    ) -> StoreChange:
        if self.error is not None:
            raise self.error
        return await super().write(key, value, expect=expect, precondition=precondition)


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        pytest.param(StoreError("nothing was written to /data/state.db: disk full"), "store failed", id="full disk"),
        pytest.param(StoreUnusable("/data/state.db is at revision 7"), "store failed", id="unknown state"),
        pytest.param(StoreClosed("the store is closed"), "shutting down", id="closed"),
    ],
)
async def test_a_failed_write_is_unavailability_and_names_no_file(error: StoreError, reported: str) -> None:
    store = FailingStore()
    server = await Harness(store).start()
    old = await server.create(CONFIG_MAP, {"metadata": {"name": "there"}})
    store.error = error
    for write in (
        server.create(CONFIG_MAP, {"metadata": {"name": "new"}}),
        server.update(CONFIG_MAP, old | {"data": {"k": "v"}}),
        server.delete(CONFIG_MAP, "there"),
    ):
        with pytest.raises(ServiceUnavailable, match=reported) as refused:
            await write
        assert "/data" not in refused.value.message
    store.error = None
    assert await server.get(CONFIG_MAP, "there") == old
    assert [item["metadata"]["name"] for item in await server.listed(CONFIG_MAP)] == ["there"]


async def test_conflict_is_not_a_store_failure() -> None:
    store = FailingStore()
    server = await Harness(store).start()
    old = await server.create(CONFIG_MAP, {"metadata": {"name": "there"}})
    store.error = RevisionConflict("there", None)
    with pytest.raises(Conflict):
        await server.update(CONFIG_MAP, old | {"data": {"k": "v"}})


async def test_an_object_that_the_store_does_not_take_is_too_large() -> None:
    store = FailingStore()
    server = await Harness(store).start()
    store.error = ValueTooLarge("etcd at 127.0.0.1:2379 does not take values of this size")
    with pytest.raises(TooLarge, match="the object is larger than the store takes") as refused:
        await server.create(CONFIG_MAP, {"metadata": {"name": "new"}})
    assert "etcd" not in refused.value.message
