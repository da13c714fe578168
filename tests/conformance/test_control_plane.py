"""That the control plane of these tests is a real one: released versions, RBAC, controllers and scheduler at work."""

import asyncio
import dataclasses
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

import pytest

from builders import claim_body, class_body, node_body, pod_body, volume_body
from conformance.control_plane import ControlPlane
from conformance.waiting import PATIENCE
from mooring.api.errors import Forbidden, Unauthorized
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME, Kind
from mooring.client.contract import Change, Client, V
from mooring.client.http import HttpClient
from mooring.clock import SystemClock

NAMESPACE: Final = "default"


async def seen(client: Client, kind: Kind[V], name: str, holds: Callable[[V], bool]) -> V:
    """The object of this name, once the condition holds for it."""
    watching = client.watch(kind, after=None, namespace=NAMESPACE, fields=f"metadata.name={name}")
    async with asyncio.timeout(PATIENCE), aclosing(watching) as events:
        async for event in events:
            if event.change is not Change.BOOKMARK and holds(event.object):
                return event.object
    raise AssertionError(f"the server ended the watch of {name}")


def test_kubectl_and_server_are_of_one_release(kube: ControlPlane) -> None:
    versions = kube.kubectl_json("version")
    assert versions["serverVersion"]["minor"] == "36"
    assert versions["serverVersion"]["gitVersion"] == versions["clientVersion"]["gitVersion"]


@pytest.mark.parametrize(
    ("token", "refusal"),
    [
        pytest.param("", Forbidden, id="nobody may read nothing"),
        pytest.param("not-the-token", Unauthorized, id="a wrong token is nobody's"),
    ],
)
async def test_only_the_administrator_comes_in(kube: ControlPlane, token: str, refusal: type[Exception]) -> None:
    client = HttpClient(dataclasses.replace(kube.access, token=token), component="stranger", clock=SystemClock())
    with pytest.raises(refusal):
        await client.list(NODE)
    await client.close()


async def test_the_real_controller_binds_a_volume(kube: ControlPlane, client: HttpClient) -> None:
    await client.create(STORAGE_CLASS, class_body(name="at-once", binding_mode="Immediate"))
    await client.create(VOLUME, volume_body(name="real-volume", storage_class="at-once", node="somewhere"))
    await client.create(CLAIM, claim_body(name="real-claim", storage_class="at-once"), namespace=NAMESPACE)
    # Its first look at a claim may come before it knows the volume; the usual second look is 15 s later.
    with kube.controllers("persistentvolume-binder-controller", options=("--pvclaimbinder-sync-period=1s",)):
        bound = await seen(client, CLAIM, "real-claim", lambda claim: claim.status.phase == "Bound")
    assert bound.spec.volume_name == "real-volume"


async def test_the_real_scheduler_places_a_pod(kube: ControlPlane, client: HttpClient) -> None:
    await client.create(NODE, node_body(name="real-node"))
    # New nodes count as not ready until a controller has seen them; none runs here.
    pod = pod_body(name="real-pod", tolerations=[{"operator": "Exists"}])
    await client.create(POD, pod, namespace=NAMESPACE)
    with kube.scheduler():
        placed = await seen(client, POD, "real-pod", lambda pod: bool(pod.spec.node_name))
    assert placed.spec.node_name == "real-node"
    await client.delete(NODE, "real-node")
