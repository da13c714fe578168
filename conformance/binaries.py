"""The Kubernetes binaries of the conformance run: what they are, which release, and where they lie.

Versions are read from the `go.mod` files in the folders beside this module, one folder per published Go module, so
that a new release is pinned in one place. `build.py` makes what is missing here; nothing here runs or writes.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Where the modules are pinned.
MODULES: Final = Path(__file__).parent
#: Packages that hold Kubernetes' version; without it the binaries call themselves v0.0.0 and clients refuse them.
VERSION_PACKAGES: Final = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


@dataclass(frozen=True)
class Binary:
    name: str
    #: The folder beside this module whose go.mod pins it.
    folder: str
    #: The Go module that carries the version, and the package with its `main`.
    module: str
    package: str
    #: Arguments that make it say its version and end.
    asks_version: tuple[str, ...] = ("--version",)
    #: The variable of its `main` that holds its version, for those that must be told.
    version_variable: str = ""

    @property
    def version(self) -> str:
        """The pinned version, such as v1.36.4."""
        text = (MODULES / self.folder / "go.mod").read_text()
        found = re.search(rf"^(?:require |\t){re.escape(self.module)} (v\S+)", text, re.MULTILINE)
        if found is None:
            raise LookupError(f"{self.folder}/go.mod does not require {self.module}")
        return found[1]

    @property
    def linker_flags(self) -> str:
        """Without symbols and debugging tables, half the size; all but etcd are told their version."""
        flags = ["-s", "-w"]
        if self.module == "k8s.io/kubernetes":
            major, minor, _ = self.version.removeprefix("v").split(".", 2)
            facts = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
            flags += [f"-X {package}.{key}={value}" for package in VERSION_PACKAGES for key, value in facts.items()]
        if self.version_variable:
            flags.append(f"-X main.{self.version_variable}={self.version}")
        return " ".join(flags)


def _kubernetes(name: str, **more: tuple[str, ...]) -> Binary:
    return Binary(name, "kubernetes", "k8s.io/kubernetes", f"k8s.io/kubernetes/cmd/{name}", **more)


def _csi(name: str, folder: str, module: str, variable: str) -> Binary:
    return Binary(name, folder, module, f"{module}/cmd/{name}", version_variable=variable)


#: In the order in which they are built: whoever waits can use the API server long before the rest.
BINARIES: Final = (
    Binary("etcd", "etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
    _kubernetes("kube-apiserver"),
    _kubernetes("kubectl", asks_version=("version", "--client")),
    _kubernetes("kube-scheduler"),
    _kubernetes("kube-controller-manager"),
    _csi("csi-sanity", "csi-sanity", "github.com/kubernetes-csi/csi-test/v5", "VERSION"),
    _csi(
        "csi-provisioner",
        "external-provisioner",
        "github.com/kubernetes-csi/external-provisioner/v5",
        "version",
    ),
    _csi("hostpathplugin", "csi-driver-host-path", "github.com/kubernetes-csi/csi-driver-host-path", "version"),
)
BY_NAME: Final = {binary.name: binary for binary in BINARIES}


@dataclass(frozen=True)
class Shelf:
    """The directory that holds the binaries."""

    path: Path
    #: Whether somebody else fills it: then nothing is built into it, and its versions are taken as they are.
    foreign: bool

    def missing(self) -> list[Binary]:
        return [binary for binary in BINARIES if not os.access(self.path / binary.name, os.X_OK)]


def shelf(environ: Mapping[str, str]) -> Shelf:
    """`MOORING_KUBE_BIN` as it is; otherwise a directory of this release in the user's cache, never in the tree."""
    if given := environ.get("MOORING_KUBE_BIN"):
        return Shelf(Path(given).expanduser(), foreign=True)
    release = BY_NAME["kube-apiserver"].version
    if given := environ.get("MOORING_CACHE"):
        cache = Path(given).expanduser()
    else:
        # The XDG rules: an empty or relative value counts as none.
        home = Path(environ.get("XDG_CACHE_HOME", ""))
        cache = (home if home.is_absolute() else Path.home() / ".cache") / "mooring"
    return Shelf(cache.absolute() / "kube-bin" / release, foreign=False)
