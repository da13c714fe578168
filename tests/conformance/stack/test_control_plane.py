"""The control plane of these tests is a real one: released versions, RBAC, running controllers and scheduler."""

import asyncio
import dataclasses
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

import pytest

from mooring.api.errors import Forbidden, Unauthorized
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME, Kind
from mooring.client.contract import Client, V, WatchEventType
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from support.builders import claim_body, class_body, node_body, pod_body, volume_body
from support.conformance.control_plane import ControlPlane
from support.conformance.releases import Release
from support.conformance.waiting import TIMEOUT_SECONDS

NAMESPACE: Final = "default"


async def seen(client: Client, kind: Kind[V], name: str, holds: Callable[[V], bool]) -> V:
    """The object of this name, once the condition holds for it."""
    watching = client.watch(kind, after=None, namespace=NAMESPACE, fields=f"metadata.name={name}")
    async with asyncio.timeout(TIMEOUT_SECONDS), aclosing(watching) as events:
        async for event in events:
            if event.change is not WatchEventType.BOOKMARK and holds(event.object):
                return event.object
    raise AssertionError(f"the server ended the watch of {name}")


def test_kubectl_and_server_are_of_one_release(kube: ControlPlane, release: Release) -> None:
    versions = kube.kubectl_json("version")
    assert versions["serverVersion"]["minor"] == str(release.minor)
    assert versions["serverVersion"]["gitVersion"] == versions["clientVersion"]["gitVersion"]


@pytest.mark.parametrize(
    ("token", "refusal"),
    [
        pytest.param("", Forbidden, id="anonymous"),
        pytest.param("not-the-token", Unauthorized, id="wrong token"),
    ],
)
async def test_only_the_administrator_has_access(kube: ControlPlane, token: str, refusal: type[Exception]) -> None:
    client = HttpClient(dataclasses.replace(kube.access, token=token), component="stranger", clock=SystemClock())
    with pytest.raises(refusal):
        await client.list(NODE)
    await client.close()


async def test_upstream_controller_binds_a_volume(kube: ControlPlane, client: HttpClient) -> None:
    await client.create(STORAGE_CLASS, class_body(name="at-once", binding_mode="Immediate"))
    await client.create(VOLUME, volume_body(name="real-volume", storage_class="at-once", node="somewhere"))
    await client.create(CLAIM, claim_body(name="real-claim", storage_class="at-once"), namespace=NAMESPACE)
    # The controller may sync the claim before it has observed the volume; the next sync is 15 s later.
    with kube.controllers("persistentvolume-binder-controller", options=("--pvclaimbinder-sync-period=1s",)):
        bound = await seen(client, CLAIM, "real-claim", lambda claim: claim.status.phase == "Bound")
    assert bound.spec.volume_name == "real-volume"


async def test_upstream_scheduler_binds_a_pod(kube: ControlPlane, client: HttpClient) -> None:
    await client.create(NODE, node_body(name="real-node"))
    # New nodes are tainted not-ready until a controller removes the taint; none runs here.
    pod = pod_body(name="real-pod", tolerations=[{"operator": "Exists"}])
    await client.create(POD, pod, namespace=NAMESPACE)
    with kube.scheduler():
        placed = await seen(client, POD, "real-pod", lambda pod: bool(pod.spec.node_name))
    assert placed.spec.node_name == "real-node"
    await client.delete(NODE, "real-node")
