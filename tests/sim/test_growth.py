"""What was created and is gone is forgotten: every component is back where it began, in each round anew.

`World.remembered` counts every container of every component, so a new one that only grows fails here without a line in
this file. What may stay is listed, with what bounds it.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from builders import Body, claim_body, class_body, node_body, pod_body
from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, CONFIG_MAP, DEPLOYMENT, EVENT, NODE, POD, STATEFUL_SET, STORAGE_CLASS, VOLUME
from mooring.cluster.bootstrap import Layout
from mooring.sim.storage import Hostpaths
from mooring.sim.world import MakeAnnex, World, no_annex, simulate
from scenarios import crowd, in_world

GI: Final = 2**30
#: Longer than the longest pause, hold or memory of anything that is gone.
FORGETTING_SECONDS: Final = 1300.0
#: What stays although everything is gone, and why it cannot grow for ever.
BOUNDED: Final = {
    r"API server store fanout\.history": "the newest changes of a kind: 10,000 or 64 MiB",
    r"API server server .*shared_events": "events of the newest changes: 2,048 or 16 MiB",
    r"\S+ recorder (series|budget)\.": "the last 4,096 objects and reasons",
    r"default-scheduler component attempts\.over": "pods that were tried last: 4,096 or 16 MiB",
    r"default-scheduler component .*\.answers": "node selectors of one topology: 4,096, or 65,536 keys and values",
    r"default-scheduler component .*\.watched": "pod selectors asked about last: 1,024, or 65,536 keys and values",
    r"default-scheduler component .*parked_by": "an entry per plugin",
}
Create = Callable[[World, int], Awaitable[None]]


async def local_volumes(world: World, number: int) -> None:
    """Pods with late-bound volumes of a class of their own, some without a place."""
    await in_world.create(world, *crowd.manifest(f"disks-{number}", pods=12, volume_count=10))


async def workloads(world: World, number: int) -> None:
    """Sets whose controllers make pods and claims."""
    labels = {"app": f"set-{number}"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec: Body = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    claims = [{"metadata": {"name": "data"}, "spec": claim_body(storage_class=f"wait-{number}")["spec"]}]
    bodies: list[Body] = [
        class_body(name=f"wait-{number}"),
        node_body(name=f"guest-{number}"),
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": f"web-{number}"}, "spec": spec},
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": f"db-{number}"},
            "spec": {**spec, "serviceName": "db", "volumeClaimTemplates": claims},
        },
    ]
    await in_world.create(world, *bodies)


async def provisioned(world: World, number: int) -> None:
    """Pods with two volumes each that a driver makes, some with more than there is."""
    for pod in range(6):
        names = [f"claim-{number}-{pod}-{position}" for position in range(2)]
        size = "500Gi" if pod == 5 else "5Gi"
        bodies = [claim_body(name=name, storage_class="fast", size=size) for name in names]
        await in_world.create(world, *bodies, pod_body(name=f"pod-{number}-{pod}", claims=names))


async def clear(world: World, *, classes: bool, nodes: int) -> None:
    """Delete everything that was created; controllers and finalizers do the rest."""
    kinds = (DEPLOYMENT, STATEFUL_SET, POD, CLAIM, VOLUME, *((STORAGE_CLASS,) if classes else ()), CONFIG_MAP)
    for _ in range(2):
        for kind in kinds:
            for item in (await world.client.list(kind)).items:
                await _delete(world, kind, item.name, item.namespace)
        for item in (await world.client.list(NODE)).items:
            if item.name.startswith("guest-"):
                await _delete(world, NODE, item.name, "")
        await world.clock.sleep(FORGETTING_SECONDS)
    for item in (await world.client.list(EVENT)).items:
        await _delete(world, EVENT, item.name, item.namespace)
    left = {kind.plural: len((await world.client.list(kind)).items) for kind in (*kinds, EVENT)}
    assert not any(left.values()), left
    assert len((await world.client.list(NODE)).items) == nodes
    await world.clock.sleep(10)


async def _delete(world: World, kind: object, name: str, namespace: str) -> None:
    try:
        await world.client.delete(kind, name, namespace=namespace)  # type: ignore[arg-type]
    except NotFound:
        return


def no_longer(before: dict[str, int], after: dict[str, int]) -> dict[str, tuple[int, int]]:
    """What is remembered beyond what it was, but for what is bounded."""
    return {
        what: (before.get(what, 0), count)
        for what, count in sorted(after.items())
        if count > before.get(what, 0) and not any(re.match(pattern, what) for pattern in BOUNDED)
    }


@pytest.mark.parametrize(
    ("create", "annex", "objects", "classes"),
    [
        pytest.param(local_volumes, no_annex, [], True, id="local volumes"),
        pytest.param(workloads, no_annex, [], True, id="workloads and nodes"),
        *(
            pytest.param(provisioned, storage.annex, storage.objects(), False, id=f"provisioned, {name}")
            for name, storage in (
                ("held", Hostpaths(Layout(local_volumes=0), rollback=True, fast=100 * GI)),
                ("alone", Hostpaths(Layout(local_volumes=0), fast=100 * GI)),
                ("failing", Hostpaths(Layout(local_volumes=0), rollback=True, published=False, fast=20 * GI)),
            )
        ),
    ],
)
def test_what_is_gone_is_forgotten(create: Create, annex: MakeAnnex, objects: list[Body], classes: bool) -> None:
    async def scenario(world: World) -> dict[str, tuple[int, int]]:
        await in_world.create(world, *objects)
        await world.clock.sleep(60)
        nodes = len((await world.client.list(NODE)).items)
        for warm in range(2):
            await create(world, warm)
            await world.clock.sleep(120)
            await clear(world, classes=classes, nodes=nodes)
            if not warm:
                began = world.remembered()
        return no_longer(began, world.remembered())

    assert simulate(scenario, layout=Layout(local_volumes=0), seed=1, annex=annex) == {}


def test_a_container_that_only_grows_is_found() -> None:
    """The guard itself: a scheduler that never forgets a pod it has seen."""

    async def scenario(world: World) -> dict[str, tuple[int, int]]:
        [scheduler] = [each for each in world._instances if each.who == "default-scheduler"]
        component = scheduler._component
        hoard: dict[str, list[str]] = {}
        component._hoard = hoard  # type: ignore[union-attr]
        for number in range(2):
            await local_volumes(world, number)
            await world.clock.sleep(60)
            for pod in (await world.client.list(POD)).items:
                hoard.setdefault("seen", []).append(pod.name)
            await clear(world, classes=True, nodes=3)
            if not number:
                began = world.remembered()
        return no_longer(began, world.remembered())

    found = simulate(scenario, layout=Layout(local_volumes=0), seed=1)
    assert found == {"default-scheduler component hoard": (13, 25)}
