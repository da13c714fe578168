"""A cluster for the dashboard's tests: a fake API server with given objects, and the dashboard on it."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from mooring.api import kinds, well_known
from mooring.api.errors import Forbidden, NotFound
from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.clock import SystemClock
from mooring.web.server import PageSettings, page
from mooring.web.session import DATED_EVENT, ViewScope
from support.builders import Body, capacity_body, claim_body, class_body, driver_body, node_body, pod_body, volume_body
from support.builders.groups import member_body, pod_group_body
from support.builders.objects import metadata
from support.fake_api_server import FakeApiServer
from support.fake_client import FakeClient

TOKEN: Final = "a-token-for-tests"
DRIVER: Final = "csi.example.com"
GI: Final = 2**30


class Scene(FakeApiServer):
    """`put` writes objects as given, status included."""

    def put(self, kind: Kind[ApiObject], body: Body) -> None:
        meta = body["metadata"]
        key = (kind.plural, meta.get("namespace", ""), meta["name"])
        stamped = {"uid": f"{meta['name']}-uid", "creationTimestamp": "2026-01-01T00:00:00Z"} | meta
        self._write(kind, self._objects.get(key), body | {"metadata": stamped})

    def node(self, name: str, *, zone: str = "zone-a", rack: str = "", lost_since: str = "", **more: object) -> None:
        labels = {well_known.RACK: rack} if rack else {}
        body = node_body(name=name, zone=zone, labels=labels, **more)
        if lost_since:
            not_ready = {"type": "Ready", "status": "False", "lastTransitionTime": lost_since}
            body["status"]["conditions"] = [not_ready]
        self.put(kinds.NODE, body)

    def group(self, name: str, *, min_count: int, message: str = "") -> None:
        """A PodGroup with the scheduler's last word on it."""
        said = {"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        self.put(kinds.POD_GROUP, pod_group_body(name=name, min_count=min_count, conditions=[said] if message else []))

    def member(self, name: str, *, group: str, **more: object) -> None:
        self.put(kinds.POD, member_body(name=name, group=group, **more))

    def held(self, name: str, *, node: str, claim: str, group: str = "", size: str = "10Gi") -> None:
        """A volume that is held for a claim, of a member of a group."""
        notes = {
            "hold.mooring.dev/node": node,
            "hold.mooring.dev/since": "2026-01-01T00:00:00Z",
            "hold.mooring.dev/claim": f"default/{claim}",
            "hold.mooring.dev/epoch": "1",
        }
        reference = {"namespace": "kube-system", "name": f"hold-{claim}-uid"}
        labels = {"mooring.dev/group": f"{group}-uid"} if group else {}
        self.made_volume(name, node=node, size=size, claim_ref=reference, annotations=notes, labels=labels)

    def volume(self, name: str, **more: object) -> None:
        self.put(kinds.VOLUME, volume_body(name=name, **more))

    def made_volume(self, name: str, *, node: str, claim: str = "", **more: object) -> None:
        """A volume provisioned by the driver, from the pool on a node."""
        source = {"csi": {"driver": DRIVER, "volumeHandle": name}}
        reference = None
        if claim:
            reference = {"namespace": "default", "name": claim, "uid": f"{claim}-uid"}
        given = {"storage_class": "made", "source": source, "claim_ref": reference}
        given["phase"] = "Bound" if claim else "Available"
        self.volume(name, node=node, **given | more)

    def claim(self, name: str, **more: object) -> None:
        self.put(kinds.CLAIM, claim_body(name=name, **more))

    def pod(self, name: str, **more: object) -> None:
        self.put(kinds.POD, pod_body(name=name, **more))

    def pool(self, node: str, capacity: str, *, storage_class: str = "made") -> None:
        topology = {"matchLabels": {well_known.HOSTNAME: node}}
        name = f"{storage_class}-{node}"
        self.put(
            kinds.STORAGE_CAPACITY,
            capacity_body(name=name, storage_class=storage_class, topology=topology, capacity=capacity),
        )

    def classes(self) -> None:
        self.put(kinds.STORAGE_CLASS, class_body(name="local"))
        self.put(kinds.STORAGE_CLASS, class_body(name="made", provisioner=DRIVER))
        self.put(kinds.CSI_DRIVER, driver_body(name=DRIVER, tracks_capacity=True))

    def event(self, name: str, *, about: tuple[str, str], reason: str, message: str, warning: bool = False) -> None:
        kind, target = about
        moment = "2026-01-01T00:00:00Z"
        self.put(
            DATED_EVENT,
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": metadata(name=name, namespace="default"),
                "involvedObject": {"kind": kind, "namespace": "default" if kind != "Node" else "", "name": target},
                "reason": reason,
                "message": message,
                "type": "Warning" if warning else "Normal",
                "count": 1,
                "lastTimestamp": moment,
            },
        )


class SceneClient(FakeClient):
    """A reader without permission to list some kinds, of a server that does not serve others."""

    def __init__(self, api: Scene, *, refused: tuple[str, ...] = (), not_served: tuple[str, ...] = ()) -> None:
        super().__init__(api)
        self.refused = set(refused)
        self.not_served = set(not_served)

    def _request(self, line: str) -> None:
        super()._request(line)
        plural = line.split()[1]
        if plural in self.not_served:
            raise NotFound("the server could not find the requested resource")
        if plural in self.refused:
            raise Forbidden(f'{plural} is forbidden: User "reader" cannot list resource "{plural}"')


def small() -> Scene:
    """Three nodes in two zones, two pools, a bound, a held and a free volume, and a pending pod."""
    scene = Scene()
    scene.classes()
    scene.node("node-1", zone="zone-a", rack="rack-1")
    scene.node("node-2", zone="zone-a", rack="rack-2")
    scene.node("node-3", zone="zone-b", rack="rack-1")
    scene.pool("node-1", "60Gi")
    scene.pool("node-2", "100Gi")
    scene.claim("data", size="30Gi", storage_class="made", volume="vol-data", bound=True)
    scene.made_volume("vol-data", node="node-1", claim="data", size="30Gi")
    scene.claim("log", size="10Gi", storage_class="made")
    hold = {"namespace": "kube-system", "name": "hold-log-uid"}
    notes = {"hold.mooring.dev/node": "node-1", "hold.mooring.dev/since": "2026-01-01T00:00:00Z"}
    scene.made_volume("vol-log", node="node-1", size="10Gi", claim_ref=hold, annotations=notes)
    scene.volume("disk-3", node="node-3", size="20Gi")
    scene.pod("web", claims=("data",), node="node-1", phase="Running")
    scene.claim("huge", size="500Gi", storage_class="made")
    why = "0/3 nodes are available: 3 node(s) did not have enough free storage."
    unplaced = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
    scene.pod("analytics", claims=("huge",), conditions=(unplaced,))
    about = ("Pod", "analytics")
    scene.event("analytics.1", about=about, reason="FailedScheduling", message=why, warning=True)
    return scene


def grouped() -> Scene:
    """`small` with three groups: one that holds one of its two volumes, one that does not fit, one that runs."""
    scene = small()
    for number in (1, 2):
        scene.claim(f"scratch-{number}", size="10Gi", storage_class="made")
        scene.member(f"train-{number}", group="train", claims=(f"scratch-{number}",))
        scene.claim(f"wide-{number}", size="200Gi", storage_class="made")
        scene.member(f"wide-{number}", group="wide", claims=(f"wide-{number}",))
    scene.group("train", min_count=2)
    scene.held("vol-scratch-1", node="node-2", claim="scratch-1", group="train")
    scene.group("wide", min_count=2, message="minCount (2) cannot be satisfied")
    scene.group("runs", min_count=1)
    scene.member("runs-1", group="runs", node="node-1", phase="Running")
    return scene


def thousand(nodes: int = 1000) -> Scene:
    """Many nodes in three zones, each with a pool, a provisioned volume and a free disk; a hundred pending pods."""
    scene = Scene()
    scene.classes()
    for number in range(1, nodes + 1):
        name = f"node-{number}"
        scene.node(name, zone=f"zone-{'abc'[number % 3]}", ready=number != 500)
        scene.pool(name, f"{40 + number % 60}Gi")
        scene.claim(f"data-{number}", size="10Gi", storage_class="made", volume=f"vol-{number}", bound=True)
        scene.made_volume(f"vol-{number}", node=name, claim=f"data-{number}", size=f"{10 + number % 80}Gi")
        scene.volume(f"disk-{number}", node=name, size="20Gi")
        scene.pod(f"web-{number}", claims=(f"data-{number}",), node=name, phase="Running")
    for number in range(nodes // 10):
        scene.claim(f"huge-{number}", size="900Gi", storage_class="made")
        scene.pod(f"batch-{number}", claims=(f"huge-{number}",))
    return scene


@asynccontextmanager
async def shown(
    scene: Scene,
    *,
    refused: tuple[str, ...] = (),
    not_served: tuple[str, ...] = (),
    port: int = 0,
    token: str = TOKEN,
    focus: ViewScope | None = None,
) -> AsyncIterator[str]:
    """The dashboard on a scene, at its address."""
    settings = PageSettings(token, port=port, focus=focus or ViewScope())
    client = SceneClient(scene, refused=refused, not_served=not_served)
    async with page(client, settings, clock=SystemClock(), rng=random.Random(1)) as address:
        yield address
