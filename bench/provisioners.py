"""`mooring provisioner` beside external-provisioner: the same driver, claims and API server, in turns.

    python -m bench.provisioners [--claims N] [--rounds N] [--default-rate-limit]

One real kube-apiserver with etcd, and the real csi-driver-host-path. The claims are of an Immediate class and carry the
annotation of the PV controller, so that nothing but the provisioner works on them. Neither side has a rate limit,
unless external-provisioner is to keep its default; both have the same number of workers. A round begins with a driver
without volumes and ends with the last PersistentVolume.

Prints, for each side and round, volumes per second, processor time per volume of the provisioner, and the CreateVolume
calls that the driver logged; then the ratios of the medians.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.kube import metering
from bench.kube.__main__ import find_binaries
from bench.kube.cluster import create_all
from bench.kube.watching import seen
from mooring.api import well_known
from mooring.api.kinds import CLAIM, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.cli.runtime import run_event_loop
from mooring.client.http import HttpClient
from mooring.client.informer import ALL_OBJECTS
from mooring.clock import SystemClock
from mooring.csi.client import CsiClient
from support.builders import claim_body
from support.conformance.control_plane import ControlPlane
from support.conformance.host_path_plugin import DRIVER, POOLS, HostPathPlugin, introduction, plugin
from support.conformance.process import Process

NODE: Final = "node-1"
NAMESPACE: Final = "default"
WORKERS: Final = 100
MOORING, UPSTREAM = "mooring provisioner", "csi-provisioner"
TOPOLOGY: Final = "--feature-gates=Topology=true"
#: external-provisioner's default is 5 requests a second.
UNLIMITED: Final = ("--kube-api-qps=5000", "--kube-api-burst=10000")
#: Seconds until a provisioner has provisioned the first claim, and all of them.
WARM_UP_SECONDS: Final = 60.0
ROUND_SECONDS: Final = 300.0
CALL: Final = "/csi.v1.Controller/CreateVolume"


class Took(NamedTuple):
    rate: float
    cpu: float
    calls: int


class Rounds:
    def __init__(
        self, kube: ControlPlane, binaries: Path, client: HttpClient, driver: HostPathPlugin, limits: Sequence[str]
    ) -> None:
        """`limits` are external-provisioner's options about its rate of requests."""
        self._kube = kube
        self._binaries = binaries
        self._client = client
        self._driver = driver
        self._limits = limits

    @contextmanager
    def _provisioner(self, side: str, name: str) -> Iterator[None]:
        program: list[Any] = [sys.executable, "-m", *side.split()] if side == MOORING else [self._binaries / side]
        options = (TOPOLOGY, *self._limits) if side == UPSTREAM else ("--log-level=error",)
        command = [*program, f"--csi-address={self._driver.socket}", f"--kubeconfig={self._kube.kubeconfig}"]
        command += [f"--worker-threads={WORKERS}", "--timeout=60s", *options]
        process = Process(command, self._driver.folder / f"{name}.log")
        try:
            yield
            if not process.running:
                raise RuntimeError(f"{side} ended\n{process.log_tail()}")
        finally:
            process.stop()

    async def measure(self, side: str, number: int, claims: int) -> Took:
        name = f"{'ours' if side == MOORING else 'upstream'}-{number}"
        with self._provisioner(side, name):
            await self._provision(f"{name}-first", 1, WARM_UP_SECONDS)
            before, calls = metering.usage(), self._calls()
            began = time.monotonic()
            last = await self._provision(name, claims, ROUND_SECONDS)
            used = metering.spent(before, metering.usage())[side].cpu_seconds
            took = Took(claims / (last - began), used / claims, self._calls() - calls)
        await self._clear()
        return took

    async def _provision(self, name: str, count: int, timeout: float) -> float:
        notes = {well_known.STORAGE_PROVISIONER: DRIVER}
        bodies = [
            claim_body(name=f"{name}-{number}", storage_class="now", size="1Mi", annotations=notes)
            for number in range(count)
        ]
        await create_all(self._client, CLAIM, bodies, NAMESPACE)
        prefix = f"{name}-"

        def is_done(volume: Any) -> bool:  # noqa: ANN401
            reference = volume.spec.claim_ref
            return reference is not None and reference.name.startswith(prefix)

        done = await seen(self._client, VOLUME, ALL_OBJECTS, is_done, count=count, timeout=timeout)
        if done.count < count:
            raise RuntimeError(f"{done.count} of {count} volumes of {name} after {timeout:.0f} s")
        return done.last

    def _calls(self) -> int:
        return (self._driver.folder / "hostpathplugin.log").read_text().count(f"GRPC call: {CALL}")

    async def _clear(self) -> None:
        """Delete everything, so that the next round begins with an empty driver; its costs grow with its volumes."""
        for kind, namespace in ((CLAIM, NAMESPACE), (VOLUME, "")):
            for item in (await self._client.list(kind, namespace=namespace)).items:
                release = MergePatch({"metadata": {"finalizers": None}})
                await self._client.patch(kind, item.name, release, namespace=namespace)
                await self._client.delete(kind, item.name, namespace=namespace)
        async with CsiClient(self._driver.socket, deadline=60.0) as driver:
            for volume in await driver.list_volumes():
                await driver.delete_volume(volume.volume_id, secrets={})


async def run(given: argparse.Namespace, folder: Path) -> None:
    binaries = find_binaries()
    kube = ControlPlane(binaries, folder)
    kube.start()
    client = HttpClient(kube.access, component="bench", clock=SystemClock())
    try:
        kube.kubectl("apply", "-f", "-", stdin=introduction([NODE]))
        with plugin(binaries, folder / "driver", NODE, *POOLS) as driver:
            rounds = Rounds(kube, binaries, client, driver, () if given.default_rate_limit else UNLIMITED)
            took: dict[str, list[Took]] = {UPSTREAM: [], MOORING: []}
            for number in range(given.rounds):
                for side, results in took.items():
                    results.append(await rounds.measure(side, number, given.claims))
                    rate, cpu, calls = results[-1]
                    print(f"{side:20} {rate:8.1f} volumes/s {cpu * 1e3:8.2f} ms each {calls:6} calls", flush=True)
    finally:
        await client.close()
        kube.stop()
    rate, cpu = (
        {side: statistics.median(one[column] for one in results) for side, results in took.items()} for column in (0, 1)
    )
    print(
        f"volumes/s {rate[MOORING] / rate[UPSTREAM]:.2f}x, CPU each {cpu[MOORING] / cpu[UPSTREAM]:.2f}x of upstream's"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--claims", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--default-rate-limit", action="store_true", help="external-provisioner's own")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mooring-provisioners-") as folder:
        run_event_loop(run(given, Path(folder)))


if __name__ == "__main__":
    main()
