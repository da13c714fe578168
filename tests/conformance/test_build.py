"""The build driver, with a fake Go that writes scripts which report a version."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

DRIVER: Final = Path(__file__).parents[2] / "conformance" / "build.py"
RELEASE: Final = "v1.37.1"
#: An older release that can be chosen.
OLDER: Final = ("1.36", "v1.36.4")
#: Each binary and the version it reports.
ALL: Final = {
    "etcd": "etcd Version: 3.7.3",
    "kube-apiserver": f"Kubernetes {RELEASE}",
    "kubectl": f"Client Version: {RELEASE}",
    "kube-scheduler": f"Kubernetes {RELEASE}",
    "kube-controller-manager": f"Kubernetes {RELEASE}",
    "csi-sanity": "Version = v5.6.0",
    "csi-provisioner": "csi-provisioner v5.1.0",
    "hostpathplugin": "hostpathplugin v1.7.2",
    "helm": "v3.22.0",
    "csi-mock-driver-v4.0.2": "csi-mock-driver-v4.0.2 v4.0.2",
    "gocsi-mock-v1.7.0": "gocsi-mock-v1.7.0 v1.7.0",
    "krew-v0.4.4": "krew-v0.4.4 v0.4.4",
    "validate-krew-v0.4.4": "validate-krew-v0.4.4 v0.4.4",
    "promtool": "promtool, version v0.315.0 (branch: , revision: unknown)",
}
#: A fake Go that writes the requested binaries and logs its calls; `says` maps packages to version output.
GO: Final = """\
#!{python}
import json, pathlib, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
here = pathlib.Path(__file__).parent
output = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
name = output.name.removeprefix(".").removesuffix(".partial")
with (here / "calls").open("a") as calls:
    print(name, file=calls)
said = json.loads((here / "says").read_text())[name]
print("some/package", file=sys.stderr)
if said == "fail":
    sys.exit("main.go:1:1: no such thing")
if said == "hang":
    output.write_text("half")
    time.sleep(60)
output.write_text(f"#!/bin/sh\\necho '{{said}}'\\necho more\\n")
output.chmod(0o755)
"""


class BuildMachine:
    """A machine with the driver, a cache, and optionally Go."""

    def __init__(self, folder: Path) -> None:
        self._tools = folder / "path"
        self._tools.mkdir()
        self.shelf = folder / "cache" / "kube-bin" / RELEASE
        self.environ = {"PATH": str(self._tools), "MOORING_CACHE": str(folder / "cache")}

    def choose(self, release: str, patch: str) -> None:
        """Further runs are for another release of Kubernetes."""
        self.environ["MOORING_KUBE"] = release
        self.shelf = self.shelf.parent / patch

    def install_go(self, **says: str) -> None:
        (self._tools / "says").write_text(
            json.dumps(ALL | {name.replace("_", "-"): text for name, text in says.items()})
        )
        go = self._tools / "go"
        go.write_text(GO.format(python=sys.executable))
        go.chmod(0o755)

    def calls(self) -> list[str]:
        """The packages that Go was called for, in order."""
        calls = self._tools / "calls"
        return calls.read_text().split() if calls.exists() else []

    def put(self, directory: Path, name: str, says: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(f"#!/bin/sh\necho '{says}'\n")
        (directory / name).chmod(0o755)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, DRIVER, *arguments],
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        process = self.start(*arguments)
        output, errors = process.communicate(timeout=30)
        return process.returncode, output.strip(), errors.strip()

    def is_cached(self) -> set[str]:
        return {file.name for file in self.shelf.iterdir()} - {".lock"}


@pytest.fixture
def build_machine(tmp_path: Path) -> BuildMachine:
    return BuildMachine(tmp_path)


def test_binaries_are_built_once_and_then_verified(build_machine: BuildMachine) -> None:
    build_machine.install_go()
    code, output, errors = build_machine.run()
    assert (code, output) == (0, str(build_machine.shelf)), errors
    assert build_machine.calls() == list(ALL)
    assert build_machine.is_cached() == set(ALL)
    code, output, errors = build_machine.run()
    assert (code, output) == (0, str(build_machine.shelf)), errors
    assert len(build_machine.calls()) == len(ALL)
    assert [line.split(maxsplit=1) for line in errors.splitlines()] == [[name, says] for name, says in ALL.items()]
    assert build_machine.run("--check") == (0, str(build_machine.shelf), "")


def test_single_binary_is_built(build_machine: BuildMachine) -> None:
    build_machine.install_go()
    code, _, errors = build_machine.run("kubectl")
    assert code == 0, errors
    assert build_machine.is_cached() == {"kubectl"}


def test_other_release_shares_what_does_not_depend_on_it(build_machine: BuildMachine) -> None:
    build_machine.install_go()
    assert build_machine.run()[0] == 0
    newest = build_machine.shelf
    release, patch = OLDER
    build_machine.choose(release, patch)
    build_machine.install_go(
        **{name: says.replace(RELEASE, patch) for name, says in ALL.items() if says.endswith(RELEASE)}
    )
    code, output, errors = build_machine.run()
    assert (code, output) == (0, str(newest.parent / patch)), errors
    assert build_machine.is_cached() == set(ALL)
    built_anew = set(build_machine.calls()[len(ALL) :])
    assert built_anew == {"kube-apiserver", "kubectl", "kube-scheduler", "kube-controller-manager"}
    assert (newest / "etcd").samefile(build_machine.shelf / "etcd")


def test_release_that_is_not_pinned_is_rejected(build_machine: BuildMachine) -> None:
    build_machine.choose("1.12", "v1.12.0")
    code, _, errors = build_machine.run("--check")
    assert code == 2
    assert "Kubernetes 1.12 is not pinned: choose from 1.34, 1.35, 1.36, 1.37" in errors


def test_binary_of_another_version_is_rebuilt(build_machine: BuildMachine) -> None:
    build_machine.install_go()
    build_machine.put(build_machine.shelf, "kubectl", "Client Version: v1.35.0")
    code, _, errors = build_machine.run("kubectl")
    assert code == 0, errors
    assert build_machine.calls() == ["kubectl"]
    assert f"'Client Version: v1.35.0' is not {RELEASE}" in errors


@pytest.mark.parametrize("arguments", [(), ("--check",)], ids=["build", "check"])
def test_missing_go_is_reported(build_machine: BuildMachine, arguments: tuple[str, ...]) -> None:
    code, output, errors = build_machine.run(*arguments)
    assert (code, output) == (3, "")
    assert len(errors.splitlines()) == 1
    assert errors.startswith(", ".join(ALL))
    assert "Go" in errors


def test_provided_binaries_are_used(build_machine: BuildMachine, tmp_path: Path) -> None:
    build_machine.install_go()
    ready = tmp_path / "ready"
    build_machine.environ["MOORING_KUBE_BIN"] = str(ready)
    for name in ALL:
        build_machine.put(ready, name, "Kubernetes v1.35.0")
    code, output, errors = build_machine.run()
    assert (code, output) == (0, str(ready)), errors
    (ready / "etcd").unlink()
    code, _, errors = build_machine.run()
    assert (code, errors) == (3, f"etcd not in {ready}: correct MOORING_KUBE_BIN")
    assert build_machine.calls() == []


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        pytest.param("fail", "main.go:1:1: no such thing\ngo could not build kubectl: see above", id="go fails"),
        pytest.param(
            "Client Version: v0.0.0",
            f"kubectl was built as {RELEASE} but says 'Client Version: v0.0.0'",
            id="binary reports another version",
        ),
    ],
)
def test_failed_build_is_not_cached(build_machine: BuildMachine, says: str, sentence: str) -> None:
    build_machine.install_go(kubectl=says)
    code, _, errors = build_machine.run("kubectl")
    assert code == 1
    assert errors.endswith(sentence)
    assert build_machine.is_cached() == set()


def test_interrupted_build_is_resumed(build_machine: BuildMachine) -> None:
    build_machine.install_go(kubectl="hang")
    building = build_machine.start()
    deadline = time.monotonic() + 20
    while not (build_machine.shelf / ".kubectl.partial").exists():
        assert time.monotonic() < deadline
        assert building.poll() is None
        time.sleep(0.02)
    building.send_signal(signal.SIGTERM)
    building.communicate(timeout=20)
    assert building.returncode == 128 + signal.SIGTERM
    assert build_machine.is_cached() == {"etcd", "kube-apiserver"}
    build_machine.install_go()
    assert build_machine.run()[0] == 0
    assert build_machine.calls() == [*list(ALL)[:3], *list(ALL)[2:]]


def test_wrong_usage_is_rejected(build_machine: BuildMachine) -> None:
    code, _, errors = build_machine.run("kubelet")
    assert code == 2
    assert "there is no kubelet" in errors


def test_cache_is_outside_the_tree(build_machine: BuildMachine, tmp_path: Path) -> None:
    del build_machine.environ["MOORING_CACHE"]
    build_machine.environ |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": ""}
    assert str(tmp_path / ".cache" / "mooring" / "kube-bin" / RELEASE) in build_machine.run("--check")[2]
    build_machine.environ["XDG_CACHE_HOME"] = str(tmp_path / "xdg")
    assert str(tmp_path / "xdg" / "mooring" / "kube-bin" / RELEASE) in build_machine.run("--check")[2]
