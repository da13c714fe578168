"""Rolling upgrades and downgrades on live objects: pods keep starting, and features wait for the last instance.

The older instances run the previous version out of the repository's history; and, where there is no history, this
version without the feature, which is all that an instance can see of an older one.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from mooring.volumes.claim_rollback import CLEAN
from support.builders import Body, claim_body, pod_body
from support.e2e.cluster import Cluster
from support.e2e.previous_version import previous_sources
from support.e2e.processes import COMPONENTS, NODES, Process, ProcessCluster
from support.e2e.workspace import Workspace
from support.hostpath.command import recorded_volumes

pytestmark = pytest.mark.slow

#: The feature of this version. The scheduler takes part in it and is upgraded last.
FEATURE: Final = "--feature-gates=ClaimRollback=true"
ORDER: Final = ("controller", "coordinator", "provisioner", "scheduler")
POOL: Final = "default=100Gi"
#: Pods that are run until a change of the instances is known to all: more than the seconds of two renewals.
ATTEMPTS: Final = 15


class Older(NamedTuple):
    """How an older instance is started."""

    sources: Callable[[Path], Path | None]
    options: tuple[str, ...] = ()


PREVIOUS: Final = pytest.param(Older(previous_sources), id="previous version")
EMULATED: Final = Older(lambda _: None, ("--feature-gates=ClaimRollback=false",))
#: Without capacity and held volumes, as the first versions.
WITHOUT: Final = Older(lambda _: None, ("--feature-gates=CSIStorageCapacity=false,ProvisioningRollback=false",))


class Rollout:
    """Two instances of every component, each of one version."""

    def __init__(self, stack: ProcessCluster, older: Older, folder: Path) -> None:
        self.stack = stack
        self._older = older
        self._sources = older.sources(folder)
        self.running: dict[str, list[Process]] = {component: [] for component in ORDER}

    def start_older(self, component: str) -> None:
        self.running[component].append(self.stack.start(component, *self._older.options, sources=self._sources))

    def start_newer(self, component: str) -> None:
        self.running[component].append(self.stack.start(component, FEATURE))

    def stop_oldest(self, component: str) -> None:
        self.running[component].pop(0).end()

    def kill_all(self) -> None:
        for processes in self.running.values():
            while processes:
                processes.pop().kill()

    def marked(self, claims: list[str]) -> bool:
        """Whether the PV controller has marked the claims clean when they were bound: the feature is in use."""
        found = [self.stack.own.item("pvc", claim)["status"].get("conditions", ()) for claim in claims]
        marks = {any(each["type"] == CLEAN for each in conditions) for conditions in found}
        assert len(marks) == 1, found
        return marks.pop()

    def run_pod(self, name: str) -> list[str]:
        claims = self.stack.create_pod(name)
        self.stack.own.wait_ready(name)
        return claims

    def wait_marked(self, name: str, expected: bool) -> None:
        """Run pods until the instances know of each other; within a few seconds, after which it stays so."""
        for number in range(ATTEMPTS):
            if self.marked(self.run_pod(f"{name}-{number}")) is expected:
                return
            time.sleep(1.0)
        raise AssertionError(f"claims are {'not ' if expected else ''}marked")

    def nothing_leaked(self) -> None:
        volumes = self.stack.cluster.items("pv")
        assert {volume["status"]["phase"] for volume in volumes} == {"Bound"}
        assert len(volumes) == len(self.stack.own.items("pvc")) == len(recorded_volumes(self.stack.driver))


@pytest.mark.req("T35.upgrade", "T35.downgrade")
@pytest.mark.parametrize("older", [PREVIOUS, pytest.param(EMULATED, id="this version without the feature")])
def test_feature_is_used_only_while_every_instance_announces_it(
    older: Older, tmp_path: Path, kubectl_on_path: None
) -> None:
    assert set(ORDER) == set(COMPONENTS)
    with ProcessCluster(tmp_path) as stack:
        rollout = Rollout(stack, older, tmp_path)
        stack.start_api_server(FEATURE)
        stack.start_nodes(POOL, node_options=[FEATURE])
        for component in ORDER:
            rollout.start_older(component)
            stack.wait_leader(component)
            rollout.start_older(component)
        assert not rollout.marked(rollout.run_pod("older"))

        for component in ORDER:
            for number in range(2):
                rollout.start_newer(component)
                # On its way while an instance goes.
                claims = stack.create_pod(f"up-{component}-{number}")
                rollout.stop_oldest(component)
                stack.own.wait_ready(f"up-{component}-{number}")
                if component != "scheduler":
                    assert not rollout.marked(claims), "the scheduler does not have the feature yet"
        rollout.wait_marked("newer", True)
        assert rollout.marked(rollout.run_pod("newest"))

        for number in range(2):
            rollout.start_older("scheduler")
            stack.create_pod(f"down-{number}")
            rollout.stop_oldest("scheduler")
            stack.own.wait_ready(f"down-{number}")
        rollout.wait_marked("mixed", False)
        assert "feature held back" in stack.log("controller")
        for component in ORDER[:-1]:
            for _ in range(2):
                rollout.start_older(component)
                rollout.stop_oldest(component)
        assert not rollout.marked(rollout.run_pod("older-again"))
        rollout.nothing_leaked()


@pytest.mark.req("C25.in-flight")
@pytest.mark.parametrize("older", [PREVIOUS, pytest.param(WITHOUT, id="this version without capacity and holds")])
def test_volumes_in_flight_survive_upgrade_downgrade_and_upgrade(
    older: Older, tmp_path: Path, kubectl_on_path: None
) -> None:
    with ProcessCluster(tmp_path) as stack:
        rollout = Rollout(stack, older, tmp_path)
        stack.start_api_server()
        # Most volumes are created without the provisioner getting to know: they stay in flight for some seconds.
        stack.start_nodes(POOL, "--inject-failure=CreateVolume=UNAVAILABLE,after,probability=0.7")
        names: list[str] = []
        for turn, start in enumerate([rollout.start_older, rollout.start_newer] * 2):
            for component in ORDER:
                start(component)
            # The volumes that the last version had in flight.
            stack.own.wait_ready(*names)
            before = len(recorded_volumes(stack.driver))
            names += [f"turn-{turn}-{number}" for number in range(2)]
            for name in names[-2:]:
                stack.create_pod(name)
            stack.own.wait_for(lambda before=before: len(recorded_volumes(stack.driver)) > before)  # type: ignore[misc]
            rollout.kill_all()
        for component in ORDER:
            rollout.start_newer(component)
        stack.own.wait_ready(*names)
        rollout.nothing_leaked()
        # What is published accounts for all of them.
        used = len(recorded_volumes(stack.driver))

        def free() -> int:
            published = stack.system.items("csistoragecapacities")
            sizes = [each["capacity"] for each in published]
            assert len(sizes) <= len(NODES), sizes
            return sum(int(size.removesuffix("Gi")) for size in sizes if size.endswith("Gi"))

        stack.own.wait_for(lambda: free() == 100 * len(NODES) - used)


def test_embedded_cluster_starts_on_the_data_of_the_previous_version(
    start_cluster: Callable[..., Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods, claims and volumes are as they were, and storage provisioned by either version can be used and deleted."""
    with monkeypatch.context() as older:
        older.setenv("PYTHONPATH", str(previous_sources(tmp_path)))
        cluster = start_cluster("--data-dir", "data")
        default = Workspace(cluster, "default")
        default.apply(*pod_with_claim("old"))
        default.wait_ready("old")
        before = identities(cluster)
        cluster.stop()

    cluster.start()

    assert identities(cluster) == before
    default.wait_ready("old")
    default.apply(*pod_with_claim("new"))
    default.wait_ready("new")
    default("delete", "pod/old", "pvc/old", "pod/new", "pvc/new", "--timeout=30s")
    default.wait_for(lambda: len(cluster.items("pv")) == len(before) - 3)


def pod_with_claim(name: str) -> tuple[Body, Body]:
    claim = claim_body(name=name, namespace="", storage_class="fast", size="1Gi")
    return claim, pod_body(name=name, namespace="", claims=[name])


def identities(cluster: Cluster) -> set[tuple[str, str]]:
    """Of the pod, its claim and all volumes: name and uid."""
    objects = (body["metadata"] for kind in ("pods", "pvc", "pv") for body in cluster.items(kind))
    return {(body["name"], body["uid"]) for body in objects}
