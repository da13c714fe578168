"""Conformance of every `Client`, with any server and transport.

Subclass `ClientConformance` in a test module and provide two fixtures:

    client              a Client of a server with a namespace `default`; other contents do not matter
    compacted_version   a resourceVersion from which that server can no longer be watched

Names are unique per test, so all tests may share a server.
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest

from mooring.api.errors import AlreadyExists, Conflict, Expired, Invalid, NotFound
from mooring.api.kinds import CLAIM, CONFIG_MAP, NODE, POD
from mooring.api.patches.contract import JsonPatch, MergePatch
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Client, V, WatchEvent, WatchEventType
from support.builders import claim_body, metadata, node_body, pod_body

NAMESPACE = "default"
#: Timeout for an event in seconds; only a broken client reaches it.
TIMEOUT_SECONDS = 10.0

_numbers = itertools.count(1)


def new_name() -> str:
    return f"conformance-{next(_numbers)}"


async def a_config_map(
    client: Client, *, labels: dict[str, str] | None = None, finalizers: Sequence[str] = ()
) -> ApiObject:
    meta = metadata(name=new_name(), labels=labels, finalizers=finalizers)
    body = {"metadata": meta, "data": {"color": "red"}}
    return await client.create(CONFIG_MAP, body, namespace=NAMESPACE)


async def patch_color(client: Client, item: ApiObject, color: str) -> ApiObject:
    return await client.patch(CONFIG_MAP, item.name, MergePatch({"data": {"color": color}}), namespace=NAMESPACE)


def version(item: ApiObject) -> int:
    return int(item.metadata.resource_version)


async def next_changes(events: AsyncGenerator[WatchEvent[V], None], count: int) -> list[tuple[WatchEventType, V]]:
    """The next `count` changes, without bookmarks."""
    changes: list[tuple[WatchEventType, V]] = []
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while len(changes) < count:
            event = await anext(events)
            if event.change is not WatchEventType.BOOKMARK:
                changes.append((event.change, event.object))
    return changes


class ClientConformance:
    # --- create, get, list ---

    async def test_create_returns_server_fields(self, client: Client) -> None:
        name = new_name()
        created = await client.create(CONFIG_MAP, {"metadata": {"name": name}}, namespace=NAMESPACE)
        assert (created.name, created.namespace) == (name, NAMESPACE)
        assert created.uid
        assert created.metadata.creation_timestamp
        assert version(created) > 0
        assert await client.get(CONFIG_MAP, name, namespace=NAMESPACE) == created

    async def test_server_completes_a_generated_name(self, client: Client) -> None:
        created = await client.create(CONFIG_MAP, {"metadata": {"generateName": "conf-"}}, namespace=NAMESPACE)
        assert created.name.startswith("conf-")
        assert len(created.name) > len("conf-")

    async def test_name_is_unique(self, client: Client) -> None:
        taken = await a_config_map(client)
        with pytest.raises(AlreadyExists):
            await client.create(CONFIG_MAP, {"metadata": {"name": taken.name}}, namespace=NAMESPACE)

    async def test_missing_object_is_not_found(self, client: Client) -> None:
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAP, "missing", namespace=NAMESPACE)
        with pytest.raises(NotFound):
            await client.delete(CONFIG_MAP, "missing", namespace=NAMESPACE)
        with pytest.raises(NotFound):
            await client.patch(CONFIG_MAP, "missing", MergePatch({"data": {}}), namespace=NAMESPACE)

    async def test_cluster_scoped_kinds_need_no_namespace(self, client: Client) -> None:
        name = new_name()
        created = await client.create(NODE, node_body(name=name))
        assert created.namespace == ""
        assert (await client.get(NODE, name)).uid == created.uid
        assert name in {node.name for node in (await client.list(NODE)).items}
        await client.delete(NODE, name)

    async def test_list_contains_earlier_writes_and_its_version(self, client: Client) -> None:
        items = [await a_config_map(client) for _ in range(3)]
        listing = await client.list(CONFIG_MAP, namespace=NAMESPACE)
        assert {item.key for item in items} <= {item.key for item in listing.items}
        assert int(listing.resource_version) >= max(map(version, items))
        everywhere = await client.list(CONFIG_MAP)
        assert {item.key for item in items} <= {item.key for item in everywhere.items}

    async def test_list_filters_by_labels(self, client: Client) -> None:
        mine = new_name()
        selected = await a_config_map(client, labels={"set": mine})
        await a_config_map(client, labels={"set": "other"})
        listing = await client.list(CONFIG_MAP, namespace=NAMESPACE, labels=f"set={mine}")
        assert [item.key for item in listing.items] == [selected.key]

    async def test_list_of_missing_namespace_is_empty(self, client: Client) -> None:
        assert (await client.list(CONFIG_MAP, namespace="no-such-namespace")).items == ()

    # --- patch and update ---

    async def test_patch_without_change_keeps_the_version(self, client: Client) -> None:
        created = await a_config_map(client)
        painted = await patch_color(client, created, "blue")
        assert version(painted) > version(created)
        assert painted.uid == created.uid
        assert await patch_color(client, created, "blue") == painted

    async def test_patch_of_old_version_conflicts(self, client: Client) -> None:
        created = await a_config_map(client)
        painted = await patch_color(client, created, "blue")
        stale = MergePatch(
            {"metadata": {"resourceVersion": created.metadata.resource_version, "labels": {"late": "yes"}}}
        )
        with pytest.raises(Conflict):
            await client.patch(CONFIG_MAP, created.name, stale, namespace=NAMESPACE)
        assert await client.get(CONFIG_MAP, created.name, namespace=NAMESPACE) == painted

    async def test_json_patch_is_atomic(self, client: Client) -> None:
        created = await a_config_map(client)
        add = {"op": "add", "path": "/metadata/annotations", "value": {"a": "1"}}
        failing = {"op": "test", "path": "/data/color", "value": "green"}
        with pytest.raises(Invalid):
            await client.patch(CONFIG_MAP, created.name, JsonPatch([add, failing]), namespace=NAMESPACE)
        assert await client.get(CONFIG_MAP, created.name, namespace=NAMESPACE) == created
        patched = await client.patch(CONFIG_MAP, created.name, JsonPatch([add]), namespace=NAMESPACE)
        assert patched.metadata.annotations == {"a": "1"}

    async def test_update_replaces_only_the_named_version(self, client: Client) -> None:
        created = await a_config_map(client, labels={"old": "label"})
        meta = {"name": created.name, "resourceVersion": created.metadata.resource_version, "labels": {"new": "label"}}
        updated = await client.update(CONFIG_MAP, {"metadata": meta, "data": {}}, namespace=NAMESPACE)
        assert updated.metadata.labels == {"new": "label"}
        with pytest.raises(Conflict):
            await client.update(CONFIG_MAP, {"metadata": meta, "data": {"late": "yes"}}, namespace=NAMESPACE)

    async def test_status_is_written_by_subresource_only(self, client: Client) -> None:
        name = new_name()
        created = await client.create(CLAIM, claim_body(name=name), namespace=NAMESPACE)
        bound = MergePatch({"status": {"phase": "Bound"}})
        ignored = await client.patch(CLAIM, name, bound, namespace=NAMESPACE)
        assert ignored.status == created.status
        written = await client.patch(CLAIM, name, bound, namespace=NAMESPACE, subresource="status")
        assert written.status.phase == "Bound"
        assert written.spec == created.spec

    # --- delete ---

    async def test_deleted_object_is_not_found(self, client: Client) -> None:
        item = await a_config_map(client)
        await client.delete(CONFIG_MAP, item.name, namespace=NAMESPACE)
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAP, item.name, namespace=NAMESPACE)

    async def test_preconditions_protect_against_deleting_another_object(self, client: Client) -> None:
        item = await a_config_map(client)
        with pytest.raises(Conflict):
            await client.delete(CONFIG_MAP, item.name, namespace=NAMESPACE, uid="another-uid")
        painted = await patch_color(client, item, "blue")
        with pytest.raises(Conflict):
            await client.delete(
                CONFIG_MAP, item.name, namespace=NAMESPACE, resource_version=item.metadata.resource_version
            )
        await client.delete(
            CONFIG_MAP,
            item.name,
            namespace=NAMESPACE,
            uid=item.uid,
            resource_version=painted.metadata.resource_version,
        )

    async def test_finalizers_delay_deletion(self, client: Client) -> None:
        item = await a_config_map(client, finalizers=["mooring.dev/conformance"])
        await client.delete(CONFIG_MAP, item.name, namespace=NAMESPACE)
        waiting = await client.get(CONFIG_MAP, item.name, namespace=NAMESPACE)
        assert waiting.deleting
        await client.patch(CONFIG_MAP, item.name, MergePatch({"metadata": {"finalizers": None}}), namespace=NAMESPACE)
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAP, item.name, namespace=NAMESPACE)

    # --- watch ---

    async def test_watch_delivers_every_change_in_order(self, client: Client) -> None:
        mine = new_name()
        start = await client.list(CONFIG_MAP, namespace=NAMESPACE)
        item = await a_config_map(client, labels={"set": mine})
        watching = client.watch(CONFIG_MAP, after=start.resource_version, namespace=NAMESPACE, labels=f"set={mine}")
        async with aclosing(watching) as events:
            assert await next_changes(events, 1) == [(WatchEventType.ADDED, item)]
            painted = await patch_color(client, item, "blue")
            await client.delete(CONFIG_MAP, item.name, namespace=NAMESPACE)
            (modified, deleted) = await next_changes(events, 2)
        assert modified == (WatchEventType.MODIFIED, painted)
        assert (deleted[0], deleted[1].key) == (WatchEventType.DELETED, item.key)
        assert version(deleted[1]) > version(painted)

    async def test_streamed_list_ends_with_a_bookmark(self, client: Client) -> None:
        mine = new_name()
        items = [await a_config_map(client, labels={"set": mine}) for _ in range(3)]
        watching = client.watch(CONFIG_MAP, after=None, namespace=NAMESPACE, labels=f"set={mine}")
        async with aclosing(watching) as events, asyncio.timeout(TIMEOUT_SECONDS):
            initial = []
            while not (event := await anext(events)).initial_end:
                initial.append(event)
            assert {event.change for event in initial} == {WatchEventType.ADDED}
            assert {event.object.key for event in initial} == {item.key for item in items}
            assert event.change is WatchEventType.BOOKMARK
            assert version(event.object) >= max(map(version, items))
            painted = await patch_color(client, items[0], "blue")
            assert await next_changes(events, 1) == [(WatchEventType.MODIFIED, painted)]

    async def test_empty_streamed_list_ends_at_once(self, client: Client) -> None:
        watching = client.watch(CONFIG_MAP, after=None, namespace=NAMESPACE, labels="set=empty")
        async with aclosing(watching) as events, asyncio.timeout(TIMEOUT_SECONDS):
            assert (await anext(events)).initial_end

    async def test_watch_with_selector_adds_and_deletes(self, client: Client) -> None:
        mine = new_name()
        item = await a_config_map(client)
        watching = client.watch(
            CONFIG_MAP, after=item.metadata.resource_version, namespace=NAMESPACE, labels=f"set={mine}"
        )
        async with aclosing(watching) as events:
            for value in (mine, "other"):
                patch = MergePatch({"metadata": {"labels": {"set": value}}})
                await client.patch(CONFIG_MAP, item.name, patch, namespace=NAMESPACE)
            changes = await next_changes(events, 2)
        assert [(change, found.key) for change, found in changes] == [
            (WatchEventType.ADDED, item.key),
            (WatchEventType.DELETED, item.key),
        ]

    async def test_compacted_version_has_expired(self, client: Client, compacted_version: str) -> None:
        with pytest.raises(Expired):
            async with aclosing(client.watch(CONFIG_MAP, after=compacted_version)) as events:
                await next_changes(events, 1)

    async def test_waiting_watch_can_be_closed(self, client: Client) -> None:
        start = await client.list(CONFIG_MAP)

        async def wait_for_ever() -> None:
            async with aclosing(client.watch(CONFIG_MAP, after=start.resource_version, labels="set=never")) as events:
                await next_changes(events, 1)

        waiting = asyncio.create_task(wait_for_ever())
        await client.list(CONFIG_MAP)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await client.list(CONFIG_MAP)

    # --- bind ---

    async def test_pod_is_bound_once(self, client: Client) -> None:
        name = new_name()
        pod = await client.create(POD, pod_body(name=name), namespace=NAMESPACE)
        await client.bind(name, namespace=NAMESPACE, uid=pod.uid, node="node-1")
        assert (await client.get(POD, name, namespace=NAMESPACE)).spec.node_name == "node-1"
        with pytest.raises(Conflict):
            await client.bind(name, namespace=NAMESPACE, uid=pod.uid, node="node-2")

    async def test_bind_with_old_uid_conflicts(self, client: Client) -> None:
        name = new_name()
        await client.create(POD, pod_body(name=name), namespace=NAMESPACE)
        with pytest.raises(Conflict):
            await client.bind(name, namespace=NAMESPACE, uid="of-the-old-one", node="node-1")
        with pytest.raises(NotFound):
            await client.bind("missing", namespace=NAMESPACE, uid="of-the-old-one", node="node-1")

    # --- evict ---

    async def test_evicted_pod_has_a_condition(self, client: Client) -> None:
        name = new_name()
        pod = await client.create(POD, pod_body(name=name, finalizers=["mooring.dev/conformance"]), namespace=NAMESPACE)
        await client.evict(name, namespace=NAMESPACE, uid=pod.uid)
        going = await client.get(POD, name, namespace=NAMESPACE)
        assert going.deleting
        disrupted = ("DisruptionTarget", "True", "EvictionByEvictionAPI")
        assert disrupted in [(row.type, row.status, row.reason) for row in going.status.conditions]
        await client.patch(POD, name, MergePatch({"metadata": {"finalizers": None}}), namespace=NAMESPACE)

    async def test_unscheduled_pod_is_deleted_on_eviction(self, client: Client) -> None:
        name = new_name()
        await client.create(POD, pod_body(name=name), namespace=NAMESPACE)
        await client.evict(name, namespace=NAMESPACE, grace_seconds=0)
        with pytest.raises(NotFound):
            await client.get(POD, name, namespace=NAMESPACE)

    async def test_evict_with_old_uid_conflicts(self, client: Client) -> None:
        name = new_name()
        await client.create(POD, pod_body(name=name), namespace=NAMESPACE)
        with pytest.raises(Conflict):
            await client.evict(name, namespace=NAMESPACE, uid="of-the-old-one")
        assert not (await client.get(POD, name, namespace=NAMESPACE)).deleting
        with pytest.raises(NotFound):
            await client.evict("missing", namespace=NAMESPACE)
