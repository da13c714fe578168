"""Missing permissions, kinds and admission policies, and version skew: each is reported.

No component exits without a reason, and what is added later is used without a restart.
"""

import json
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from tools.generate_deploy.installation import NAMESPACE, PROCESSES

from mooring.api.times import to_micro_time
from mooring.clock import SystemClock
from mooring.control.component_info import ComponentInfo
from mooring.control.feature_gates import parse_feature_gates
from mooring.server.auth.server_files import kubeconfig, kubeconfig_text
from support.builders import claim_body, class_body, node_body, pod_body
from support.conformance.control_plane import ControlPlane
from support.conformance.process import Process, free_port
from support.conformance.waiting import wait

DEPLOY: Final = Path(__file__).parents[3] / "deploy"
LACKED: Final = "csistoragecapacities"


class Running:
    def __init__(self, process: Process, url: str, log: Path) -> None:
        self.process = process
        self.url = url
        self._log = log

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Log lines of this event."""
        logged = [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]
        return [line for line in logged if line["event"] == event]

    def ready(self) -> None:
        self.process.wait_until_healthy(f"{self.url}/readyz", None)


@contextmanager
def scheduler(kube: ControlPlane, folder: Path, config: Path, *options: str) -> Iterator[Running]:
    port, log = free_port(), folder / "scheduler.log"
    command = [sys.executable, "-m", "mooring", "scheduler", f"--kubeconfig={config}", f"--http-port={port}", *options]
    process = Process(command, log)
    try:
        yield Running(process, f"http://127.0.0.1:{port}", log)
        assert process.running, process.log_tail()
    finally:
        process.stop(signal.SIGTERM)
    assert process.code == 0, process.log_tail()


def installed(kube: ControlPlane, folder: Path, *, without: str) -> tuple[Path, dict[str, Any]]:
    """Credentials of the scheduler's account without its permissions on one resource; and its complete role."""
    kube.kubectl("create", "namespace", NAMESPACE)
    bodies = PROCESSES["scheduler"].manifests()
    [role] = [body for body in bodies if body["kind"] == "ClusterRole"]
    rules = [{**rule, "resources": [each for each in rule["resources"] if each != without]} for rule in role["rules"]]
    lacking = [{**body, "rules": rules} if body is role else body for body in bodies]
    kube.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": lacking}))
    token = kube.kubectl("create", "token", "mooring-scheduler", "-n", NAMESPACE).strip()
    config = folder / "as-scheduler"
    text = kubeconfig_text(kubeconfig(server=kube.url, authority=kube.authority.encode(), token=token))
    config.write_text(text)
    return config, role


@pytest.mark.req("T32.message")
def test_missing_permission_is_reported_until_granted(start_kube: Callable[[], ControlPlane], tmp_path: Path) -> None:
    kube = start_kube()
    config, role = installed(kube, tmp_path, without=LACKED)
    with scheduler(kube, tmp_path, config, f"--leader-elect-resource-namespace={NAMESPACE}") as ours:
        wait(lambda: bool(ours.lines("permission denied")))
        [logged] = ours.lines("permission denied")
        account = f"system:serviceaccount:{NAMESPACE}:mooring-scheduler"
        rule = f'{{apiGroups: ["storage.k8s.io"], resources: ["{LACKED}"], verbs: [list, watch]}}'
        assert logged["level"] == "error"
        assert (
            logged["advice"]
            == f"{account} lacks a permission: add the rule {rule} to a ClusterRole that is bound to it"
        )
        wait(lambda: f"informers not synced: {LACKED}" in _response_text(f"{ours.url}/readyz/informer-sync"))
        kube.kubectl("apply", "-f", "-", stdin=json.dumps(role))
        ours.ready()


def _response_text(url: str) -> str:
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5.0) as response:
            text: str = response.read().decode()
    except urllib.error.HTTPError as error:
        text = error.read().decode()
        error.close()
    except OSError:
        text = ""
    return text


def older(kube: ControlPlane, kind: str, *options: str) -> None:
    """Restart it as a server that does not serve the kind."""
    kube.stop_apiserver()
    kube.start_apiserver(f"--runtime-config={kind}=false", *options)


def test_scheduler_works_without_capacity_api(start_kube: Callable[[], ControlPlane], tmp_path: Path) -> None:
    kube = start_kube()
    older(kube, f"storage.k8s.io/v1/{LACKED}")
    driver = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "x.io"}}
    bodies = [
        node_body(name="n1"),
        {**driver, "spec": {"storageCapacity": True}},
        class_body(name="made", provisioner="x.io"),
        claim_body(name="c", storage_class="made"),
        pod_body(name="p", claims=["c"], scheduler="second"),
    ]
    kube.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies}))
    with scheduler(kube, tmp_path, kube.kubeconfig, "--scheduler-name=second") as ours:
        ours.ready()
        [logged] = ours.lines("kind not served by the API server")
        assert (logged["level"], logged["kind"], logged["api_version"], logged["consequence"]) == (
            "error",
            "CSIStorageCapacity",
            "storage.k8s.io/v1",
            "continuing without it",
        )
        chosen = "{.metadata.annotations.volume\\.kubernetes\\.io/selected-node}"
        wait(lambda: kube.kubectl("get", "pvc", "c", "-o", f"jsonpath={chosen}") == "n1")


def test_install_works_without_admission_policies(start_kube: Callable[[], ControlPlane]) -> None:
    kube = start_kube()
    plugin = "--disable-admission-plugins=ValidatingAdmissionPolicy"
    older(kube, "admissionregistration.k8s.io/v1/validatingadmissionpolicies", plugin)
    kube.kubectl("apply", "-k", str(DEPLOY / "base"))
    with pytest.raises(AssertionError, match='no matches for kind "ValidatingAdmissionPolicy"'):
        kube.kubectl("apply", "-k", str(DEPLOY / "default"))
    assert kube.kubectl("get", "deployments", "-n", NAMESPACE, "-o", "name").split() == [
        "deployment.apps/mooring-coordinator",
        "deployment.apps/mooring-scheduler",
    ]


@pytest.mark.req("T35.versions", "T35.clocks")
def test_provisioner_version_and_clock_skew_are_reported(kube: ControlPlane, tmp_path: Path) -> None:
    theirs = ComponentInfo(
        "mooring-provisioner-x", "0.0.1", parse_feature_gates(""), frozenset({"mooring-provisioner"})
    )
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **theirs.body(now="2026-01-01T00:00:00.000000Z")}
    lease["metadata"]["namespace"] = "kube-system"
    kube.kubectl("create", "-f", "-", stdin=json.dumps(lease))
    command = [sys.executable, "-m", "mooring", "coordinator", f"--kubeconfig={kube.kubeconfig}", "--no-http"]
    process = Process(command, tmp_path / "coordinator.log")
    try:
        reported = ("get", "events", "-n", "kube-system", "--field-selector=reason=ComponentSkew", "-o", "json")
        wait(lambda: "mooring-provisioner-x of version 0.0.1" in kube.kubectl(*reported))
        # Its lease is renewed by a clock that is an hour behind.
        patch = json.dumps({"spec": {"renewTime": to_micro_time(SystemClock().now() - 3600)}})
        kube.kubectl("patch", "lease", "-n", "kube-system", theirs.lease, "--type=merge", "--patch", patch)
        slow = "the clock of mooring-provisioner-x is more than 5 s behind that of mooring-coordinator"
        wait(lambda: slow in kube.kubectl(*reported))
    finally:
        process.stop(signal.SIGTERM)
        kube.kubectl("delete", "lease", "-n", "kube-system", theirs.lease)
    assert process.code == 0, process.log_tail()
