"""An API server with the namespace controller only, as a process of its own.

No scheduler, nodes or controllers act on the objects of a test. It listens with TLS and writes a kubeconfig exactly as
`mooring up` does.
"""

import asyncio
import random
import subprocess
import sys
from pathlib import Path
from typing import Final

from mooring.cli import runtime
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import Layout
from mooring.cluster.control_plane import build_components
from mooring.cluster.embedded import Settings, serving
from mooring.controllers.namespace_controller import NamespaceController

EMPTY: Final = Layout(nodes=0, local_volumes=0)
#: A start takes half a second; CI machines may be slow.
START_SECONDS: Final = 30


class BareServer:
    """Runs between `start` and `stop`; a restart keeps data and address."""

    def __init__(self, folder: Path) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self) -> None:
        command = [sys.executable, __file__, str(self._folder), self.url.rpartition(":")[2] or "0"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        assert self.url, "the server did not start"

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.communicate(timeout=START_SECONDS)


async def _serve(folder: Path, port: int) -> None:
    others = tuple(name for name, _ in build_components(EMPTY) if name != NamespaceController.name)
    settings = Settings(EMPTY, port, folder / "data", folder / "kubeconfig", left_out=others)
    async with serving(settings, clock=SystemClock(), rng=random.Random()) as cluster:
        print(cluster.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    runtime.configure_logging("warning")
    asyncio.run(_serve(Path(sys.argv[1]), int(sys.argv[2])))
