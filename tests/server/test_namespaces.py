"""The life of a namespace: held by its spec until its contents are gone, closed to newcomers from the first moment."""

import asyncio
from contextlib import aclosing

import pytest

from mooring.api.errors import Conflict, Forbidden, Invalid, MethodNotAllowed, NotFound
from mooring.api.kinds import CONFIG_MAP, NAMESPACE, POD
from mooring.api.patches.contract import MergePatch
from mooring.server.contract import DeleteOptions, WatchOptions
from mooring.store.contract import Record, Revision, StoreChange
from mooring.store.watch_cache import MemoryStore
from support.builders import Body
from support.server.harness import DRY_RUN, Harness, altered, decoded, problems

CONTENTS = "kubernetes"
MINE = "mooring.dev/mine"


async def a_namespace(server: Harness, *, spec: tuple[str, ...] = (), finalizers: tuple[str, ...] = ()) -> Body:
    metadata = {"name": "a", "labels": {"team": "x"}, "finalizers": list(finalizers)}
    return await server.create(NAMESPACE, {"metadata": metadata, "spec": {"finalizers": list(spec)}})


async def finalize(server: Harness, body: Body, *left: str) -> Body:
    return await server.update(NAMESPACE, altered(body, ("spec.finalizers", list(left))), subresource="finalize")


async def is_gone(server: Harness) -> bool:
    try:
        await server.get(NAMESPACE, "a")
    except NotFound:
        return True
    return False


async def test_deleted_namespace_is_terminating(server: Harness) -> None:
    created = await a_namespace(server)
    marked = await server.delete(NAMESPACE, "a", DeleteOptions(propagation="Background"))
    assert marked == created | {
        "metadata": created["metadata"]
        | {"deletionTimestamp": "2026-01-02T03:04:05Z", "resourceVersion": str(server.revision)},
        "status": {"phase": "Terminating"},
    }
    assert await server.get(NAMESPACE, "a") == marked


async def test_deleting_it_again_changes_nothing(server: Harness) -> None:
    await a_namespace(server)
    marked = await server.delete(NAMESPACE, "a")
    server.clock.seconds = 60
    assert await server.delete(NAMESPACE, "a", DeleteOptions(propagation="Foreground")) == marked


async def test_the_policy_is_left_to_the_garbage_collector(server: Harness) -> None:
    await a_namespace(server)
    marked = await server.delete(NAMESPACE, "a", DeleteOptions(propagation="Foreground"))
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]


async def test_a_dry_run_marks_nothing(server: Harness) -> None:
    created = await a_namespace(server)
    shown = await server.delete(NAMESPACE, "a", DeleteOptions(dry_run=True))
    assert shown["status"]["phase"] == "Terminating"
    assert await server.get(NAMESPACE, "a") == created


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public", "kube-node-lease"])
async def test_the_cluster_keeps_what_it_cannot_do_without(server: Harness, name: str) -> None:
    if name != "default":
        await server.create(NAMESPACE, {"metadata": {"name": name}})
    with pytest.raises(Forbidden, match=f'^namespaces "{name}" is forbidden: this namespace may not be deleted$'):
        await server.delete(NAMESPACE, name)
    assert (await server.get(NAMESPACE, name))["status"] == {"phase": "Active"}


async def test_what_is_not_there_cannot_be_deleted(server: Harness) -> None:
    with pytest.raises(NotFound, match=r'^namespaces "nons" not found$'):
        await server.delete(NAMESPACE, "nons")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        pytest.param(
            DeleteOptions(uid="other"),
            "Precondition failed: UID in precondition: other, UID in object meta: {uid}",
            id="uid",
        ),
        pytest.param(
            DeleteOptions(resource_version="1"),
            "Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: 3",
            id="version",
        ),
    ],
)
async def test_preconditions_protect_it(server: Harness, options: DeleteOptions, why: str) -> None:
    created = await a_namespace(server)
    with pytest.raises(Conflict) as refusal:
        await server.delete(NAMESPACE, "a", options)
    told = why.format(uid=created["metadata"]["uid"])
    assert refusal.value.message == f'Operation cannot be fulfilled on namespaces "a": {told}'
    assert await server.get(NAMESPACE, "a") == created


async def test_namespace_is_deleted_without_finalizers(server: Harness) -> None:
    await a_namespace(server)
    marked = await server.delete(NAMESPACE, "a")
    after = WatchOptions(resource_version=marked["metadata"]["resourceVersion"])
    async with aclosing(await server.watch(NAMESPACE, after)) as events:
        last = await finalize(server, marked)
        assert last["spec"] == {}
        event = await anext(events)
        assert event is not None
        assert (event.type, decoded(event.body)["status"]) == ("DELETED", {"phase": "Terminating"})
    assert await is_gone(server)


async def test_others_may_hold_it_too(server: Harness) -> None:
    await a_namespace(server, spec=(MINE,), finalizers=("a.io/x",))
    left = await finalize(server, await server.delete(NAMESPACE, "a"), MINE)
    assert left["spec"] == {"finalizers": [MINE]}
    left = await finalize(server, left)
    assert not await is_gone(server), "its metadata has a finalizer"
    await server.patch(NAMESPACE, "a", MergePatch({"metadata": {"finalizers": None}}))
    assert await is_gone(server)


async def test_the_last_finalizer_of_its_metadata_does_not_free_it(server: Harness) -> None:
    await a_namespace(server, finalizers=("a.io/x",))
    await server.delete(NAMESPACE, "a")
    await server.patch(NAMESPACE, "a", MergePatch({"metadata": {"finalizers": None}}))
    assert (await server.get(NAMESPACE, "a"))["spec"] == {"finalizers": [CONTENTS]}


async def test_namespace_without_finalizers_is_deleted_at_once(server: Harness) -> None:
    await finalize(server, await a_namespace(server))
    assert not await is_gone(server), "it was not deleted"
    answer = await server.delete(NAMESPACE, "a")
    assert (answer["kind"], answer["status"]) == ("Namespace", {"phase": "Terminating"})
    assert await is_gone(server)


async def test_finalizing_takes_metadata_too_and_leaves_the_status(server: Harness) -> None:
    created = await a_namespace(server)
    body = altered(created, ("metadata.labels.team", "y"), ("status.phase", "Terminating"))
    written = await finalize(server, body, CONTENTS, MINE)
    assert written["metadata"]["labels"]["team"] == "y"
    assert written["status"] == created["status"]
    assert written["spec"] == {"finalizers": [CONTENTS, MINE]}


async def test_a_finalization_of_an_old_version_is_a_conflict(server: Harness) -> None:
    created = await a_namespace(server)
    await server.delete(NAMESPACE, "a")
    with pytest.raises(Conflict):
        await finalize(server, created)
    assert not await is_gone(server)


async def test_a_dry_run_finalizes_nothing(server: Harness) -> None:
    await a_namespace(server)
    marked = await server.delete(NAMESPACE, "a")
    free = altered(marked, ("spec.finalizers", []))
    assert decoded((await server.updated(NAMESPACE, free, DRY_RUN, subresource="finalize")).body)["spec"] == {}
    assert await server.get(NAMESPACE, "a") == marked


@pytest.mark.parametrize("given", [[], [MINE]], ids=["none", "another"])
async def test_spec_finalizers_change_by_finalize_only(server: Harness, given: list[str]) -> None:
    created = await a_namespace(server)
    body = altered(created, ("spec.finalizers", given))
    assert await server.update(NAMESPACE, body) == created
    assert await server.update(NAMESPACE, body, subresource="status") == created
    assert await server.patch(NAMESPACE, "a", MergePatch({"spec": {"finalizers": given}})) == created


async def test_a_finalization_is_an_update_and_nothing_else(server: Harness) -> None:
    await a_namespace(server)
    with pytest.raises(MethodNotAllowed):
        await server.patch(NAMESPACE, "a", MergePatch({"spec": {"finalizers": None}}), subresource="finalize")
    with pytest.raises(MethodNotAllowed):
        await server.get(NAMESPACE, "a", subresource="finalize")
    with pytest.raises(NotFound):
        await server.update(POD, {"metadata": {"name": "a"}}, subresource="finalize")


@pytest.mark.parametrize(
    ("subresource", "change", "found"),
    [
        pytest.param(
            "finalize",
            ("spec.finalizers", ["mine"]),
            [
                'spec.finalizers: Invalid value: "mine": name is neither a standard finalizer name nor is it fully '
                "qualified"
            ],
            id="a holder without a domain",
        ),
        pytest.param(
            "status",
            ("status.phase", "Terminating"),
            ["status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"],
            id="going without being deleted",
        ),
    ],
)
async def test_what_a_namespace_cannot_be(
    server: Harness, subresource: str, change: tuple[str, object], found: list[str]
) -> None:
    created = await a_namespace(server)
    assert await problems(server.update(NAMESPACE, altered(created, change), subresource=subresource)) == found


async def test_a_holder_without_a_domain_is_refused_from_the_start(server: Harness) -> None:
    with pytest.raises(Invalid, match=r"spec.finalizers: Invalid value"):
        await a_namespace(server, spec=("mine",))


async def test_terminating_namespace_stays_terminating(server: Harness) -> None:
    await a_namespace(server)
    marked = await server.delete(NAMESPACE, "a")
    stays = altered(marked, ("status.phase", "Active"))
    assert await problems(server.update(NAMESPACE, stays, subresource="status")) == [
        "status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty"
    ]


class SlowStore(MemoryStore):
    """Writes of ConfigMaps arrive when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.arrive = asyncio.Event()

    async def write(
        self, key: str, value: bytes | None, *, expect: Revision, precondition: Record | None = None
    ) -> StoreChange:
        if "/configmaps/" in key:
            await self.arrive.wait()
        return await super().write(key, value, expect=expect, precondition=precondition)


async def test_no_creation_in_terminating_namespace() -> None:
    """The namespace controller sees the deletion first, and then every object of the namespace."""
    store = SlowStore()
    server = await Harness(store).start()
    creating = asyncio.create_task(server.create(CONFIG_MAP, {"metadata": {"name": "c"}}, namespace="other"))
    named = {"metadata": {"generateName": "c-"}}
    naming = asyncio.create_task(server.create(CONFIG_MAP, named, namespace="other"))
    elsewhere = asyncio.create_task(server.create(CONFIG_MAP, {"metadata": {"name": "c"}}))
    await asyncio.sleep(0)
    await server.delete(NAMESPACE, "other")
    store.arrive.set()
    for late in (creating, naming):
        with pytest.raises(Forbidden, match="because it is being terminated"):
            await late
    assert store.count(CONFIG_MAP.store_prefix("other")) == 0
    await elsewhere


async def test_namespace_update_does_not_block_creation() -> None:
    store = SlowStore()
    server = await Harness(store).start()
    creating = asyncio.create_task(server.create(CONFIG_MAP, {"metadata": {"name": "c"}}, namespace="other"))
    await asyncio.sleep(0)
    namespace = await server.get(NAMESPACE, "other")
    await server.update(NAMESPACE, altered(namespace, ("metadata.labels", {"a": "b"})))
    store.arrive.set()
    assert (await creating)["metadata"]["name"] == "c"
