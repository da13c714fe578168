"""What a cluster may lack, and what is said about it: rights, kinds, versions that fit together.

Nothing ends without a reason here, and what comes later is taken up without a restart.
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

from builders import claim_body, class_body, node_body, pod_body
from conformance.control_plane import ControlPlane
from conformance.process import Process, free_port
from conformance.waiting import wait
from mooring.api.timestamps import to_micro_time
from mooring.clock import SystemClock
from mooring.cluster.installation import NAMESPACE, PROCESSES
from mooring.control.announcements import Announcement
from mooring.control.feature_gates import parse
from mooring.server.kubeconfig import kubeconfig, kubeconfig_text

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
LACKED: Final = "csistoragecapacities"


class Running:
    def __init__(self, process: Process, url: str, log: Path) -> None:
        self.process = process
        self.url = url
        self._log = log

    def lines(self, event: str) -> list[dict[str, Any]]:
        """What it has logged of this kind."""
        said = [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]
        return [line for line in said if line["event"] == event]

    def ready(self) -> None:
        self.process.wait_until_healthy(f"{self.url}/readyz", None)


@contextmanager
def scheduler(kube: ControlPlane, folder: Path, config: Path, *options: str) -> Iterator[Running]:
    port, log = free_port(), folder / "scheduler.log"
    command = [sys.executable, "-m", "mooring", "scheduler", f"--kubeconfig={config}", f"--http-port={port}", *options]
    process = Process(command, log)
    try:
        yield Running(process, f"http://127.0.0.1:{port}", log)
        assert process.running, process.last_words()
    finally:
        process.stop(signal.SIGTERM)
    assert process.code == 0, process.last_words()


def installed(kube: ControlPlane, folder: Path, *, without: str) -> tuple[Path, dict[str, Any]]:
    """Credentials of the scheduler's account with all its rights but those on one resource; and its whole role."""
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
def test_a_missing_right_is_named_and_once_it_is_given_all_is_well(
    start_kube: Callable[[], ControlPlane], tmp_path: Path
) -> None:
    kube = start_kube()
    config, role = installed(kube, tmp_path, without=LACKED)
    with scheduler(kube, tmp_path, config, f"--leader-elect-resource-namespace={NAMESPACE}") as ours:
        wait(lambda: bool(ours.lines("missing right")))
        [said] = ours.lines("missing right")
        account = f"system:serviceaccount:{NAMESPACE}:mooring-scheduler"
        rule = f'{{apiGroups: ["storage.k8s.io"], resources: ["{LACKED}"], verbs: [list, watch]}}'
        assert said["level"] == "error"
        assert said["advice"] == f"{account} lacks a right: add the rule {rule} to a ClusterRole that is bound to it"
        wait(lambda: f"not everything is listed yet: {LACKED}" in _told(f"{ours.url}/readyz/informer-sync"))
        kube.kubectl("apply", "-f", "-", stdin=json.dumps(role))
        ours.ready()


def _told(url: str) -> str:
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5.0) as answer:
            text: str = answer.read().decode()
    except urllib.error.HTTPError as error:
        text = error.read().decode()
        error.close()
    except OSError:
        text = ""
    return text


def older(kube: ControlPlane, kind: str, *options: str) -> None:
    """Start it again as a server that does not serve the kind."""
    kube.stop_apiserver()
    kube.start_apiserver(f"--runtime-config={kind}=false", *options)


def test_a_server_without_capacity_objects_is_scheduled_for_all_the_same(
    start_kube: Callable[[], ControlPlane], tmp_path: Path
) -> None:
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
        [said] = ours.lines("the API server does not serve this kind")
        assert (said["level"], said["kind"], said["api_version"], said["consequence"]) == (
            "error",
            "CSIStorageCapacity",
            "storage.k8s.io/v1",
            "doing without",
        )
        chosen = "{.metadata.annotations.volume\\.kubernetes\\.io/selected-node}"
        wait(lambda: kube.kubectl("get", "pvc", "c", "-o", f"jsonpath={chosen}") == "n1")


def test_a_server_without_admission_policies_gets_everything_else(start_kube: Callable[[], ControlPlane]) -> None:
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
def test_a_provisioner_of_another_version_or_time_is_reported(kube: ControlPlane, tmp_path: Path) -> None:
    theirs = Announcement("mooring-provisioner-x", "0.0.1", parse(""), frozenset({"mooring-provisioner"}))
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **theirs.body(now="2026-01-01T00:00:00.000000Z")}
    lease["metadata"]["namespace"] = "kube-system"
    kube.kubectl("create", "-f", "-", stdin=json.dumps(lease))
    command = [sys.executable, "-m", "mooring", "coordinator", f"--kubeconfig={kube.kubeconfig}", "--no-http"]
    process = Process(command, tmp_path / "coordinator.log")
    try:
        reported = ("get", "events", "-n", "kube-system", "--field-selector=reason=ComponentSkew", "-o", "json")
        wait(lambda: "mooring-provisioner-x of version 0.0.1" in kube.kubectl(*reported))
        # It renews, by a clock that is an hour slow.
        patch = json.dumps({"spec": {"renewTime": to_micro_time(SystemClock().now() - 3600)}})
        kube.kubectl("patch", "lease", "-n", "kube-system", theirs.lease, "--type=merge", "--patch", patch)
        slow = "the clock of mooring-provisioner-x is more than 5 s behind that of mooring-coordinator"
        wait(lambda: slow in kube.kubectl(*reported))
    finally:
        process.stop(signal.SIGTERM)
        kube.kubectl("delete", "lease", "-n", "kube-system", theirs.lease)
    assert process.code == 0, process.last_words()
