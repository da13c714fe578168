"""One binary as a child process: started with a log file, awaited, and stopped by its process id."""

import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

#: Seconds until a start counts as failed. Most take under five; a crowded machine takes longer.
START_SECONDS: Final = 90.0
#: Seconds for a graceful shutdown; short, since all data is temporary.
STOP_SECONDS: Final = 10.0
POLL_SECONDS: Final = 0.1
#: Characters of the log that an error contains.
LOG_TAIL_CHARS: Final = 20

#: The process dies with pytest, even after kill -9: PR_SET_PDEATHSIG survives exec. Not a `preexec_fn`: gRPC, once a
#: test has used it, aborts a forked child that runs Python.
_DYING_WITH_PARENT: Final = (
    sys.executable,
    "-ISc",
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execvp(sys.argv[1], sys.argv[1:])",
)


class Process:
    def __init__(self, command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None) -> None:
        """`environment` is added to the environment of the tests."""
        self.name = Path(command[0]).name
        self._log = log
        with log.open("ab") as output:
            # A session of its own: Ctrl-C reaches pytest only, which then stops this process.
            self._child = subprocess.Popen(
                [*(_DYING_WITH_PARENT if sys.platform == "linux" else ()), *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | dict(environment or {}),
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._child.poll()

    def wait_until_healthy(self, url: str, tls: ssl.SSLContext | None, *, token: str = "") -> None:
        """Wait until the address returns 200. AssertionError with the end of the log otherwise."""
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
        # Loopback requests bypass proxies of the environment.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
        deadline = time.monotonic() + START_SECONDS
        last = ""
        while self.running and time.monotonic() < deadline:
            try:
                with opener.open(request, timeout=5.0):
                    return
            except urllib.error.HTTPError as error:
                last = f"{error.code}: {error.read().decode(errors='replace')}"
                error.close()
            except OSError as error:
                last = str(error)
            time.sleep(POLL_SECONDS)
        state = f"is not healthy after {START_SECONDS:.0f} s" if self.running else f"ended with {self._child.poll()}"
        raise AssertionError(f"{self.name} {state}\nlast answer: {last}\n{self.log_tail()}")

    def log_tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-LOG_TAIL_CHARS:])

    def freeze(self) -> None:
        """Stop it with SIGSTOP, and wait until none of its threads runs."""
        self._child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._child.pid, os.WSTOPPED)

    def thaw(self) -> None:
        self._child.send_signal(signal.SIGCONT)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop it, gracefully if possible. Idempotent."""
        self._child.send_signal(how)
        try:
            self._child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


def free_port() -> int:
    """A free loopback port; the binaries do not report a port that they choose themselves."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
