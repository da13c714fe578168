"""Credential plugins (`user.exec` of a kubeconfig), `client.authentication.k8s.io` v1 and v1beta1.

A credential is cached until it expires or the server rejects it; concurrent callers share one run. A run that is
abandoned by timeout or cancellation leaves no process behind. Credentials never appear in logs or errors.
"""

import asyncio
import enum
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from mooring.client.contract import Unreachable
from mooring.clock import Clock

#: Per stream; a credential with a certificate chain has some kilobytes.
MAX_OUTPUT_BYTES: Final = 1024 * 1024

_STDOUT, _STDERR = 1, 2


class ProcessResult(NamedTuple):
    """A negative code is the terminating signal."""

    code: int
    stdout: bytes
    stderr: bytes


async def run(command: Sequence[str], *, env: Mapping[str, str], interactive: bool, timeout: float) -> ProcessResult:
    """Run the program to its end. Raises OSError if it cannot be started, and TimeoutError. An interactive one inherits
    standard input, and its standard error is shown at once; any other has no terminal."""
    loop = asyncio.get_running_loop()
    # In a task of its own: when cancelled during the start, asyncio would kill the program alone and wait for the
    # children that inherited its streams.
    started = asyncio.create_task(
        loop.subprocess_exec(
            lambda: _Listener(show=interactive),
            *command,
            env=env,
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            # A process group, so that a hanging script is killed together with its children.
            start_new_session=not interactive,
        )
    )
    try:
        async with asyncio.timeout(timeout):
            _, listener = await asyncio.shield(started)
            await listener.closed.wait()
    finally:
        transport, listener = await started
        if transport.get_returncode() is None:
            # It may have exited in between.
            with suppress(ProcessLookupError):
                (os.kill if interactive else os.killpg)(transport.get_pid(), signal.SIGKILL)
        transport.close()
        await listener.exited.wait()
    code = transport.get_returncode()
    assert code is not None
    return ProcessResult(code, bytes(listener.output[_STDOUT]), bytes(listener.output[_STDERR]))


class _Listener(asyncio.SubprocessProtocol):
    def __init__(self, *, show: bool) -> None:
        self._show = show
        self.output: dict[int, bytearray] = {_STDOUT: bytearray(), _STDERR: bytearray()}
        self.exited = asyncio.Event()
        #: Set once it has exited and all writers have closed its streams.
        self.closed = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        kept = self.output[fd]
        kept += data[: MAX_OUTPUT_BYTES - len(kept)]
        if self._show and fd == _STDERR:
            sys.stderr.write(data.decode(errors="replace"))
            sys.stderr.flush()

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()


GROUP: Final = "client.authentication.k8s.io"
API_VERSIONS: Final = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
#: Seconds for a plugin to finish; upstream has no limit.
TIMEOUT: Final = 60.0
#: With a user who may have to type a password or a second factor.
INTERACTIVE_TIMEOUT: Final = 300.0
#: Of a failed plugin's standard error, quoted in the error.
MAX_STDERR_CHARS: Final = 300


class PluginFailed(Unreachable):
    """There is no credential, so nothing was sent."""


class InteractiveMode(enum.Enum):
    """Whether a plugin may use standard input."""

    NEVER = "Never"
    IF_AVAILABLE = "IfAvailable"
    ALWAYS = "Always"


@dataclass(frozen=True)
class PluginCommand:
    """The `exec` entry of a kubeconfig."""

    #: A path, or a name on the PATH.
    command: str
    api_version: str = API_VERSIONS[0]
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    #: Shown if the command is not installed.
    install_hint: str = ""
    interactive_mode: InteractiveMode = InteractiveMode.IF_AVAILABLE
    #: `spec.cluster` of KUBERNETES_EXEC_INFO, with provideClusterInfo.
    cluster: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Credential:
    """Certificate and key are PEM; both or none."""

    token: str = field(default="", repr=False)
    certificate: str = ""
    key: str = field(default="", repr=False)
    #: Seconds since the epoch; None without expiration.
    expires: float | None = None


def _stdin_is_a_terminal() -> bool:
    # A daemon may have no standard input, or have closed it.
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


class ExecPlugin:
    """One plugin and its last credential."""

    def __init__(
        self,
        command: PluginCommand,
        clock: Clock,
        *,
        timeout: float = TIMEOUT,
        environ: Mapping[str, str] | None = None,
        at_terminal: Callable[[], bool] = _stdin_is_a_terminal,
    ) -> None:
        self._command = command
        self._clock = clock
        self._timeout = timeout
        self._environ = os.environ if environ is None else environ
        self._at_terminal = at_terminal
        self._last: Credential | None = None
        self._running: asyncio.Task[Credential] | None = None

    async def credential(self) -> Credential:
        """The current credential. Raises PluginFailed."""
        last = self._last
        if last is None or (last.expires is not None and self._clock.now() >= last.expires):
            return await self._renewed()
        return last

    async def refresh_after_unauthorized(self, refused: Credential) -> Credential:
        """The credential to use after the server rejected this one. Raises PluginFailed."""
        if self._last is not None and self._last is not refused:
            return self._last
        return await self._renewed()

    async def close(self) -> None:
        """Stop a running plugin."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    async def _renewed(self) -> Credential:
        if self._running is None:
            self._running = asyncio.create_task(self._ask(), name=f"credential plugin {self._command.command}")
            self._running.add_done_callback(self._finished)
        run_under_way = self._running
        try:
            # Other callers may wait for the same run: cancelling one of them must not end it.
            return await asyncio.shield(run_under_way)
        except asyncio.CancelledError:
            if run_under_way.cancelled():
                raise self._failed("was stopped because the client was closed") from None
            raise

    def _finished(self, task: asyncio.Task[Credential]) -> None:
        self._running = None
        # Read here because all waiting callers may have been cancelled.
        if not task.cancelled() and task.exception() is None:
            self._last = task.result()

    async def _ask(self) -> Credential:
        command, interactive = self._command, self._is_interactive()
        info = {"KUBERNETES_EXEC_INFO": exec_info(command, interactive=interactive)}
        env = {**self._environ, **dict(command.env), **info}
        timeout = max(self._timeout, INTERACTIVE_TIMEOUT) if interactive else self._timeout
        try:
            ended = await run((command.command, *command.args), env=env, interactive=interactive, timeout=timeout)
        except TimeoutError as error:
            why = f"did not end within {timeout:g} s and was stopped: run it by hand to see what it waits for"
            raise self._failed(why) from error
        except FileNotFoundError as error:
            hint = command.install_hint or "install it, or correct exec.command in the kubeconfig"
            raise self._failed(f"is not installed: {hint}") from error
        except OSError as error:
            raise self._failed(f"cannot be run: {error.strerror}") from error
        if ended.code != 0:
            raise self._failed(_complaint(ended, command.install_hint))
        try:
            return parse_credential(ended.stdout, command.api_version)
        except InvalidCredential as error:
            raise self._failed(f"{error}: update it, or correct exec in the kubeconfig") from error

    def _is_interactive(self) -> bool:
        if self._command.interactive_mode is InteractiveMode.NEVER:
            return False
        available = self._at_terminal()
        if self._command.interactive_mode is InteractiveMode.ALWAYS and not available:
            raise self._failed("needs a terminal (interactiveMode Always), but standard input is not one")
        return available

    def _failed(self, what: str) -> PluginFailed:
        return PluginFailed(f"credential plugin {self._command.command!r} {what}")


def exec_info(command: PluginCommand, *, interactive: bool) -> str:
    """The value of `KUBERNETES_EXEC_INFO`."""
    spec: dict[str, Any] = {"interactive": interactive}
    if command.cluster is not None:
        spec["cluster"] = command.cluster
    info = {"apiVersion": command.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(info).decode()


class InvalidCredential(ValueError):
    """A plugin's output is invalid; the text quotes nothing of it."""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    status: _Status | None = None


def parse_credential(output: bytes, api_version: str) -> Credential:
    """The credential in a plugin's output. Raises InvalidCredential."""
    try:
        found = msgspec.json.decode(output, type=_ExecCredential)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidCredential(f"printed no ExecCredential ({error})") from error
    if found.kind != "ExecCredential":
        raise InvalidCredential(f"printed an object of the kind {found.kind!r} instead of an ExecCredential")
    if found.api_version != api_version:
        raise InvalidCredential(f"speaks {found.api_version!r} while the kubeconfig asks for {api_version!r}")
    status = found.status or _Status()
    certificate, key = status.client_certificate_data or "", status.client_key_data or ""
    if bool(certificate) != bool(key):
        raise InvalidCredential("returned only one of certificate and key")
    if not (status.token or certificate):
        raise InvalidCredential("returned neither a token nor a certificate")
    expires = status.expiration_timestamp
    return Credential(status.token or "", certificate, key, None if expires is None else expires.timestamp())


def _complaint(ended: ProcessResult, hint: str) -> str:
    """Exit status, first line of standard error, and the install hint."""
    how = f"exited with {ended.code}" if ended.code > 0 else f"was ended by signal {-ended.code}"
    lines = ended.stderr.decode(errors="replace").strip().splitlines()
    words = one_line(lines[0])[:MAX_STDERR_CHARS] if lines else "standard error is empty"
    return f"{how}: {words}" + (f" ({hint})" if hint else "")


def one_line(text: str) -> str:
    """Foreign text on one line, without control characters."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
