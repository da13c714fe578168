"""Every remedy that `mooring explain` prints works in the embedded cluster: after it is applied, the pod runs.

The stuck clusters of `tests/whatif/test_remedies.py`, fewer of them, in real time, with all remedies of each.
Differences from the drawn clusters: the driver is the hostpath driver with pools on every node, so a filler volume uses
the part of a pool that is not free (RaiseCapacity deletes it), attach limits are not set, and bound volumes are NFS
shares. Seeds whose pod uses the class `zonal` are left out, since no driver provisions its volumes; so are two
remedies: a new node for a pod with provisioned volumes, and those that install a driver or make it publish more.
"""

import asyncio
import json
import random
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from mooring.api import quantity, well_known
from mooring.api.errors import NotFound
from mooring.api.kinds import BY_KIND, CLAIM, NODE, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME
from mooring.api.kinds import POD as POD_KIND
from mooring.api.patches.contract import MergePatch
from mooring.cluster.bootstrap import Layout
from mooring.explain.cluster_objects import EXPLAINED_KINDS, ClusterObjects
from mooring.explain.pod import explain_pod
from mooring.explain.remedies.changes import AddNode, InstallDriver, PublishCapacity, RaiseCapacity
from mooring.explain.results import PodVerdict
from mooring.hostpath.records import NODE_KEY, Pool
from mooring.nodeagent.node_objects import POWER, PROVIDER
from support.builders import Body, claim_body
from support.e2e.embedded import Embedded, embedded
from support.whatif.stuck_clusters import ANYWHERE, POD, Cluster, stuck_cluster

pytestmark = pytest.mark.slow

GI: Final = 2**30
#: Capacity of the driver on every node, in GiB; the generator's largest value.
FAST: Final = 20
SLOW: Final = 8
POOLS: Final = (Pool("fast", FAST * GI), Pool("slow", SLOW * GI))
#: Number of remedies per seed: chosen so that most kinds of changes are covered.
SEEDS: Final = {2: 5, 12: 5, 29: 2, 36: 3}
#: Created by the cluster itself.
OWN: Final = ("CSIDriver", "StorageClass", "CSINode", "CSIStorageCapacity")
#: Fields that users write; the others are set by the server.
WRITTEN: Final = ("name", "namespace", "labels")

Key = tuple[str, str]


class Stuck:
    """A drawn cluster, translated to the names of the embedded one: node-1 instead of n1."""

    def __init__(self, seed: int) -> None:
        drawn = stuck_cluster(random.Random(seed))
        self.bodies: list[Body] = json.loads(re.sub(r'"n(\d)"', r'"node-\1"', json.dumps(drawn)))
        self.nodes = self._of("Node")
        claims = [body["spec"].get("storageClassName") for body in self._of("PersistentVolumeClaim")]
        assert "zonal" not in claims, "no driver makes these"
        self._makes_volumes = "fast" in claims
        self._taken: dict[str, int] = {}

    @property
    def layout(self) -> Layout:
        return Layout(nodes=len(self.nodes), zones=2, local_volumes=0)

    def _of(self, kind: str) -> list[Body]:
        return [body for body in self.bodies if body["kind"] == kind]

    async def create(self, cluster: Embedded) -> None:
        client = cluster.client
        for node in self.nodes:
            name, sizes = node["metadata"]["name"], node["status"]["allocatable"]
            await client.patch(NODE, name, MergePatch({"metadata": {"labels": node["metadata"]["labels"]}}))
            await client.patch(NODE, name, MergePatch({"status": {"allocatable": sizes}}), subresource="status")
            await self._fill(cluster, name)
        for body in self.bodies:
            if body["kind"] not in (*OWN, "Node") and body["metadata"]["name"] != "stuck":
                await _create(cluster, _new(body))
        await cluster.settle()
        for node in self.nodes:
            await self._spoil(cluster, node)
        await _create(cluster, _new(next(body for body in self._of("Pod") if body["metadata"]["name"] == "stuck")))
        await cluster.settle()

    async def _fill(self, cluster: Embedded, node: str) -> None:
        """A volume that uses the part of the pool that is not free."""
        free = {
            body["nodeTopology"]["matchLabels"][well_known.HOSTNAME]: quantity.to_bytes(body["capacity"])
            for body in self._of("CSIStorageCapacity")
        }
        self._taken[node] = taken = FAST * GI - free.get(node, 0)
        if taken:
            claim = claim_body(name=f"filler-{node}", storage_class="fast", size=str(taken))
            claim["metadata"]["annotations"] = {well_known.SELECTED_NODE: node}
            await _create(cluster, claim)

    def doable(self, changes: Sequence[object], there: Mapping[Key, Body]) -> bool:
        """Whether an administrator of this cluster can apply the remedy."""
        return all(self._doable(change, there) for change in changes)

    def _doable(self, change: object, there: Mapping[Key, Body]) -> bool:
        match change:
            case PublishCapacity() | InstallDriver():
                return False
            case AddNode():
                return not self._makes_volumes
            case RaiseCapacity():
                capacity = there[STORAGE_CAPACITY.kind, change.capacity]
                node = capacity["nodeTopology"]["matchLabels"][NODE_KEY]
                return bool(capacity["storageClassName"] == "fast" and change.amount <= self._taken[node])
            case _:
                return True

    async def _spoil(self, cluster: Embedded, node: Body) -> None:
        name, spec = node["metadata"]["name"], node["spec"]
        if "conditions" in node["status"] and node["status"]["conditions"][0]["status"] == "Unknown":
            await cluster.client.patch(NODE, name, MergePatch({"metadata": {"annotations": {POWER: "off"}}}))
            unknown = {"status": {"conditions": node["status"]["conditions"]}}
            await cluster.client.patch(NODE, name, MergePatch(unknown), subresource="status")
        elif spec.get("taints") or spec.get("unschedulable"):
            ill = {"taints": spec.get("taints"), "unschedulable": spec.get("unschedulable")}
            await cluster.client.patch(NODE, name, MergePatch({"spec": ill}))


def _new(body: Body) -> Body:
    """Without server-set fields."""
    spec = dict(body["spec"])
    if body["kind"] == VOLUME.kind:
        if "csi" in spec:
            spec = {key: value for key, value in spec.items() if key != "csi"} | ANYWHERE
        if (reference := spec.get("claimRef")) and reference["name"] != "gone":
            spec["claimRef"] = {key: value for key, value in reference.items() if key != "uid"}
    head = {key: value for key, value in body["metadata"].items() if key in WRITTEN}
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": head, "spec": spec}


async def _create(cluster: Embedded, body: Body) -> None:
    kind = BY_KIND[body["apiVersion"], body["kind"]]
    await cluster.client.create(kind, body, namespace="default" if kind.namespaced else "")


async def explained(cluster: Embedded) -> PodVerdict:
    objects = ClusterObjects(now=time.time())
    for body in await cluster.listed():
        objects.add(body)
    pod = objects.get(POD_KIND, POD)
    assert pod is not None
    return explain_pod(pod, objects)[0]


class Administrator:
    """Changes the bodies like the simulated test, and applies the difference to the cluster."""

    def __init__(self, cluster: Embedded) -> None:
        self._cluster = cluster
        self._client = cluster.client

    async def carry_out(self, changes: Sequence[object]) -> None:
        listed = await self._cluster.listed()
        desired = Cluster(listed)
        for change in changes:
            desired.apply(change)
        before, after = _by_key(listed), _by_key(desired.bodies)
        changed = {key: body for key, body in after.items() if before.get(key) != body}
        recreated = [key for key in changed if key[0] in (CLAIM.kind, STORAGE_CLASS.kind) and key in before]
        if recreated or (POD_KIND.kind, POD) in changed:
            recreated.insert(0, (POD_KIND.kind, POD))
        for key in (*recreated, *(key for key in before if key not in after)):
            await self._delete(before[key])
        for (kind, _), body in changed.items():
            match kind:
                case "Node" if (kind, body["metadata"]["name"]) in before:
                    await self._change_node(before[kind, body["metadata"]["name"]], body)
                case "Node":
                    await _create(self._cluster, _simulated_node(body))
                case "PersistentVolume" if (kind, body["metadata"]["name"]) in before:
                    if "claimRef" not in body["spec"]:
                        released = MergePatch({"spec": {"claimRef": None}})
                        await self._client.patch(VOLUME, body["metadata"]["name"], released)
                case "CSIStorageCapacity":
                    node = body["nodeTopology"]["matchLabels"][NODE_KEY]
                    await self._client.delete(CLAIM, f"filler-{node}", namespace="default")
                case "Pod" | "PersistentVolumeClaim":
                    pass
                case _:
                    await _create(self._cluster, body)
        for key in reversed(recreated):
            await _create(self._cluster, _new(after[key]) if "spec" in after[key] else after[key])

    async def _change_node(self, before: Body, after: Body) -> None:
        """A node that is up again loses its taints by itself."""
        name, metadata = after["metadata"]["name"], {"labels": after["metadata"]["labels"]}
        patch: Body = {"metadata": metadata}
        if after["status"]["conditions"] != before["status"]["conditions"]:
            patch = {"metadata": metadata | {"annotations": {POWER: None}}}
        elif after["spec"] != before["spec"]:
            patch["spec"] = {key: after["spec"].get(key) for key in ("taints", "unschedulable")}
        await self._client.patch(NODE, name, MergePatch(patch))
        sizes = {"status": {"allocatable": after["status"]["allocatable"]}}
        await self._client.patch(NODE, name, MergePatch(sizes), subresource="status")

    async def _delete(self, body: Body) -> None:
        """Delete, and wait for the end of the deletion."""
        kind = BY_KIND[body["apiVersion"], body["kind"]]
        try:
            await self._client.delete(
                kind, body["metadata"]["name"], namespace=body["metadata"].get("namespace", ""), grace_seconds=0
            )
        except NotFound:
            return
        await self._cluster.until(
            lambda bodies: all(each["metadata"]["uid"] != body["metadata"]["uid"] for each in bodies)
        )


def _by_key(bodies: list[Body]) -> dict[Key, Body]:
    def name(meta: Body) -> str:
        return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else meta["name"]

    return {(body["kind"], name(body["metadata"])): body for body in bodies}


def _simulated_node(node: Body) -> Body:
    head = {key: value for key, value in node["metadata"].items() if key in WRITTEN}
    spec = {"providerID": f"{PROVIDER}{head['name']}"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": head, "spec": spec, "status": node["status"]}


def _runs(bodies: list[Body]) -> bool:
    return any(
        key == (POD_KIND.kind, POD) and body["status"].get("phase") == "Running"
        for key, body in _by_key(bodies).items()
    )


async def carried_out(seed: int, number: int, kubeconfig: Path) -> int:
    """Apply one remedy in a cluster of its own; returns the number of remedies."""
    stuck = Stuck(seed)
    async with embedded(kubeconfig, stuck.layout, POOLS, EXPLAINED_KINDS) as cluster:
        await stuck.create(cluster)
        assert not _runs(await cluster.listed())
        verdict = await explained(cluster)
        proposed = [(one, changes) for one in verdict.remedies for changes in (one.changes, *one.alternatives)]
        capacities = _by_key(await cluster.listed())
        found = [(one, changes) for one, changes in proposed if stuck.doable(changes, capacities)]
        assert found, verdict.verdict
        remedy, changes = found[number]
        await Administrator(cluster).carry_out(changes)
        try:
            await cluster.until(_runs)
        except TimeoutError:
            pod = _by_key(await cluster.listed())[POD_KIND.kind, POD]
            pytest.fail(f"{remedy.text}\n{changes}\n{pod['spec']}\n{pod['status']}\n{verdict.verdict}")
        return len(found)


@pytest.mark.parametrize(("seed", "remedies"), SEEDS.items())
def test_pod_runs_after_each_printed_remedy(seed: int, remedies: int, tmp_path: Path) -> None:
    async def main() -> list[int]:
        return await asyncio.gather(*(carried_out(seed, number, tmp_path / str(number)) for number in range(remedies)))

    assert set(asyncio.run(main())) == {remedies}
