"""Credential plugins: their input, their output, and how often they run."""

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mooring.client.contract import Unreachable
from mooring.client.exec_plugin import (
    API_VERSIONS,
    Credential,
    ExecPlugin,
    InteractiveMode,
    InvalidCredential,
    PluginCommand,
    PluginFailed,
    exec_info,
    parse_credential,
)
from support.certificates import a_pair
from support.http_conversations import RecordingClock

V1, V1BETA1 = API_VERSIONS
#: 2026-01-01T00:00:00Z
NEW_YEAR = 1_767_225_600.0


def exec_credential(status: Mapping[str, Any] | None, *, version: str = V1, kind: str = "ExecCredential") -> bytes:
    return json.dumps({"apiVersion": version, "kind": kind, "status": status}).encode()


# --- what they may say ---


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({"token": "t"}, Credential("t"), id="a token"),
        pytest.param(
            {"token": "t", "expirationTimestamp": "2026-01-01T00:00:00Z"},
            Credential("t", expires=NEW_YEAR),
            id="expiry",
        ),
        pytest.param(
            {"token": "t", "expirationTimestamp": "2026-01-01T01:00:00+01:00"},
            Credential("t", expires=NEW_YEAR),
            id="expiry elsewhere",
        ),
        pytest.param(
            {"clientCertificateData": "c", "clientKeyData": "k"}, Credential("", "c", "k"), id="a certificate"
        ),
        pytest.param(
            {"token": "t", "clientCertificateData": "c", "clientKeyData": "k", "expirationTimestamp": None},
            Credential("t", "c", "k"),
            id="both",
        ),
    ],
)
def test_what_is_a_credential(status: dict[str, Any], want: Credential) -> None:
    assert parse_credential(exec_credential(status), V1) == want


@pytest.mark.parametrize(
    ("output", "text"),
    [
        pytest.param(b"", "printed no ExecCredential", id="nothing"),
        pytest.param(
            b"Logged in!\n" + exec_credential({"token": "t"}), "printed no ExecCredential", id="words before it"
        ),
        pytest.param(b'"' + b"\xff" + b'"', "printed no ExecCredential", id="not text"),
        pytest.param(b'{"kind":"ExecCredential"}', "missing required field `apiVersion`", id="no version"),
        pytest.param(exec_credential({"token": 5}), r"Expected `str .*\$\.status\.token", id="wrong type"),
        pytest.param(
            exec_credential({"token": "t"}, kind="Secret"), "an object of the kind 'Secret'", id="another kind"
        ),
        pytest.param(
            exec_credential({"token": "t"}, version=V1BETA1), f"speaks '{V1BETA1}' while .* '{V1}'", id="other version"
        ),
        pytest.param(exec_credential(None), "neither a token nor a certificate", id="no status"),
        pytest.param(exec_credential({"token": ""}), "neither a token nor a certificate", id="an empty token"),
        pytest.param(
            exec_credential({"clientCertificateData": "c"}), "only one of certificate and key", id="half a pair"
        ),
        pytest.param(
            exec_credential({"token": "t", "clientKeyData": "k"}), "only one of", id="half a pair and a token"
        ),
        pytest.param(
            exec_credential({"token": "t", "expirationTimestamp": "tomorrow"}),
            "expirationTimestamp",
            id="expiry that is none",
        ),
        pytest.param(
            exec_credential({"token": "t", "expirationTimestamp": "2026-01-01T00:00:00"}),
            "expirationTimestamp",
            id="no zone",
        ),
    ],
)
def test_what_is_none(output: bytes, text: str) -> None:
    with pytest.raises(InvalidCredential, match=text):
        parse_credential(output, V1)


def test_a_certificate_does_not_show() -> None:
    pair = a_pair()
    assert pair.key not in repr(Credential("secret", pair.certificate, pair.key))
    assert "secret" not in repr(Credential("secret"))


# --- input ---


def test_exec_info_has_the_cluster_only_if_configured() -> None:
    cluster = {"server": "https://here", "config": {"audience": "x"}}
    curious, modest = PluginCommand("p", V1BETA1, cluster=cluster), PluginCommand("p")
    assert json.loads(exec_info(curious, interactive=True)) == {
        "apiVersion": V1BETA1,
        "kind": "ExecCredential",
        "spec": {"interactive": True, "cluster": cluster},
    }
    assert json.loads(exec_info(modest, interactive=False))["spec"] == {"interactive": False}


# --- real ones ---


class Plugin:
    """A shell script that counts its runs and prints `answer`, after doing what a test wants."""

    def __init__(self, folder: Path) -> None:
        self._runs = folder / "runs"
        self._answer = folder / "answer"
        self._program = folder / "plugin"
        self._received_info = folder / "info"
        self.clock = RecordingClock()
        self.answers(token="t")
        self.does("")

    def answers(self, **status: object) -> None:
        self._answer.write_bytes(exec_credential(status))

    def does(self, commands: str) -> None:
        self._program.write_text(
            f'#!/bin/sh\necho run >> {self._runs}\necho "$KUBERNETES_EXEC_INFO" > {self._received_info}\n'
            f"{commands}\ncat {self._answer}\n"
        )
        self._program.chmod(0o755)

    @property
    def runs(self) -> int:
        return len(self._runs.read_text().split()) if self._runs.exists() else 0

    @property
    def received_info(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._received_info.read_text())
        return found

    def ready(
        self,
        *,
        timeout: float = 10.0,
        terminal: bool = False,
        mode: InteractiveMode = InteractiveMode.NEVER,
        api_version: str = V1,
        args: tuple[str, ...] = (),
        env: tuple[tuple[str, str], ...] = (),
        install_hint: str = "",
        cluster: Mapping[str, Any] | None = None,
    ) -> ExecPlugin:
        what = PluginCommand(str(self._program), api_version, args, env, install_hint, mode, cluster)
        return ExecPlugin(what, self.clock, timeout=timeout, environ=os.environ, at_terminal=lambda: terminal)


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


async def test_arguments_environment_and_information_arrive(plugin: Plugin) -> None:
    plugin.does('[ "$1 $2 $COLOR $HOME" = "get token blue $HOME" ] || exit 9')
    ready = plugin.ready(args=("get", "token"), env=(("COLOR", "blue"),), cluster={"server": "https://here"})
    assert await ready.credential() == Credential("t")
    assert plugin.received_info["spec"] == {"interactive": False, "cluster": {"server": "https://here"}}


async def test_a_credential_without_expiry_is_asked_for_once(plugin: Plugin) -> None:
    ready = plugin.ready()
    for _ in range(3):
        await ready.credential()
    plugin.clock.time += 10_000_000
    await ready.credential()
    assert plugin.runs == 1


async def test_a_credential_is_asked_for_again_once_it_has_expired(plugin: Plugin) -> None:
    plugin.clock.time = NEW_YEAR - 1
    plugin.answers(token="old", expirationTimestamp="2026-01-01T00:00:00Z")
    ready = plugin.ready()
    assert (await ready.credential()).token == "old"
    plugin.answers(token="new", expirationTimestamp="2026-01-01T01:00:00Z")
    assert (await ready.credential()).token == "old"
    plugin.clock.time = NEW_YEAR
    assert (await ready.credential()).token == "new"
    assert plugin.runs == 2


async def test_a_refused_credential_is_replaced_once_for_all_requests(plugin: Plugin) -> None:
    ready = plugin.ready()
    refused = await ready.credential()
    plugin.answers(token="new")
    renewed = await asyncio.gather(*(ready.refresh_after_unauthorized(refused) for _ in range(5)))
    assert {each.token for each in renewed} == {"new"}
    assert (await ready.refresh_after_unauthorized(refused)).token == "new"
    assert plugin.runs == 2


async def test_concurrent_requests_share_one_plugin_run(plugin: Plugin) -> None:
    plugin.does("sleep 0.05")
    ready = plugin.ready()
    asking = [asyncio.create_task(ready.credential()) for _ in range(5)]
    await asyncio.sleep(0.01)
    asking.pop(0).cancel()
    assert await asyncio.gather(*asking) == [Credential("t")] * 4
    assert plugin.runs == 1


async def test_a_failure_reaches_all_requests_and_the_next_one_runs_the_plugin_again(plugin: Plugin) -> None:
    plugin.does("exit 1")
    ready = plugin.ready()
    failed = await asyncio.gather(*(ready.credential() for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in failed] == [PluginFailed] * 3
    assert plugin.runs == 1
    plugin.does("")
    assert await ready.credential() == Credential("t")


async def test_closing_ends_a_run_and_the_calls_that_wait_for_it(plugin: Plugin) -> None:
    plugin.does("sleep 600")
    ready = plugin.ready()
    waiting = asyncio.create_task(ready.credential())
    await asyncio.sleep(0.01)
    await ready.close()
    with pytest.raises(PluginFailed, match="the client was closed"):
        await waiting
    await ready.close()


# --- who may ask questions ---


@pytest.mark.parametrize(
    ("mode", "terminal", "want"),
    [
        pytest.param(InteractiveMode.NEVER, True, False, id="never"),
        pytest.param(InteractiveMode.IF_AVAILABLE, False, False, id="not available"),
        pytest.param(InteractiveMode.IF_AVAILABLE, True, True, id="available"),
        pytest.param(InteractiveMode.ALWAYS, True, True, id="always"),
    ],
)
async def test_plugins_may_use_a_terminal(plugin: Plugin, mode: InteractiveMode, terminal: bool, want: bool) -> None:
    await plugin.ready(mode=mode, terminal=terminal).credential()
    assert plugin.received_info["spec"]["interactive"] is want


# --- what goes wrong ---


@pytest.mark.parametrize(
    ("commands", "options", "text"),
    [
        pytest.param(
            "echo >&2; echo 'Unable to locate credentials' >&2; echo more >&2; exit 255",
            {},
            r"^credential plugin '.*plugin' exited with 255: Unable to locate credentials$",
            id="it fails",
        ),
        pytest.param(
            "echo no >&2; exit 1",
            {"install_hint": "Run the cloud's login first."},
            r"exited with 1: no \(Run the cloud's login first\.\)$",
            id="it fails and there is a hint",
        ),
        pytest.param("exit 2", {}, "exited with 2: standard error is empty", id="it fails silently"),
        pytest.param("printf '\\033[31mred\\007' >&2; exit 1", {}, r"exited with 1: \[31mred$", id="it paints"),
        pytest.param("kill -9 $$", {}, "was ended by signal 9", id="it is killed"),
        pytest.param(
            "sleep 600", {"timeout": 0.1}, "did not end within 0.1 s and was stopped: run it by", id="it hangs"
        ),
        pytest.param("echo junk; exit 0", {}, "printed no ExecCredential .*: update it", id="not an ExecCredential"),
        pytest.param("", {"api_version": V1BETA1}, f"speaks '{V1}' while the kubeconfig asks", id="another version"),
        pytest.param("", {"mode": InteractiveMode.ALWAYS}, "needs a terminal .* is not one", id="no terminal"),
    ],
)
async def test_failures_are_one_sentence(plugin: Plugin, commands: str, options: dict[str, Any], text: str) -> None:
    plugin.does(commands)
    with pytest.raises(Unreachable, match=text) as error:
        await plugin.ready(**options).credential()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        pytest.param(
            PluginCommand("no-such-plugin"), "'no-such-plugin' is not installed: install it, or", id="missing"
        ),
        pytest.param(
            PluginCommand("no-such-plugin", install_hint="See the wiki."), "is not installed: See the wiki.$", id="hint"
        ),
        pytest.param(PluginCommand("/etc/passwd"), "'/etc/passwd' cannot be run: Permission denied", id="no program"),
    ],
)
async def test_plugins_that_cannot_be_run(command: PluginCommand, text: str) -> None:
    with pytest.raises(PluginFailed, match=text):
        await ExecPlugin(command, RecordingClock()).credential()


async def test_a_broken_answer_is_not_quoted(plugin: Plugin) -> None:
    plugin.answers(token="secret", clientKeyData="secret")
    with pytest.raises(PluginFailed) as error:
        await plugin.ready().credential()
    assert "secret" not in str(error.value)
    assert "secret" not in str(error.value.__cause__)
