"""Credential plugins: programs that a kubeconfig names (`user.exec`) and that say who one is.

They are run as kubectl runs them and speak `client.authentication.k8s.io`, v1 or v1beta1: what they should know is in
`KUBERNETES_EXEC_INFO`, and what they print is an `ExecCredential` with a token, a client certificate or both. What
they said is kept until it expires or the server refuses it. Whoever asks while a plugin runs gets the answer of that
run. No part of a credential is ever logged or put into an error.
"""

import asyncio
import enum
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from mooring.client.contract import Unreachable
from mooring.client.exec_process import Ended, run
from mooring.clock import Clock

GROUP: Final = "client.authentication.k8s.io"
API_VERSIONS: Final = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
#: Seconds a plugin may take: those that ask a cloud answer within a few. Upstream waits for ever.
TIMEOUT: Final = 60.0
#: The same where a person may have to type a password or find a second factor.
INTERACTIVE_TIMEOUT: Final = 300.0
#: How much of a plugin's complaint is passed on.
LONGEST_COMPLAINT: Final = 300


class PluginFailed(Unreachable):
    """There is no credential, so nothing was sent. The text is for the person at the terminal."""


class InteractiveMode(enum.Enum):
    """Whether a plugin may use standard input."""

    NEVER = "Never"
    IF_AVAILABLE = "IfAvailable"
    ALWAYS = "Always"


@dataclass(frozen=True)
class PluginCommand:
    """What to run, as a kubeconfig says it."""

    #: A path, or a name to be found on the PATH.
    command: str
    api_version: str = API_VERSIONS[0]
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    #: What to do where it is not installed, in the words of whoever wrote the kubeconfig.
    install_hint: str = ""
    interactive_mode: InteractiveMode = InteractiveMode.IF_AVAILABLE
    #: `spec.cluster` of what the plugin is told, where it wants to know.
    cluster: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Credential:
    """What a plugin said. Certificate and key are PEM; both or none."""

    token: str = field(default="", repr=False)
    certificate: str = ""
    key: str = field(default="", repr=False)
    #: Seconds since the epoch; None for one that lasts as long as the process.
    expires: float | None = None


def _stdin_is_a_terminal() -> bool:
    # A daemon may have no standard input, or have closed it.
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


class ExecPlugin:
    """One plugin and the credential it gave last."""

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
        """The one to show right now. Raises PluginFailed."""
        last = self._last
        if last is None or (last.expires is not None and self._clock.now() >= last.expires):
            return await self._renewed()
        return last

    async def instead_of(self, refused: Credential) -> Credential:
        """The one to show after the server refused this one. Raises PluginFailed."""
        if self._last is not None and self._last is not refused:
            return self._last
        return await self._renewed()

    async def close(self) -> None:
        """End the run that is under way, if any."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    async def _renewed(self) -> Credential:
        if self._running is None:
            self._running = asyncio.create_task(self._ask(), name=f"credential plugin {self._command.command}")
            self._running.add_done_callback(self._finished)
        run_under_way = self._running
        try:
            # Others may wait for the same run: one of them giving up must not end it.
            return await asyncio.shield(run_under_way)
        except asyncio.CancelledError:
            if run_under_way.cancelled():
                raise self._failed("was stopped because the client was closed") from None
            raise

    def _finished(self, task: asyncio.Task[Credential]) -> None:
        self._running = None
        # Looked at here because everybody who waited may be gone.
        if not task.cancelled() and task.exception() is None:
            self._last = task.result()

    async def _ask(self) -> Credential:
        interactive = self._is_interactive()
        command = self._command
        env = {
            **self._environ,
            **dict(command.env),
            "KUBERNETES_EXEC_INFO": exec_info(command, interactive=interactive),
        }
        timeout = max(self._timeout, INTERACTIVE_TIMEOUT) if interactive else self._timeout
        try:
            ended = await run((command.command, *command.args), env=env, interactive=interactive, timeout=timeout)
        except TimeoutError as error:
            raise self._failed(
                f"did not end within {timeout:g} s and was stopped: run it by hand to see what it waits for"
            ) from error
        except FileNotFoundError as error:
            hint = command.install_hint or "install it, or correct exec.command in the kubeconfig"
            raise self._failed(f"is not installed: {hint}") from error
        except OSError as error:
            raise self._failed(f"cannot be run: {error.strerror}") from error
        if ended.code != 0:
            raise self._failed(_complaint(ended, command.install_hint))
        try:
            return parse(ended.stdout, command.api_version)
        except NotACredential as error:
            raise self._failed(f"{error}: update it, or correct exec in the kubeconfig") from error

    def _is_interactive(self) -> bool:
        if self._command.interactive_mode is InteractiveMode.NEVER:
            return False
        available = self._at_terminal()
        if self._command.interactive_mode is InteractiveMode.ALWAYS and not available:
            raise self._failed("wants to ask questions (interactiveMode Always), but standard input is not a terminal")
        return available

    def _failed(self, what: str) -> PluginFailed:
        return PluginFailed(f"credential plugin {self._command.command!r} {what}")


def exec_info(command: PluginCommand, *, interactive: bool) -> str:
    """What the plugin finds in `KUBERNETES_EXEC_INFO`."""
    spec: dict[str, Any] = {"interactive": interactive}
    if command.cluster is not None:
        spec["cluster"] = command.cluster
    told = {"apiVersion": command.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(told).decode()


class NotACredential(ValueError):
    """What a plugin printed is not what it should be; the text quotes nothing of it."""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    status: _Status | None = None


def parse(output: bytes, api_version: str) -> Credential:
    """The credential in a plugin's output. Raises NotACredential."""
    try:
        said = msgspec.json.decode(output, type=_ExecCredential)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotACredential(f"printed no ExecCredential ({error})") from error
    if said.kind != "ExecCredential":
        raise NotACredential(f"printed an object of the kind {said.kind!r} instead of an ExecCredential")
    if said.api_version != api_version:
        raise NotACredential(f"speaks {said.api_version!r} while the kubeconfig asks for {api_version!r}")
    status = said.status or _Status()
    certificate, key = status.client_certificate_data or "", status.client_key_data or ""
    if bool(certificate) != bool(key):
        raise NotACredential("returned only one of certificate and key")
    if not (status.token or certificate):
        raise NotACredential("returned neither a token nor a certificate")
    expires = status.expiration_timestamp
    return Credential(status.token or "", certificate, key, None if expires is None else expires.timestamp())


def _complaint(ended: Ended, hint: str) -> str:
    """Why a plugin failed, in one line: its own first words, and what may help."""
    how = f"exited with {ended.code}" if ended.code > 0 else f"was ended by signal {-ended.code}"
    lines = ended.stderr.decode(errors="replace").strip().splitlines()
    words = one_line(lines[0])[:LONGEST_COMPLAINT] if lines else "it said nothing on standard error"
    return f"{how}: {words}" + (f" ({hint})" if hint else "")


def one_line(text: str) -> str:
    """Text of others as part of a sentence: no line breaks and nothing that would steer a terminal."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
