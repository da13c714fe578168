"""Mooring's components on kube-apiserver, each with the token of its own service account."""

import asyncio
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from conformance.stack.test_whole_stack import until
from mooring.api.errors import Forbidden
from mooring.api.kinds import CLAIM, POD, SECRET
from mooring.client.http import HttpClient
from mooring.client.kubeconfig import from_files
from mooring.clock import SystemClock
from mooring.cluster import control_plane
from mooring.cluster.bootstrap import Layout
from mooring.cluster.identities import NAMESPACE, identity_of
from mooring.server.auth.server_files import kubeconfig, kubeconfig_text
from support.conformance.components import identity_manifests
from support.conformance.control_plane import ControlPlane
from support.conformance.waiting import TIMEOUT_SECONDS
from support.scenarios import anti_affinity
from support.scenarios.anti_affinity import EXAMPLE


class Accounts:
    """Clients of the components, each with its own token."""

    def __init__(self, kube: ControlPlane, folder: Path) -> None:
        self._kube = kube
        self._folder = folder
        self._clients: dict[str, HttpClient] = {}

    def __call__(self, component: str) -> HttpClient:
        if component not in self._clients:
            account = identity_of(component).account
            token = self._kube.kubectl("create", "token", account, "-n", NAMESPACE).strip()
            config = kubeconfig(server=self._kube.url, authority=self._kube.authority.encode(), token=token)
            file = self._folder / account
            file.write_text(kubeconfig_text(config))
            access = from_files([file])
            self._clients[component] = HttpClient(access, component=component, clock=SystemClock())
        return self._clients[component]

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()


@pytest.mark.req("T32.least-rights")
async def test_stack_runs_with_least_privileges(start_kube: Callable[[], ControlPlane], tmp_path: Path) -> None:
    kube = start_kube()
    listed = {"apiVersion": "v1", "kind": "List", "items": identity_manifests()}
    kube.kubectl("apply", "-f", "-", stdin=json.dumps(listed))
    connect = Accounts(kube, tmp_path)
    plane = control_plane.ControlPlane(connect, Layout(), clock=SystemClock(), rng=random.Random(1))
    with capture_logs() as logs:
        async with asyncio.timeout(3 * TIMEOUT_SECONDS), control_plane.running_control_plane(plane):
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
