"""Conformance of clients and servers regarding namespaces.

For servers that implement namespaces, which the fake API server does not. Subclass `NamespaceConformance` in a test
module and provide a fixture `client`. A namespace controller may run beside it.
"""

from collections.abc import Sequence

import pytest

from mooring.api.errors import Conflict, Forbidden, MethodNotAllowed, NotFound
from mooring.api.kinds import CONFIG_MAP, NAMESPACE
from mooring.api.patches.contract import MergePatch
from mooring.api.views.core import Namespace
from mooring.client.contract import Client
from support.client_conformance import new_name

#: A finalizer that no namespace controller removes.
HELD = "mooring.dev/conformance"
#: Retries after concurrent updates.
TRIES = 20


async def held_namespace(client: Client, *, finalizers: Sequence[str] = ()) -> Namespace:
    metadata = {"name": new_name(), "labels": {"team": "x"}, "finalizers": list(finalizers)}
    return await client.create(NAMESPACE, {"metadata": metadata, "spec": {"finalizers": [HELD]}})


async def finalize(client: Client, name: str, holders: Sequence[str], **metadata: object) -> Namespace:
    """With the current version, retried on conflicts."""
    for _ in range(TRIES):
        version = (await client.get(NAMESPACE, name)).metadata.resource_version
        body = {"metadata": {"name": name, "resourceVersion": version} | metadata, "spec": {"finalizers": holders}}
        try:
            return await client.update(NAMESPACE, body, subresource="finalize")
        except Conflict:
            continue
    raise AssertionError(f"namespace {name} never stood still")


class NamespaceConformance:
    async def test_namespace_is_deleted_after_finalize(self, client: Client) -> None:
        made = await held_namespace(client)
        assert set(made.spec.finalizers) == {"kubernetes", HELD}
        await client.delete(NAMESPACE, made.name, uid=made.uid)
        going = await client.get(NAMESPACE, made.name)
        assert going.deleting
        assert going.status.phase == "Terminating"
        assert HELD in going.spec.finalizers
        with pytest.raises(Forbidden) as refusal:
            await client.create(CONFIG_MAP, {"metadata": {"name": "late"}}, namespace=made.name)
        assert refusal.value.details is not None
        assert [cause.reason for cause in refusal.value.details.causes] == ["NamespaceTerminating"]
        await finalize(client, made.name, [])
        with pytest.raises(NotFound):
            await client.get(NAMESPACE, made.name)

    async def test_metadata_finalizers_delay_deletion(self, client: Client) -> None:
        made = await held_namespace(client, finalizers=[HELD])
        await client.delete(NAMESPACE, made.name)
        await finalize(client, made.name, [], finalizers=[HELD])
        assert (await client.get(NAMESPACE, made.name)).spec.finalizers == ()
        await client.patch(NAMESPACE, made.name, MergePatch({"metadata": {"finalizers": None}}))
        with pytest.raises(NotFound):
            await client.get(NAMESPACE, made.name)

    async def test_finalizing_replaces_metadata_too(self, client: Client) -> None:
        made = await held_namespace(client, finalizers=[HELD])
        without = await finalize(client, made.name, [HELD])
        assert without.metadata.finalizers == ()
        assert "team" not in without.metadata.labels
        assert without.status == made.status

    async def test_finalize_with_old_version_conflicts(self, client: Client) -> None:
        made = await held_namespace(client)
        await client.delete(NAMESPACE, made.name)
        metadata = {"name": made.name, "resourceVersion": made.metadata.resource_version}
        with pytest.raises(Conflict):
            await client.update(NAMESPACE, {"metadata": metadata, "spec": {}}, subresource="finalize")
        assert HELD in (await client.get(NAMESPACE, made.name)).spec.finalizers

    async def test_only_an_update_finalizes(self, client: Client) -> None:
        made = await held_namespace(client)
        no_finalizers = MergePatch({"spec": {"finalizers": None}})
        with pytest.raises(MethodNotAllowed):
            await client.patch(NAMESPACE, made.name, no_finalizers, subresource="finalize")
        assert (await client.patch(NAMESPACE, made.name, no_finalizers)).spec == made.spec
