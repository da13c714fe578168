"""What every `Client` must do, whatever server is behind it and however it gets there.

Subclass `ClientConformance` in a test module and give it two fixtures:

    client              a Client of a server whose namespace `default` exists; other contents do not matter
    forgotten_version   a resourceVersion from which that server can no longer be watched

Names are new in every test, so one server may serve all of them.
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest

from builders import claim_body, metadata, node_body, pod_body
from mooring.api.errors import AlreadyExists, Conflict, Expired, Invalid, NotFound
from mooring.api.kinds import CLAIM, CONFIG_MAP, NODE, POD
from mooring.api.patches.contract import JsonPatch, MergePatch
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Change, Client, V, WatchEvent

NAMESPACE = "default"
#: Seconds until a test gives up on an event; only a broken client ever waits for it.
PATIENCE = 10.0

_numbers = itertools.count(1)


def new_name() -> str:
    return f"conformance-{next(_numbers)}"


async def a_config_map(
    client: Client, *, labels: dict[str, str] | None = None, finalizers: Sequence[str] = ()
) -> ApiObject:
    meta = metadata(name=new_name(), labels=labels, finalizers=finalizers)
    body = {"metadata": meta, "data": {"color": "red"}}
    return await client.create(CONFIG_MAP, body, namespace=NAMESPACE)


async def paint(client: Client, item: ApiObject, color: str) -> ApiObject:
    return await client.patch(CONFIG_MAP, item.name, MergePatch({"data": {"color": color}}), namespace=NAMESPACE)


def version(item: ApiObject) -> int:
    return int(item.metadata.resource_version)


async def next_changes(events: AsyncGenerator[WatchEvent[V], None], count: int) -> list[tuple[Change, V]]:
    """The next so many changes; bookmarks that come in between are nobody's business."""
    changes: list[tuple[Change, V]] = []
    async with asyncio.timeout(PATIENCE):
        while len(changes) < count:
            event = await anext(events)
            if event.change is not Change.BOOKMARK:
                changes.append((event.change, event.object))
    return changes


class ClientConformance:
    # --- create, get, list ---

    async def test_a_created_object_comes_back_with_what_the_server_added(self, client: Client) -> None:
        name = new_name()
        created = await client.create(CONFIG_MAP, {"metadata": {"name": name}}, namespace=NAMESPACE)
        assert (created.name, created.namespace) == (name, NAMESPACE)
        assert created.uid
        assert created.metadata.creation_timestamp
        assert version(created) > 0
        assert await client.get(CONFIG_MAP, name, namespace=NAMESPACE) == created

    async def test_the_server_completes_a_generated_name(self, client: Client) -> None:
        created = await client.create(CONFIG_MAP, {"metadata": {"generateName": "conf-"}}, namespace=NAMESPACE)
        assert created.name.startswith("conf-")
        assert len(created.name) > len("conf-")

    async def test_a_name_can_be_taken_once(self, client: Client) -> None:
        taken = await a_config_map(client)
        with pytest.raises(AlreadyExists):
            await client.create(CONFIG_MAP, {"metadata": {"name": taken.name}}, namespace=NAMESPACE)

    async def test_what_is_not_there_is_not_found(self, client: Client) -> None:
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAP, "nobody", namespace=NAMESPACE)
        with pytest.raises(NotFound):
            await client.delete(CONFIG_MAP, "nobody", namespace=NAMESPACE)
        with pytest.raises(NotFound):
            await client.patch(CONFIG_MAP, "nobody", MergePatch({"data": {}}), namespace=NAMESPACE)

    async def test_kinds_without_namespaces_need_none(self, client: Client) -> None:
        name = new_name()
        created = await client.create(NODE, node_body(name=name))
        assert created.namespace == ""
        assert (await client.get(NODE, name)).uid == created.uid
        assert name in {node.name for node in (await client.list(NODE)).items}
        await client.delete(NODE, name)

    async def test_a_list_holds_what_was_written_before_it_and_says_its_version(self, client: Client) -> None:
        items = [await a_config_map(client) for _ in range(3)]
        listing = await client.list(CONFIG_MAP, namespace=NAMESPACE)
        assert {item.key for item in items} <= {item.key for item in listing.items}
        assert int(listing.resource_version) >= max(map(version, items))
        everywhere = await client.list(CONFIG_MAP)
        assert {item.key for item in items} <= {item.key for item in everywhere.items}

    async def test_a_list_can_be_narrowed_by_labels(self, client: Client) -> None:
        mine = new_name()
        wanted = await a_config_map(client, labels={"set": mine})
        await a_config_map(client, labels={"set": "other"})
        listing = await client.list(CONFIG_MAP, namespace=NAMESPACE, labels=f"set={mine}")
        assert [item.key for item in listing.items] == [wanted.key]

    async def test_a_list_of_a_namespace_that_is_not_there_is_empty(self, client: Client) -> None:
        assert (await client.list(CONFIG_MAP, namespace="no-such-namespace")).items == ()

    # --- patch and update ---

    async def test_a_patch_changes_the_version_and_one_that_changes_nothing_does_not(self, client: Client) -> None:
        created = await a_config_map(client)
        painted = await paint(client, created, "blue")
        assert version(painted) > version(created)
        assert painted.uid == created.uid
        assert await paint(client, created, "blue") == painted

    async def test_a_patch_that_relies_on_an_old_version_is_a_conflict_and_does_nothing(self, client: Client) -> None:
        created = await a_config_map(client)
        painted = await paint(client, created, "blue")
        stale = MergePatch(
            {"metadata": {"resourceVersion": created.metadata.resource_version, "labels": {"late": "yes"}}}
        )
        with pytest.raises(Conflict):
            await client.patch(CONFIG_MAP, created.name, stale, namespace=NAMESPACE)
        assert await client.get(CONFIG_MAP, created.name, namespace=NAMESPACE) == painted

    async def test_a_json_patch_applies_as_a_whole_or_not_at_all(self, client: Client) -> None:
        created = await a_config_map(client)
        add = {"op": "add", "path": "/metadata/annotations", "value": {"a": "1"}}
        failing = {"op": "test", "path": "/data/color", "value": "green"}
        with pytest.raises(Invalid):
            await client.patch(CONFIG_MAP, created.name, JsonPatch([add, failing]), namespace=NAMESPACE)
        assert await client.get(CONFIG_MAP, created.name, namespace=NAMESPACE) == created
        patched = await client.patch(CONFIG_MAP, created.name, JsonPatch([add]), namespace=NAMESPACE)
        assert patched.metadata.annotations == {"a": "1"}

    async def test_an_update_replaces_the_version_it_names_and_no_other(self, client: Client) -> None:
        created = await a_config_map(client, labels={"old": "label"})
        meta = {"name": created.name, "resourceVersion": created.metadata.resource_version, "labels": {"new": "label"}}
        updated = await client.update(CONFIG_MAP, {"metadata": meta, "data": {}}, namespace=NAMESPACE)
        assert updated.metadata.labels == {"new": "label"}
        with pytest.raises(Conflict):
            await client.update(CONFIG_MAP, {"metadata": meta, "data": {"late": "yes"}}, namespace=NAMESPACE)

    async def test_status_is_written_through_its_own_door_only(self, client: Client) -> None:
        name = new_name()
        created = await client.create(CLAIM, claim_body(name=name), namespace=NAMESPACE)
        bound = MergePatch({"status": {"phase": "Bound"}})
        ignored = await client.patch(CLAIM, name, bound, namespace=NAMESPACE)
        assert ignored.status == created.status
        written = await client.patch(CLAIM, name, bound, namespace=NAMESPACE, subresource="status")
        assert written.status.phase == "Bound"
        assert written.spec == created.spec

    # --- delete ---

    async def test_a_deleted_object_is_gone(self, client: Client) -> None:
        item = await a_config_map(client)
        await client.delete(CONFIG_MAP, item.name, namespace=NAMESPACE)
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAP, item.name, namespace=NAMESPACE)

    async def test_preconditions_protect_against_deleting_another_object(self, client: Client) -> None:
        item = await a_config_map(client)
        with pytest.raises(Conflict):
            await client.delete(CONFIG_MAP, item.name, namespace=NAMESPACE, uid="somebody-else")
        painted = await paint(client, item, "blue")
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

    async def test_finalizers_delay_deletion_until_the_last_one_is_gone(self, client: Client) -> None:
        item = await a_config_map(client, finalizers=["mooring.dev/conformance"])
        await client.delete(CONFIG_MAP, item.name, namespace=NAMESPACE)
        waiting = await client.get(CONFIG_MAP, item.name, namespace=NAMESPACE)
        assert waiting.deleting
        await client.patch(CONFIG_MAP, item.name, MergePatch({"metadata": {"finalizers": None}}), namespace=NAMESPACE)
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAP, item.name, namespace=NAMESPACE)

    # --- watch ---

    async def test_a_watch_shows_every_change_after_its_version_in_order(self, client: Client) -> None:
        mine = new_name()
        start = await client.list(CONFIG_MAP, namespace=NAMESPACE)
        item = await a_config_map(client, labels={"set": mine})
        watching = client.watch(CONFIG_MAP, after=start.resource_version, namespace=NAMESPACE, labels=f"set={mine}")
        async with aclosing(watching) as events:
            assert await next_changes(events, 1) == [(Change.ADDED, item)]
            painted = await paint(client, item, "blue")
            await client.delete(CONFIG_MAP, item.name, namespace=NAMESPACE)
            (modified, deleted) = await next_changes(events, 2)
        assert modified == (Change.MODIFIED, painted)
        assert (deleted[0], deleted[1].key) == (Change.DELETED, item.key)
        assert version(deleted[1]) > version(painted)

    async def test_a_streamed_list_ends_with_its_mark_and_goes_on_live(self, client: Client) -> None:
        mine = new_name()
        items = [await a_config_map(client, labels={"set": mine}) for _ in range(3)]
        watching = client.watch(CONFIG_MAP, after=None, namespace=NAMESPACE, labels=f"set={mine}")
        async with aclosing(watching) as events, asyncio.timeout(PATIENCE):
            initial = []
            while not (event := await anext(events)).initial_end:
                initial.append(event)
            assert {event.change for event in initial} == {Change.ADDED}
            assert {event.object.key for event in initial} == {item.key for item in items}
            assert event.change is Change.BOOKMARK
            assert version(event.object) >= max(map(version, items))
            painted = await paint(client, items[0], "blue")
            assert await next_changes(events, 1) == [(Change.MODIFIED, painted)]

    async def test_a_streamed_list_of_nothing_ends_at_once(self, client: Client) -> None:
        watching = client.watch(CONFIG_MAP, after=None, namespace=NAMESPACE, labels="set=empty")
        async with aclosing(watching) as events, asyncio.timeout(PATIENCE):
            assert (await anext(events)).initial_end

    async def test_who_leaves_the_selection_is_deleted_for_it_and_who_enters_is_added(self, client: Client) -> None:
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
            (Change.ADDED, item.key),
            (Change.DELETED, item.key),
        ]

    async def test_a_version_that_is_no_longer_kept_has_expired(self, client: Client, forgotten_version: str) -> None:
        with pytest.raises(Expired):
            async with aclosing(client.watch(CONFIG_MAP, after=forgotten_version)) as events:
                await next_changes(events, 1)

    async def test_a_watch_can_be_left_while_it_waits(self, client: Client) -> None:
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

    async def test_a_pod_is_given_its_node_once(self, client: Client) -> None:
        name = new_name()
        pod = await client.create(POD, pod_body(name=name), namespace=NAMESPACE)
        await client.bind(name, namespace=NAMESPACE, uid=pod.uid, node="node-1")
        assert (await client.get(POD, name, namespace=NAMESPACE)).spec.node_name == "node-1"
        with pytest.raises(Conflict):
            await client.bind(name, namespace=NAMESPACE, uid=pod.uid, node="node-2")

    async def test_a_pod_made_again_under_its_name_is_not_bound_for_the_old_one(self, client: Client) -> None:
        name = new_name()
        await client.create(POD, pod_body(name=name), namespace=NAMESPACE)
        with pytest.raises(Conflict):
            await client.bind(name, namespace=NAMESPACE, uid="of-the-old-one", node="node-1")
        with pytest.raises(NotFound):
            await client.bind("nobody", namespace=NAMESPACE, uid="of-the-old-one", node="node-1")

    # --- evict ---

    async def test_an_evicted_pod_says_why_it_goes(self, client: Client) -> None:
        name = new_name()
        pod = await client.create(POD, pod_body(name=name, finalizers=["mooring.dev/conformance"]), namespace=NAMESPACE)
        await client.evict(name, namespace=NAMESPACE, uid=pod.uid)
        going = await client.get(POD, name, namespace=NAMESPACE)
        assert going.deleting
        disrupted = ("DisruptionTarget", "True", "EvictionByEvictionAPI")
        assert disrupted in [(row.type, row.status, row.reason) for row in going.status.conditions]
        await client.patch(POD, name, MergePatch({"metadata": {"finalizers": None}}), namespace=NAMESPACE)

    async def test_a_pod_nobody_runs_yet_is_gone_once_evicted(self, client: Client) -> None:
        name = new_name()
        await client.create(POD, pod_body(name=name), namespace=NAMESPACE)
        await client.evict(name, namespace=NAMESPACE, grace_seconds=0)
        with pytest.raises(NotFound):
            await client.get(POD, name, namespace=NAMESPACE)

    async def test_a_pod_made_again_under_its_name_is_not_evicted_for_the_old_one(self, client: Client) -> None:
        name = new_name()
        await client.create(POD, pod_body(name=name), namespace=NAMESPACE)
        with pytest.raises(Conflict):
            await client.evict(name, namespace=NAMESPACE, uid="of-the-old-one")
        assert not (await client.get(POD, name, namespace=NAMESPACE)).deleting
        with pytest.raises(NotFound):
            await client.evict("nobody", namespace=NAMESPACE)
