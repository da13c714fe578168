"""`mooring up` and `mooring page` as processes: the address they print, and what it leads to."""

import asyncio
import json
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.api.kinds import CLAIM, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, POD, POD_GROUP
from mooring.cli.commands import page as page_command
from mooring.cli.main import main
from mooring.client import kubeconfig
from mooring.client.access import Access
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.web.server import PageSettings
from mooring.web.server import page as serve
from support.browser import Browser
from support.builders import claim_body, pod_body
from support.builders.groups import member_body, pod_group_body
from support.fake_api_server import FakeApiServer
from support.fake_client import FakeClient

START_SECONDS = 30
ADDRESS = re.compile(r"(http://\S+)/#(\S+)")


@contextmanager
def mooring(*arguments: str, until: str) -> Iterator[str]:
    """A process, and what it has printed by the time it prints a line with `until` in it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mooring", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    timer = threading.Timer(START_SECONDS, process.kill)
    timer.start()
    try:
        assert process.stdout is not None
        printed = ""
        for line in process.stdout:
            printed += line
            if until in line:
                break
        timer.cancel()
        yield printed
    finally:
        timer.cancel()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=START_SECONDS)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors, errors


@contextmanager
def cluster(config: Path, *options: str) -> Iterator[str]:
    with mooring("up", "--in-memory", "--port", "0", "--kubeconfig", str(config), *options, until="ready") as printed:
        yield printed


def address_in(printed: str) -> re.Match[str]:
    found = ADDRESS.search(printed)
    assert found is not None, printed
    return found


@asynccontextmanager
async def client_of(config: Path) -> AsyncIterator[HttpClient]:
    client = HttpClient(kubeconfig.from_files([config]), component="test", clock=SystemClock())
    try:
        yield client
    finally:
        await client.close()


async def whole(address: re.Match[str]) -> dict[str, Any]:
    """The first frame."""
    headers = {"Authorization": f"Bearer {address[2]}"}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{address[1]}/api/frames", headers=headers, read_bufsize=1 << 26) as response,
    ):
        assert response.status == 200
        found: dict[str, Any] = json.loads(await response.content.readuntil(b"\n"))["rows"]
        return found


async def test_a_cluster_and_its_page_in_the_browser(tmp_path: Path, browser: Browser) -> None:
    config = tmp_path / "kubeconfig"
    with cluster(config, "--racks", "1") as printed:
        tab = await browser.tab(address_in(printed)[0])
        await tab.shows("#facts", "3 nodes in 3 zones")
        await tab.shows("#tree", "zone-a-rack-1")
        await tab.shows("#tree", "fast")
        async with client_of(config) as client:
            for name, size in (("data", "30Gi"), ("huge", "1Ti")):
                body = claim_body(name=name, storage_class="fast", size=size)
                await client.create(CLAIM, body, namespace="default")
            for name, claim in (("web", "data"), ("stuck", "huge")):
                await client.create(POD, pod_body(name=name, claims=(claim,)), namespace="default")
        await tab.until("document.querySelector('.volume.bound')")
        await tab.shows("#happenings", "Scheduled web")
        await tab.click("[data-pod='default/stuck']")
        await tab.shows("#inspector .says", "did not have enough free storage")


@pytest.mark.level("e")
@pytest.mark.req("G5.page")
async def test_groups_and_what_is_held_for_them(tmp_path: Path, browser: Browser) -> None:
    config = tmp_path / "kubeconfig"
    with cluster(config) as printed:
        tab = await browser.tab(address_in(printed)[0])
        await tab.shows("#facts", "3 nodes in 3 zones")
        async with client_of(config) as client:
            for group, size in (("fits", "10Gi"), ("wide", "1Ti")):
                await client.create(POD_GROUP, pod_group_body(name=group, min_count=2), namespace="default")
                for number in (1, 2):
                    name = f"{group}-{number}"
                    body = claim_body(name=name, storage_class="fast", size=size)
                    await client.create(CLAIM, body, namespace="default")
                    pod = member_body(name=name, group=group, claims=(name,))
                    await client.create(POD, pod, namespace="default")
        await tab.click("#tab-groups")
        await tab.shows("#view-groups [data-row='default/fits']", "Committed")
        await tab.shows("#view-groups [data-row='default/fits']", "2 of 2 bound")
        await tab.shows("#view-groups [data-row='default/wide']", "0 of 2 bound")
        await tab.shows("#view-groups [data-row='default/wide']", "minCount")
        await tab.shows("#happenings", "GroupHolding fits")
        await tab.shows("#happenings", "held for default/fits-1")
        await tab.shows("#happenings", "GroupCommitted fits")
        await tab.click("#view-groups [data-id='default/wide']")
        await tab.shows("#inspector .says", "default/wide does not fit")
        command = [sys.executable, "-m", "mooring", "explain", "podgroup/wide", "--kubeconfig", str(config)]
        explained = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
        assert explained.stdout.splitlines()[0] in await tab.text("#inspector")


async def test_the_page_of_any_cluster_with_the_readers_own_rights(tmp_path: Path) -> None:
    config, readers = tmp_path / "kubeconfig", tmp_path / "readers"
    with cluster(config, "--no-page") as printed:
        assert ADDRESS.search(printed) is None
        async with client_of(config) as client:
            rule = {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]}
            await client.create(CLUSTER_ROLE, {"metadata": {"name": "looker"}, "rules": [rule]})
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "looker"}
            subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}
            binding = {"metadata": {"name": "looker"}, "roleRef": role, "subjects": [subject]}
            await client.create(CLUSTER_ROLE_BINDING, binding)
        as_jane = yaml.safe_load(config.read_text())
        as_jane["users"][0]["user"]["as"] = "jane"
        readers.write_text(yaml.safe_dump(as_jane))
        with mooring("page", "--port", "0", "--kubeconfig", str(readers), until="/#") as told:
            rows = await whole(address_in(told))
    assert sorted(row["id"] for row in rows["nodes"]) == ["node-1", "node-2", "node-3"]
    assert rows["volumes"] == []
    refused = {row["id"]: row for row in rows["notices"]}
    assert {"persistentvolumes", "persistentvolumeclaims", "storageclasses", "events"} <= set(refused)
    assert {row["state"] for row in refused.values()} == {"forbidden"}
    assert 'User "jane" cannot' in refused["persistentvolumes"]["text"]


def page(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["page", *arguments])


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(yaml.safe_dump(minimal_kubeconfig()))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = page("--kubeconfig", str(config), "--port", port)
    assert done.exit_code == 1
    assert f"Port {port}" in done.output


def minimal_kubeconfig() -> dict[str, Any]:
    return {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": ""}}],
        "current-context": "c",
    }


def test_a_kubeconfig_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    done = page("--kubeconfig", str(tmp_path / "none"))
    assert done.exit_code == 2
    assert "none" in done.output


async def test_token_of_a_file_is_used_and_not_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs know it from the file; the log does not."""
    file, token = tmp_path / "token", "t0ken-" * 8
    file.write_text(f"{token}\n")
    settings = PageSettings(page_command._token(file))
    assert settings.token == token
    monkeypatch.setattr(page_command, "stop_event", lambda: _already_set())
    monkeypatch.setattr(page_command, "HttpClient", lambda *_, **__: FakeClient(FakeApiServer()))
    printed: list[str] = []
    monkeypatch.setattr(page_command.click, "echo", printed.append)
    await page_command._serve(Access("http://127.0.0.1:1"), settings, file)
    assert printed[-1].endswith(f"/#TOKEN of {file}")
    assert token not in "".join(printed)


def _already_set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@pytest.mark.parametrize("token", ["", "short", "a" * 20 + " " + "b" * 20, "ä" * 40])
def test_weak_token_is_refused(tmp_path: Path, token: str) -> None:
    file = tmp_path / "token"
    file.write_text(token, encoding="utf-8")
    done = CliRunner().invoke(main, ["page", "--token-file", str(file)])
    assert (done.exit_code, str(file) in done.stderr, token in done.stderr if token else False) == (2, True, False)


async def test_every_start_has_a_token_of_its_own(tmp_path: Path) -> None:
    """A tab of the first start sends its token to whatever has the port by then: it must be good for nothing."""
    config, data = tmp_path / "kubeconfig", tmp_path / "data"
    options = ("up", "--data-dir", str(data), "--port", "0", "--nodes", "1", "--kubeconfig", str(config))
    with mooring(*options, until="ready") as printed:
        first = address_in(printed)
    with mooring(*options, until="ready") as printed:
        second = address_in(printed)
        headers = {"Authorization": f"Bearer {first[2]}"}
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{second[1]}/api/frames", headers=headers) as response,
        ):
            assert response.status == 401
    assert len(second[2]) > 40
    kept = [file for file in data.rglob("*") if file.is_file() and file.suffix != ".db"]
    assert not [file for file in kept if second[2].encode() in file.read_bytes()]


@pytest.mark.parametrize(
    ("host", "own_names"),
    [
        pytest.param("127.0.0.1", False, id="loopback needs no host name"),
        pytest.param("0.0.0.0", True, id="elsewhere it counts"),
    ],
)
async def test_by_which_names_the_page_is_reached(host: str, own_names: bool) -> None:
    settings = PageSettings("t", host=host, port=0)
    async with serve(FakeClient(FakeApiServer()), settings, clock=SystemClock(), rng=random.Random(1)) as address:
        port = urlsplit(address).port
        async with aiohttp.ClientSession() as session:
            named = {"Host": f"{socket.gethostname()}:{port}"}
            async with session.get(f"http://127.0.0.1:{port}/", headers=named) as response:
                known = socket.gethostname() == "localhost" or own_names
                assert response.status == (200 if known else 421)
