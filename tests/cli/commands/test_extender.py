"""`mooring extender` as a process of its own: its responses over HTTP, and its errors for invalid flags.

The responses sent to kube-scheduler. A real kube-scheduler accepts them in tests/conformance/stack/test_extender.py.
"""

import asyncio
import random
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import yaml
from click.testing import CliRunner

from mooring import __version__
from mooring.api.kinds import CLAIM, LEASE, NODE, POD, VOLUME
from mooring.cli.commands.extender import kube_configuration
from mooring.cli.main import main
from mooring.client import kubeconfig
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import Layout
from mooring.cluster.embedded import Settings, serving
from mooring.control.component_info import VERSION
from mooring.control.election import LEASE_NAMESPACE
from mooring.scheduler.extender.protocol import Mode
from support.builders import Body, claim_body, node_body, pod_body, volume_body
from support.certificates import a_pair

#: Generous: everything here takes about a second.
TIMEOUT_SECONDS = 30.0


class Running:
    def __init__(self, process: asyncio.subprocess.Process, session: aiohttp.ClientSession) -> None:
        self._process = process
        self._session = session
        self._addresses: dict[str, str] = {}

    async def started(self) -> None:
        assert self._process.stdout is not None
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while "health" not in self._addresses:
                line = (await self._process.stdout.readline()).decode()
                assert line, "it did not come up"
                if found := re.search(r"(answered|health).* at (http\S+)", line):
                    self._addresses[found[1]] = found[2]

    async def call(self, verb: str, body: Body) -> Body:
        async with self._session.post(f"{self._addresses['answered']}/{verb}", json=body) as answer:
            assert answer.status == 200
            received: Body = await answer.json()
            return received

    async def get(self, path: str) -> tuple[int, str]:
        async with self._session.get(f"{self._addresses['health']}{path}") as answer:
            return answer.status, await answer.text()

    async def ready(self) -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while (await self.get("/readyz"))[0] != 200:
                await SystemClock().sleep(0.05)

    async def stop(self) -> tuple[int | None, str]:
        """Its exit code and what it logged."""
        self._process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            _, errors = await self._process.communicate()
        return self._process.returncode, errors.decode()


@asynccontextmanager
async def beside_a_cluster(folder: Path, *options: str) -> AsyncIterator[tuple[HttpClient, Running]]:
    """An extender beside an API server with our controllers, but without a scheduler or nodes."""
    config, clock = folder / "kubeconfig", SystemClock()
    settings = Settings(Layout(nodes=0), 0, None, config, left_out=("default-scheduler",))
    async with serving(settings, clock=clock, rng=random.Random(0)), aiohttp.ClientSession() as session:
        client = HttpClient(kubeconfig.load(str(config)), component="tester", clock=clock)
        ports = ("--extender-port=0", "--http-port=0", f"--kubeconfig={config}")
        command = (sys.executable, "-m", "mooring", "extender", *ports, *options)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
        running = Running(process, session)
        try:
            await running.started()
            await running.ready()
            yield client, running
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()
            await client.close()


@pytest.mark.req("T33.command")
async def test_it_judges_binds_and_leaves_in_order(tmp_path: Path) -> None:
    async with beside_a_cluster(tmp_path, "--mode=bind") as (client, running):
        for name in ("n1", "n2"):
            await client.create(NODE, node_body(name=name))
        await client.create(VOLUME, volume_body(name="v", node="n2"))
        await client.create(CLAIM, claim_body(name="data"), namespace="default")
        pod = await client.create(POD, pod_body(name="db", claims=["data"]), namespace="default")
        asked: Body = {"Pod": pod_body(name="db", uid=pod.uid, claims=["data"]), "NodeNames": ["n1", "n2"]}

        async with asyncio.timeout(TIMEOUT_SECONDS):
            # Our informers may be a little behind what we have just created.
            while (answer := await running.call("filter", asked))["NodeNames"] != ["n2"]:
                await SystemClock().sleep(0.05)
        assert answer["Error"] == ""
        bound = await running.call(
            "bind", {"PodName": "db", "PodNamespace": "default", "PodUID": pod.uid, "Node": "n2"}
        )
        assert bound == {"Error": ""}
        assert (await client.get(POD, "db", namespace="default")).spec.node_name == "n2"
        assert (await client.get(CLAIM, "data", namespace="default")).spec.volume_name == "v"

        status, checks = await running.get("/readyz?verbose")
        assert (status, checks) == (200, "[+]ping ok\n[+]informer-sync ok\n[+]extender ok\nreadyz check passed\n")
        assert (await running.get("/livez"))[0] == 200
        _, metrics = await running.get("/metrics")
        assert 'mooring_extender_calls_total{result="answered",verb="bind"} 1.0' in metrics.splitlines()
        assert f'mooring_build_info{{version="{__version__}"}} 1.0' in metrics.splitlines()
        announced = await client.get(LEASE, "mooring-extender-announcement", namespace=LEASE_NAMESPACE)
        assert announced.metadata.annotations[VERSION] == __version__
        code, logged = await running.stop()
        assert code == 0
        assert f'"component": "mooring-extender", "version": "{__version__}"' in logged
        assert "Traceback" not in logged
        assert "kube-scheduler calls" in logged


def printed(*options: str) -> Body:
    done = CliRunner().invoke(main, ["extender", "--print-scheduler-config", *options])
    assert done.exit_code == 0, done.stderr
    document: Body = yaml.safe_load(done.stdout)
    return document


def test_the_configuration_of_kube_scheduler_is_printed() -> None:
    document = printed("--extender-port=4711", "--scheduler-name=one", "--scheduler-name=two")
    assert [profile["schedulerName"] for profile in document["profiles"]] == ["one", "two"]
    assert document["extenders"][0]["urlPrefix"] == "http://127.0.0.1:4711/"
    document = printed("--mode=bind", "--bind-timeout=50s", "--extender-address=::1")
    assert document["extenders"][1]["urlPrefix"] == "http://[::1]:10264/"
    assert document["extenders"][1]["httpTimeout"] == "60s"


def test_where_it_is_called_may_differ_from_where_it_listens() -> None:
    document = printed("--extender-port=0", "--extender-url=https://extender.example.com/")
    assert document["extenders"][0]["urlPrefix"] == "https://extender.example.com/"
    done = CliRunner().invoke(main, ["extender", "--print-scheduler-config", "--extender-port=0"])
    assert done.exit_code == 2
    assert "--extender-url is required" in done.stderr


@pytest.fixture
def pems(tmp_path: Path) -> Path:
    pair = a_pair()
    (tmp_path / "crt").write_text(pair.certificate)
    (tmp_path / "key").write_text(pair.key)
    return tmp_path


def test_extender_policy_contains_the_certificates(pems: Path) -> None:
    tls = (f"--tls-cert-file={pems / 'crt'}", f"--tls-private-key-file={pems / 'key'}")
    document = printed("--extender-address=10.0.0.1", *tls, f"--client-ca-file={pems / 'crt'}")
    [entry] = document["extenders"]
    assert entry["urlPrefix"] == "https://10.0.0.1:10264/"
    assert entry["enableHTTPS"] is True
    assert set(entry["tlsConfig"]) == {"caFile", "certFile", "keyFile"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(["--kubeconfig", "missing"], "missing", id="a kubeconfig that does not exist"),
        pytest.param(["--extender-address", "0.0.0.0"], "set --tls-cert-file", id="wildcard address without TLS"),
        pytest.param(
            ["--extender-address", "10.0.0.1", "--tls-cert-file", "crt", "--tls-private-key-file", "key"],
            "--client-ca-file",
            id="wildcard address with TLS but no client CA",
        ),
        pytest.param(["--tls-cert-file", "crt"], "require each other", id="a certificate without its key"),
        pytest.param(["--client-ca-file", "crt"], "needs --tls-cert-file", id="an authority without TLS"),
        pytest.param(["--client-name", "x"], "needs --client-ca-file", id="a name without an authority"),
        pytest.param(
            ["--tls-cert-file", "crt", "--tls-private-key-file", "key", "--client-name", "x"],
            "needs --client-ca-file",
            id="a name without an authority, over TLS",
        ),
        pytest.param(
            ["--tls-cert-file", "key", "--tls-private-key-file", "key", "--kubeconfig", "kubeconfig"],
            "not a certificate and its key",
            id="not a certificate",
        ),
        pytest.param(["--scheduler-name", ""], "must not be empty", id="an empty name"),
        pytest.param(["--called-within", "0"], "must be greater than 0", id="no patience"),
        pytest.param(["--feature-gates", "Frobnication=true"], "Frobnication", id="an unknown gate"),
    ],
)
def test_wrong_settings_are_one_sentence(
    pems: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    (pems / "kubeconfig").write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: k, user: u}}]\nusers: [{name: u, user: {token: t}}]\n"
        "clusters: [{name: k, cluster: {server: 'http://127.0.0.1:1'}}]\n"
    )
    monkeypatch.chdir(pems)
    alone = {"HOME": str(pems), "KUBECONFIG": None, "KUBERNETES_SERVICE_HOST": None}
    done = CliRunner(env=alone).invoke(main, ["extender", *options])
    assert done.exit_code == 2, done.output
    [line] = done.stderr.splitlines()
    assert line.startswith("Error: ")
    assert message in line


URL = "http://127.0.0.1:10264/"


def test_beside_kube_schedulers_own_volume_binding() -> None:
    assert kube_configuration(Mode.FILTER, URL, ["default-scheduler"], bind_timeout=600) == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler"}],
        "extenders": [
            {
                "urlPrefix": URL,
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "preemptVerb": "preempt",
                "weight": 3,
                "nodeCacheCapable": True,
                "ignorable": True,
                "httpTimeout": "5s",
            }
        ],
    }


def test_in_the_place_of_it() -> None:
    document = kube_configuration(Mode.BIND, URL, ["a", "b"], bind_timeout=29.5)
    off = {"multiPoint": {"disabled": [{"name": "VolumeBinding"}]}}
    assert document["profiles"] == [{"schedulerName": name, "plugins": off} for name in ("a", "b")]
    assert document["percentageOfNodesToScore"] == 100
    judging, binding = document["extenders"]
    assert not judging["ignorable"], "without the extender, kube-scheduler would ignore volumes"
    assert "bindVerb" not in judging
    assert binding == {
        "urlPrefix": URL,
        "bindVerb": "bind",
        "nodeCacheCapable": True,
        "ignorable": False,
        "httpTimeout": "40s",
    }


def test_mutual_tls() -> None:
    document = kube_configuration(Mode.BIND, "https://extender:1/", ["a"], bind_timeout=1, tls=True)
    folder = "/etc/kubernetes/extender"
    for entry in document["extenders"]:
        assert entry["enableHTTPS"] is True
        assert entry["tlsConfig"] == {
            "caFile": f"{folder}/server-ca.crt",
            "certFile": f"{folder}/client.crt",
            "keyFile": f"{folder}/client.key",
        }
