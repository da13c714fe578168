"""Immediate pairs on the real kube-apiserver: our PV controller beside kube-controller-manager, one after the other.

    python bench/kube_pv_controller.py [pairs [rounds]]

Needs the binaries of `make conformance`. One etcd and one kube-apiserver; each side has its own storage class, whose
volumes are there and Available before its claims come, all at once. Neither side has a rate limit. Prints pairs per
second from the first claim created to the last one bound, the best of the rounds, and the ratio.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]

from kube_side_by_side import UNLIMITED, create_all, find_binaries  # noqa: E402

from builders import claim_body, class_body, volume_body  # noqa: E402
from conformance.control_plane import ControlPlane  # noqa: E402
from mooring.api.kinds import CLAIM, STORAGE_CLASS, VOLUME, Kind  # noqa: E402
from mooring.api.views.meta import ApiObject  # noqa: E402
from mooring.client.http import HttpClient  # noqa: E402
from mooring.clock import SystemClock  # noqa: E402

BINDER = "persistentvolume-binder-controller"
#: Longer than this says enough.
PATIENCE = 300.0


@contextmanager
def ours(kube: ControlPlane) -> Iterator[None]:
    command = [sys.executable, "-m", "mooring", "controller", "--controllers", BINDER, "--no-http"]
    options = ["--kubeconfig", str(kube.kubeconfig), "--leader-elect", "false", "--log-level", "error"]
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()  # it has said what it controls: it is up
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


@contextmanager
def theirs(kube: ControlPlane) -> Iterator[None]:
    with kube.controllers(BINDER, options=UNLIMITED):
        yield


async def bind(client: HttpClient, name: str, pairs: int) -> float:
    """Pairs per second."""
    await client.create(STORAGE_CLASS, class_body(name=name, binding_mode="Immediate"))
    volumes = [volume_body(name=f"{name}-{i}", storage_class=name, node="somewhere") for i in range(pairs)]
    available = asyncio.create_task(reached(client, VOLUME, name, "Available", pairs))
    await create_all(client, VOLUME, volumes)
    await available
    claims = [claim_body(name=f"{name}-{i}", storage_class=name, size="1Gi") for i in range(pairs)]
    began = time.monotonic()
    bound = asyncio.create_task(reached(client, CLAIM, name, "Bound", pairs))
    await create_all(client, CLAIM, claims, "default")
    await bound
    return pairs / (time.monotonic() - began)


async def reached(client: HttpClient, kind: Kind[ApiObject], name: str, phase: str, count: int) -> None:
    """Wait until so many objects are in a phase. By a watch: lists would cost the server more than the binding."""
    there: set[str] = set()
    async with asyncio.timeout(PATIENCE), aclosing(client.watch(kind, after=None)) as events:
        async for event in events:
            one = event.object
            if one.name.startswith(name) and one.status.phase == phase:  # type: ignore[attr-defined]
                there.add(one.name)
                if len(there) == count:
                    return


async def main(binaries: Path, pairs: int, rounds: int) -> None:
    best = {"kube": 0.0, "mooring": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        kube = ControlPlane(binaries, Path(folder))
        kube.start()
        client = HttpClient(kube.access, component="bench", clock=SystemClock())
        try:
            for number in range(rounds):
                for side, running in (("kube", theirs), ("mooring", ours)):
                    with running(kube):
                        await asyncio.sleep(2)
                        best[side] = max(best[side], await bind(client, f"{side}-{number}", pairs))
        finally:
            await client.close()
            kube.stop()
    print(f"{pairs} immediate pairs, best of {rounds}")
    print(f"kube-controller-manager {best['kube']:8.1f} pairs/s")
    print(f"mooring                 {best['mooring']:8.1f} pairs/s   {best['mooring'] / best['kube']:.1f} x")


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    pairs, rounds = given + [1000, 2][len(given) :]
    asyncio.run(main(find_binaries(), pairs, rounds))
