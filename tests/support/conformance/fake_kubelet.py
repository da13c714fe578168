"""A fake kubelet for the pods of one namespace: every container of ours becomes a process with the pod's account.

Commands, environment, permissions and probes are those of the pods, which kube-controller-manager creates from the
manifests; only addresses and folders are local. Pods have no node: they are not scheduled.
"""

import re
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from mooring.server.auth.server_files import kubeconfig, kubeconfig_text
from support.conformance.control_plane import ControlPlane
from support.conformance.process import Process, free_port
from support.conformance.waiting import wait

Body = Mapping[str, Any]

#: Our image; containers of others are not started.
IMAGE: Final = "mooring:"


class FakeKubelet:
    def __init__(
        self, kube: ControlPlane, folder: Path, *, namespace: str, node: str, more: Mapping[str, Sequence[str]]
    ) -> None:
        """`node` is the node name that pods see, `more` are arguments by container."""
        self._kube = kube
        self._folder = folder
        self._namespace = namespace
        self._node = node
        self._more = more
        #: By pod and container.
        self._processes: dict[tuple[str, str], Process] = {}
        self._specs: dict[tuple[str, str], tuple[Body, Body]] = {}
        self._ports: dict[tuple[str, str], int] = {}
        self.restarts = 0

    def pods(self) -> list[Body]:
        return list(self._kube.kubectl_json("get", "pods", "-n", self._namespace)["items"])

    def sync(self) -> None:
        """Start processes of new pods, stop those of deleted ones, and wait until all are ready."""
        pods = {pod["metadata"]["name"]: pod for pod in self.pods()}
        for key in [key for key in self._processes if key[0] not in pods]:
            self._processes.pop(key).stop()
        started = [
            self._start(pod, container)
            for name, pod in pods.items()
            for container in pod["spec"]["containers"]
            if container["image"].startswith(IMAGE) and (name, container["name"]) not in self._processes
        ]
        for process, probe in started:
            if probe:
                process.wait_until_healthy(probe, None)

    def tend(self) -> None:
        """Restart ended processes, like a kubelet, but without backoff."""
        for key, process in list(self._processes.items()):
            if not process.running:
                self.restarts += 1
                self._start(*self._specs[key])

    def leaders(self, container: str) -> list[Process]:
        """The active instances, by their metrics; empty during a leader change."""
        leading = re.compile(r"^leader_election_master_status\{.*\} 1\.0$", re.MULTILINE)
        return [
            process
            for key, process in self._processes.items()
            if key[1] == container and leading.search(_text(f"http://127.0.0.1:{self._ports[key]}/metrics"))
        ]

    def log(self, container: str) -> str:
        """The log of all containers of this name."""
        return "\n".join(path.read_text() for path in sorted(self._folder.glob(f"*.{container}.log")))

    def run_to_the_end(self, pod: Body) -> None:
        """Wait for the process of a Job, and report its status like a kubelet."""
        name = pod["metadata"]["name"]
        [(process, _)] = [self._start(pod, container) for container in pod["spec"]["containers"]]
        wait(lambda: not process.running)
        assert process.code == 0, process.log_tail()
        patch = '{"status": {"phase": "Succeeded"}}'
        where = ("-n", self._namespace, "--subresource=status", "--type=merge")
        self._kube.kubectl("patch", "pod", name, *where, "--patch", patch)

    def stop(self) -> None:
        for process in self._processes.values():
            process.stop()
        self._processes.clear()

    def _start(self, pod: Body, container: Body) -> tuple[Process, str]:
        """The process, and its readiness URL; "" without a probe."""
        facts = self._facts(pod)
        known = {
            row["name"]: row["value"] if "value" in row else facts[row["valueFrom"]["fieldRef"]["fieldPath"]]
            for row in container.get("env", ())
        }
        folders = {mount["mountPath"]: self._volume(pod, mount["name"]) for mount in container.get("volumeMounts", ())}
        arguments = [_replaced(each, known, folders) for each in container["args"]]
        port, listening = free_port(), []
        if any(each.startswith("--http-port") for each in arguments):
            listening = ["--bind-address=127.0.0.1", f"--http-port={port}"]
        elif any(each.startswith("--http-endpoint") for each in arguments):
            listening = [f"--http-endpoint=127.0.0.1:{port}"]
        if arguments[0] != "csi-hostpath":
            listening.append(f"--kubeconfig={self._credentials(pod['spec']['serviceAccountName'])}")
        name = pod["metadata"]["name"]
        command = ["env", *(f"{key}={value}" for key, value in known.items()), sys.executable, "-m", "mooring"]
        more = self._more.get(container["name"], ())
        log = self._folder / f"{name}.{container['name']}.log"
        process = Process([*command, *arguments, *more, *listening], log)
        key = (name, container["name"])
        self._processes[key], self._specs[key], self._ports[key] = process, (pod, container), port
        probe = container.get("readinessProbe", {}).get("httpGet", {}).get("path", "")
        return process, f"http://127.0.0.1:{port}{probe}" if probe else ""

    def _facts(self, pod: Body) -> dict[str, str]:
        metadata = pod["metadata"]
        return {
            "metadata.name": metadata["name"],
            "metadata.namespace": metadata["namespace"],
            "spec.nodeName": self._node,
        }

    def _volume(self, pod: Body, name: str) -> Path:
        [volume] = [volume for volume in pod["spec"]["volumes"] if volume["name"] == name]
        assert volume["emptyDir"] == {}
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        return folder

    def _credentials(self, account: str) -> Path:
        """A kubeconfig with only a token of the account."""
        token = self._kube.kubectl("create", "token", account, "-n", self._namespace).strip()
        file = self._folder / f"{account}.kubeconfig"
        config = kubeconfig(server=self._kube.url, authority=self._kube.authority.encode(), token=token)
        file.write_text(kubeconfig_text(config))
        return file


def _replaced(argument: str, environment: Mapping[str, str], folders: Mapping[str, Path]) -> str:
    argument = re.sub(r"\$\((\w+)\)", lambda found: environment[found[1]], argument)
    for path, folder in folders.items():
        argument = re.sub(rf"(?<=[=/]){re.escape(path)}\b|(?<==){re.escape(path)}\b", str(folder), argument)
    return argument


def _text(url: str) -> str:
    """Empty if the server does not respond, as while it starts or ends."""
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=10.0) as response:
            text: str = response.read().decode()
    except OSError:
        return ""
    return text


@contextmanager
def fake_kubelet(
    kube: ControlPlane, folder: Path, *, namespace: str, node: str, more: Mapping[str, Sequence[str]] | None = None
) -> Iterator[FakeKubelet]:
    pods = FakeKubelet(kube, folder, namespace=namespace, node=node, more=more or {})
    try:
        yield pods
    finally:
        pods.stop()
