"""What becomes of objects whose owners are gone, go, or wait."""

from collections.abc import Sequence

import pytest

from mooring.api.kinds import CONFIG_MAP, SECRET, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.controllers.garbage_collector import GarbageCollector, OwnerState, blocks, stale_owners
from support.builders import Body, a_claim
from support.partial_control_plane import Plane, flaky, run_plane

ALIVE, GONE, WAITING = OwnerState.ALIVE, OwnerState.GONE, OwnerState.WAITING
COLLECTOR = [GarbageCollector]


@pytest.mark.parametrize(
    ("states", "want"),
    [
        pytest.param([], [], id="no owner"),
        pytest.param([ALIVE], [], id="an owner"),
        pytest.param([ALIVE, ALIVE], [], id="two owners"),
        pytest.param([GONE], [GONE], id="an owner that is gone"),
        pytest.param([WAITING], [WAITING], id="an owner that waits for it to go"),
        pytest.param([GONE, WAITING], [GONE, WAITING], id="one gone, one waiting"),
        pytest.param([ALIVE, GONE], [GONE], id="one gone, one alive"),
        pytest.param([WAITING, ALIVE], [WAITING], id="one waiting, one alive"),
    ],
)
def test_owners_that_do_not_keep_an_object(states: Sequence[OwnerState], want: Sequence[OwnerState]) -> None:
    by_uid = {str(number): state for number, state in enumerate(states)}
    assert sorted(by_uid[uid].value for uid in stale_owners(by_uid)) == sorted(state.value for state in want)


@pytest.mark.parametrize("blocking", [True, False])
def test_only_some_dependents_are_waited_for(blocking: bool) -> None:
    reference = {"kind": "ConfigMap", "name": "owner", "uid": "1", "blockOwnerDeletion": blocking}
    assert blocks(a_claim(owners=[reference]), "1") is blocking
    assert not blocks(a_claim(owners=[reference]), "2")


def config(name: str, *owners: Body, finalizers: Sequence[str] = ()) -> Body:
    meta = {"name": name, "namespace": "default", "ownerReferences": list(owners), "finalizers": list(finalizers)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


def reference(name: str, uid: str, *, kind: str = "ConfigMap", version: str = "v1", blocking: bool = True) -> Body:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": blocking}


async def _owner(plane: Plane, name: str = "owner") -> Body:
    made = await plane.create(CONFIG_MAP, config(name))
    return reference(name, made.uid)


async def _delete(plane: Plane, name: str, propagation: str = "") -> None:
    await plane.client.delete(CONFIG_MAP, name, namespace="default", propagation=propagation)


def test_dependents_go_when_their_owner_has_gone() -> None:
    async def scenario(plane: Plane) -> None:
        owner = await _owner(plane)
        child = await plane.create(CONFIG_MAP, config("child", owner))
        await plane.create(CONFIG_MAP, config("grandchild", reference("child", child.uid)))
        await plane.create(CONFIG_MAP, config("stranger"))
        await _delete(plane, "owner")
        await plane.pass_time(1.0)
        assert await plane.names(CONFIG_MAP) == ["stranger"]

    run_plane(COLLECTOR, scenario)


def test_lost_answers_do_no_harm() -> None:
    async def scenario(plane: Plane) -> None:
        for number in range(5):
            owner = await _owner(plane, f"owner-{number}")
            await plane.create(CONFIG_MAP, config(f"child-{number}", owner))
            await _delete(plane, f"owner-{number}", "Foreground")
        await plane.create(CONFIG_MAP, config("stranger"))
        await plane.pass_time()
        assert await plane.names(CONFIG_MAP) == ["stranger"]

    run_plane(COLLECTOR, scenario, client=flaky(0.4))


@pytest.mark.parametrize(
    "owner",
    [
        pytest.param(reference("owner", "another-uid"), id="an object of that name, but another one"),
        pytest.param(reference("missing", "1"), id="an object that never was"),
    ],
)
def test_dependent_of_an_owner_that_is_not_there_goes(owner: Body) -> None:
    async def scenario(plane: Plane) -> None:
        await _owner(plane)
        await plane.create(CONFIG_MAP, config("child", owner))
        await plane.pass_time(1.0)
        assert await plane.names(CONFIG_MAP) == ["owner"]

    run_plane(COLLECTOR, scenario)


@pytest.mark.parametrize(
    "owner",
    [
        pytest.param(reference("w", "1", kind="Widget", version="example.com/v1"), id="of a kind not served"),
        pytest.param(reference("owner", "1"), id="in a namespace, of an object in none"),
    ],
)
def test_owner_that_cannot_be_looked_up_keeps_its_dependents(owner: Body) -> None:
    async def scenario(plane: Plane) -> None:
        body = {"metadata": {"name": "child", "ownerReferences": [owner]}, "provisioner": "vendor.example/disk"}
        await plane.create(STORAGE_CLASS, body)
        await plane.pass_time()
        assert await plane.names(STORAGE_CLASS) == ["child"]

    run_plane(COLLECTOR, scenario)


def test_only_the_absent_owner_reference_is_removed() -> None:
    async def scenario(plane: Plane) -> None:
        first, second = await _owner(plane, "first"), await _owner(plane, "second")
        await plane.create(CONFIG_MAP, config("child", first, second))
        await _delete(plane, "first")
        await plane.pass_time(1.0)
        child = await plane.get(CONFIG_MAP, "child")
        assert [owner.name for owner in child.metadata.owner_references] == ["second"]

    run_plane(COLLECTOR, scenario)


def test_owner_in_the_foreground_waits_for_its_dependents() -> None:
    async def scenario(plane: Plane) -> None:
        owner = await _owner(plane)
        await plane.create(CONFIG_MAP, config("held", owner, finalizers=["example.com/hold"]))
        await plane.create(CONFIG_MAP, config("free", owner))
        await _delete(plane, "owner", "Foreground")
        await plane.pass_time()
        assert await plane.names(CONFIG_MAP) == ["held", "owner"]
        assert (await plane.get(CONFIG_MAP, "held")).deleting
        await plane.client.patch(
            CONFIG_MAP, "held", MergePatch({"metadata": {"finalizers": None}}), namespace="default"
        )
        await plane.pass_time(1.0)
        assert await plane.names(CONFIG_MAP) == []

    run_plane(COLLECTOR, scenario)


def test_foreground_owner_ignores_dependents_that_left_it() -> None:
    async def scenario(plane: Plane) -> None:
        owner = await _owner(plane)
        await plane.create(CONFIG_MAP, config("held", owner, finalizers=["example.com/hold"]))
        await _delete(plane, "owner", "Foreground")
        await plane.pass_time(1.0)
        left = MergePatch({"metadata": {"ownerReferences": None}})
        await plane.client.patch(CONFIG_MAP, "held", left, namespace="default")
        await plane.pass_time(1.0)
        assert await plane.names(CONFIG_MAP) == ["held"]

    run_plane(COLLECTOR, scenario)


def test_orphans_stay() -> None:
    async def scenario(plane: Plane) -> None:
        owner = await _owner(plane)
        await plane.create(CONFIG_MAP, config("child", owner))
        await plane.create(SECRET, config("secret", owner) | {"kind": "Secret"})
        await _delete(plane, "owner", "Orphan")
        await plane.pass_time()
        assert await plane.names(CONFIG_MAP) == ["child"]
        assert (await plane.get(CONFIG_MAP, "child")).metadata.owner_references == ()
        assert (await plane.get(SECRET, "secret")).metadata.owner_references == ()

    run_plane(COLLECTOR, scenario)


def test_cluster_wide_objects_are_collected_too() -> None:
    async def scenario(plane: Plane) -> None:
        body = {"metadata": {"name": "fast"}, "provisioner": "vendor.example/disk"}
        made = await plane.create(STORAGE_CLASS, body)
        owner = reference("fast", made.uid, kind="StorageClass", version="storage.k8s.io/v1")
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/disk"}}
        await plane.create(VOLUME, {"metadata": {"name": "disk", "ownerReferences": [owner]}, "spec": spec})
        await plane.client.delete(STORAGE_CLASS, "fast")
        await plane.pass_time(1.0)
        assert (await plane.get(VOLUME, "disk")).deleting

    run_plane(COLLECTOR, scenario)
