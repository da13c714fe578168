"""One run of somebody else's program, from start to end: what it said, or that it took too long.

Knows processes, not credentials: `exec_plugin` decides what is run and what its words mean. A run that is abandoned,
by time-out or cancellation, leaves no process behind.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

#: How much of each stream is kept: a credential with a certificate chain has some kilobytes.
LONGEST_OUTPUT: Final = 1024 * 1024

_STDOUT, _STDERR = 1, 2


class Ended(NamedTuple):
    """How a run went. A negative code is the signal that ended it."""

    code: int
    stdout: bytes
    stderr: bytes


async def run(command: Sequence[str], *, env: Mapping[str, str], interactive: bool, timeout: float) -> Ended:
    """Run the program to its end. Raises OSError where it cannot be started, and TimeoutError.

    An interactive one has our standard input, and what it says on standard error is shown as it comes; any other
    has no terminal at all.
    """
    loop = asyncio.get_running_loop()
    # A task of its own: cancelled while it starts a program, asyncio would end that alone, and then wait for whoever
    # has inherited its streams.
    started = asyncio.create_task(
        loop.subprocess_exec(
            lambda: _Listener(show=interactive),
            *command,
            env=env,
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            # A group of its own, so that a script that hangs is ended together with what it waits for.
            start_new_session=not interactive,
        )
    )
    try:
        async with asyncio.timeout(timeout):
            _, listener = await asyncio.shield(started)
            await listener.silent.wait()
    finally:
        transport, listener = await started
        if transport.get_returncode() is None:
            _kill(transport.get_pid(), group=not interactive)
        transport.close()
        await listener.exited.wait()
    code = transport.get_returncode()
    assert code is not None, "it has exited"
    return Ended(code, bytes(listener.heard[_STDOUT]), bytes(listener.heard[_STDERR]))


def _kill(pid: int, *, group: bool) -> None:
    # It may have ended by itself in this very moment.
    with suppress(ProcessLookupError):
        if group:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)


class _Listener(asyncio.SubprocessProtocol):
    def __init__(self, *, show: bool) -> None:
        self._show = show
        self.heard: dict[int, bytearray] = {_STDOUT: bytearray(), _STDERR: bytearray()}
        self.exited = asyncio.Event()
        #: Set once it has ended and nobody is left who could still write to its streams.
        self.silent = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        kept = self.heard[fd]
        kept += data[: LONGEST_OUTPUT - len(kept)]
        if self._show and fd == _STDERR:
            sys.stderr.write(data.decode(errors="replace"))
            sys.stderr.flush()

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.silent.set()
