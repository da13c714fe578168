"""Mooring's components on the real kube-apiserver, each with the token of its own account: its RBAC decides."""

import asyncio
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from conformance.control_plane import ControlPlane
from conformance.test_whole_stack import EXAMPLE, PATIENCE, until
from mooring.api.errors import Forbidden
from mooring.api.kinds import CLAIM, POD, SECRET
from mooring.client.http import HttpClient
from mooring.client.kubeconfig import from_files
from mooring.clock import SystemClock
from mooring.cluster import identities, wiring
from mooring.cluster.bootstrap import Layout
from mooring.cluster.identities import identity_of
from mooring.server.kubeconfig import kubeconfig, kubeconfig_text
from scenarios import anti_affinity


class Accounts:
    """Clients of the components, each with its own token."""

    def __init__(self, kube: ControlPlane, folder: Path) -> None:
        self._kube = kube
        self._folder = folder
        self._clients: dict[str, HttpClient] = {}

    def __call__(self, component: str) -> HttpClient:
        if component not in self._clients:
            account = identity_of(component).account
            token = self._kube.kubectl("create", "token", account, "-n", identities.NAMESPACE).strip()
            config = kubeconfig(server=self._kube.url, authority=self._kube.authority.encode(), token=token)
            file = self._folder / account
            file.write_text(kubeconfig_text(config))
            access = from_files([file])
            self._clients[component] = HttpClient(access, component=component, clock=SystemClock())
        return self._clients[component]

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()


@pytest.mark.req("T32")
async def test_the_whole_stack_runs_with_the_least_rights_and_nobody_can_do_more(
    start_kube: Callable[[], ControlPlane], tmp_path: Path
) -> None:
    kube = start_kube()
    listed = {"apiVersion": "v1", "kind": "List", "items": identities.manifests()}
    kube.kubectl("apply", "-f", "-", stdin=json.dumps(listed))
    connect = Accounts(kube, tmp_path)
    plane = wiring.ControlPlane(connect, Layout(), clock=SystemClock(), rng=random.Random(1))
    with capture_logs() as logs:
        async with asyncio.timeout(3 * PATIENCE), wiring.running(plane):
            kube.kubectl("apply", "-f", str(EXAMPLE))
            anti_affinity.assert_all_placed(await until(kube, ["Running"] * 3))
            kube.kubectl("delete", "-f", str(EXAMPLE), "--wait=false")
            await until(kube, [])
            await _assert_no_more(connect)
    assert [line for line in logs if "is forbidden" in str(line)] == []
    await connect.close()


async def _assert_no_more(connect: Accounts) -> None:
    for component in ("default-scheduler", "persistentvolume-controller", "statefulset-controller", "node-agent"):
        with pytest.raises(Forbidden, match=identity_of(component).account):
            await connect(component).list(SECRET)
    with pytest.raises(Forbidden, match='cannot create resource "pods"'):
        await connect("default-scheduler").create(POD, {"metadata": {"name": "p"}}, namespace="default")
    with pytest.raises(Forbidden, match='cannot delete resource "persistentvolumeclaims"'):
        await connect("default-scheduler").delete(CLAIM, "c", namespace="default")
    with pytest.raises(Forbidden, match='cannot create resource "pods/binding"'):
        await connect("persistentvolume-controller").bind("p", namespace="default", uid="u", node="n")
