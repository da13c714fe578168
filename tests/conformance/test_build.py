"""The build driver, with a stand-in for Go that writes scripts which claim a version."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

DRIVER: Final = Path(__file__).parents[2] / "conformance" / "build.py"
RELEASE: Final = "v1.36.4"
#: Each binary and what it says about its version.
ALL: Final = {
    "etcd": "etcd Version: 3.6.8",
    "kube-apiserver": f"Kubernetes {RELEASE}",
    "kubectl": f"Client Version: {RELEASE}",
    "kube-scheduler": f"Kubernetes {RELEASE}",
    "kube-controller-manager": f"Kubernetes {RELEASE}",
    "csi-sanity": "Version = v5.6.0",
    "csi-provisioner": "csi-provisioner v5.1.0",
    "hostpathplugin": "hostpathplugin v1.7.2",
}
#: Writes what it is asked for and remembers that it was; `says` maps packages' last words to answers.
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


class Workshop:
    """A machine with the driver, a cache, and perhaps a Go."""

    def __init__(self, folder: Path) -> None:
        self._tools = folder / "path"
        self._tools.mkdir()
        self.shelf = folder / "cache" / "kube-bin" / RELEASE
        self.environ = {"PATH": str(self._tools), "MOORING_CACHE": str(folder / "cache")}

    def install_go(self, **says: str) -> None:
        (self._tools / "says").write_text(
            json.dumps(ALL | {name.replace("_", "-"): text for name, text in says.items()})
        )
        go = self._tools / "go"
        go.write_text(GO.format(python=sys.executable))
        go.chmod(0o755)

    def calls(self) -> list[str]:
        """What Go was asked to build so far, in order."""
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
        """Exit code, output, and what it said to people."""
        process = self.start(*arguments)
        output, errors = process.communicate(timeout=30)
        return process.returncode, output.strip(), errors.strip()

    def on_shelf(self) -> set[str]:
        return {file.name for file in self.shelf.iterdir()} - {".lock"}


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def test_everything_is_built_once_and_then_only_verified(workshop: Workshop) -> None:
    workshop.install_go()
    code, output, errors = workshop.run()
    assert (code, output) == (0, str(workshop.shelf)), errors
    assert workshop.calls() == list(ALL)
    assert workshop.on_shelf() == set(ALL)
    code, output, errors = workshop.run()
    assert (code, output) == (0, str(workshop.shelf)), errors
    assert len(workshop.calls()) == len(ALL)
    assert [line.split(maxsplit=1) for line in errors.splitlines()] == [[name, says] for name, says in ALL.items()]
    assert workshop.run("--check") == (0, str(workshop.shelf), "")


def test_one_can_be_built_alone(workshop: Workshop) -> None:
    workshop.install_go()
    code, _, errors = workshop.run("kubectl")
    assert code == 0, errors
    assert workshop.on_shelf() == {"kubectl"}


def test_one_of_another_version_is_built_anew(workshop: Workshop) -> None:
    workshop.install_go()
    workshop.put(workshop.shelf, "kubectl", "Client Version: v1.35.0")
    code, _, errors = workshop.run("kubectl")
    assert code == 0, errors
    assert workshop.calls() == ["kubectl"]
    assert f"'Client Version: v1.35.0' is not {RELEASE}" in errors


@pytest.mark.parametrize("arguments", [(), ("--check",)], ids=["build", "check"])
def test_without_go_one_sentence_says_what_is_missing(workshop: Workshop, arguments: tuple[str, ...]) -> None:
    code, output, errors = workshop.run(*arguments)
    assert (code, output) == (3, "")
    assert len(errors.splitlines()) == 1
    assert errors.startswith(", ".join(ALL))
    assert "Go" in errors


def test_ready_binaries_are_taken_as_they_are(workshop: Workshop, tmp_path: Path) -> None:
    workshop.install_go()
    ready = tmp_path / "ready"
    workshop.environ["MOORING_KUBE_BIN"] = str(ready)
    for name in ALL:
        workshop.put(ready, name, "Kubernetes v1.35.0")
    code, output, errors = workshop.run()
    assert (code, output) == (0, str(ready)), errors
    (ready / "etcd").unlink()
    code, _, errors = workshop.run()
    assert (code, errors) == (3, f"etcd not in {ready}: correct MOORING_KUBE_BIN")
    assert workshop.calls() == []


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        pytest.param("fail", "main.go:1:1: no such thing\ngo could not build kubectl: see above", id="go fails"),
        pytest.param(
            "Client Version: v0.0.0",
            f"kubectl was built as {RELEASE} but says 'Client Version: v0.0.0'",
            id="it says another version",
        ),
    ],
)
def test_what_fails_is_not_put_on_the_shelf(workshop: Workshop, says: str, sentence: str) -> None:
    workshop.install_go(kubectl=says)
    code, _, errors = workshop.run("kubectl")
    assert code == 1
    assert errors.endswith(sentence)
    assert workshop.on_shelf() == set()


def test_an_interrupted_build_leaves_nothing_half_done_and_can_be_resumed(workshop: Workshop) -> None:
    workshop.install_go(kubectl="hang")
    building = workshop.start()
    deadline = time.monotonic() + 20
    while not (workshop.shelf / ".kubectl.partial").exists():
        assert time.monotonic() < deadline
        assert building.poll() is None
        time.sleep(0.02)
    building.send_signal(signal.SIGTERM)
    building.communicate(timeout=20)
    assert building.returncode == 128 + signal.SIGTERM
    assert workshop.on_shelf() == {"etcd", "kube-apiserver"}
    workshop.install_go()
    assert workshop.run()[0] == 0
    assert workshop.calls() == [*list(ALL)[:3], *list(ALL)[2:]]


def test_wrong_usage_is_refused(workshop: Workshop) -> None:
    code, _, errors = workshop.run("kubelet")
    assert code == 2
    assert "there is no kubelet" in errors


def test_the_cache_is_outside_the_tree(workshop: Workshop, tmp_path: Path) -> None:
    del workshop.environ["MOORING_CACHE"]
    workshop.environ |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": ""}
    assert str(tmp_path / ".cache" / "mooring" / "kube-bin" / RELEASE) in workshop.run("--check")[2]
    workshop.environ["XDG_CACHE_HOME"] = str(tmp_path / "xdg")
    assert str(tmp_path / "xdg" / "mooring" / "kube-bin" / RELEASE) in workshop.run("--check")[2]
