"""One real binary as a child process: started with a log file, waited for, ended by its process id."""

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
#: Seconds to end in peace. What is kept is thrown away anyway, so nobody waits for long.
STOP_SECONDS: Final = 10.0
POLL_SECONDS: Final = 0.1
#: How much of its log a process that failed is quoted with.
LAST_WORDS: Final = 20

#: Whatever happens to pytest, kill -9 included, no server stays behind: PR_SET_PDEATHSIG outlives exec. Not a
#: `preexec_fn`: gRPC, once a test has used it, aborts a forked child in which Python runs.
_DYING_WITH_PARENT: Final = (
    sys.executable,
    "-ISc",
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execvp(sys.argv[1], sys.argv[1:])",
)


class Process:
    def __init__(self, command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None) -> None:
        """`environment` is what it finds there besides what these tests have."""
        self.name = Path(command[0]).name
        self._log = log
        with log.open("ab") as output:
            # A session of its own: Ctrl-C is for pytest, which then ends this process in its turn.
            self._child = subprocess.Popen(
                [*(_DYING_WITH_PARENT if sys.platform == "linux" else ()), *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | dict(environment or {}),
            )

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    @property
    def code(self) -> int | None:
        """What it ended with; None while it runs."""
        return self._child.poll()

    def wait_until_healthy(self, url: str, tls: ssl.SSLContext | None, *, token: str = "") -> None:
        """Wait until the address answers 200. AssertionError with the log's end if it does not come to that."""
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
        # No proxy of the environment has any business on loopback.
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
        raise AssertionError(f"{self.name} {state}\nlast answer: {last}\n{self.last_words()}")

    def last_words(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-LAST_WORDS:])

    def freeze(self) -> None:
        """Until none of its threads runs any more."""
        self._child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._child.pid, os.WSTOPPED)

    def thaw(self) -> None:
        self._child.send_signal(signal.SIGCONT)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it, in peace if it will. Idempotent."""
        self._child.send_signal(how)
        try:
            self._child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


def free_port() -> int:
    """A loopback port nobody listens on; the binaries do not tell which one they would have chosen themselves."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
