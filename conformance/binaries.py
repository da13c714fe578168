"""The Kubernetes binaries of the conformance run: names, releases, and their directory.

Versions are read from the `go.mod` files in the folders beside this module, one folder per published Go module, so that
a new release is pinned in one place. Kubernetes has a folder per minor release; `MOORING_KUBE` chooses one of them, the
newest without it. `build.py` builds what is missing; this module neither runs nor writes anything.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

#: Where the modules are pinned.
MODULES: Final = Path(__file__).parent
#: Packages with Kubernetes' version; without it the binaries report v0.0.0 and clients reject them.
VERSION_PACKAGES: Final = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
#: The minor releases of Kubernetes that are pinned, oldest first.
RELEASES: Final = sorted(
    (folder.name for folder in (MODULES / "kubernetes").iterdir() if (folder / "go.mod").exists()),
    key=lambda name: [int(part) for part in name.split(".")],
)


@dataclass(frozen=True)
class Binary:
    name: str
    #: The folder beside this module whose go.mod pins it.
    folder: str
    #: The Go module that carries the version, and the package with its `main`.
    module: str
    package: str
    #: Arguments for version output; none for a program without one.
    asks_version: tuple[str, ...] = ("--version",)
    #: The variable with its version, if it must be set: of its `main`, or with its package.
    version_variable: str = ""
    #: Go build tags.
    tags: str = ""

    @property
    def version(self) -> str:
        """The pinned version, such as v1.37.1."""
        text = (MODULES / self.folder / "go.mod").read_text()
        found = re.search(rf"^(?:require |\t){re.escape(self.module)} (v\S+)", text, re.MULTILINE)
        if found is None:
            raise LookupError(f"{self.folder}/go.mod does not require {self.module}")
        return found[1]

    @property
    def linker_flags(self) -> str:
        """Without symbols and debugging tables, half the size; the version is set for all but etcd."""
        flags = ["-s", "-w"]
        if self.module == "k8s.io/kubernetes":
            major, minor, _ = self.version.removeprefix("v").split(".", 2)
            facts = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
            flags += [f"-X {package}.{key}={value}" for package in VERSION_PACKAGES for key, value in facts.items()]
        if self.version_variable:
            variable = self.version_variable if "." in self.version_variable else f"main.{self.version_variable}"
            flags.append(f"-X {variable}={self.version}")
        return " ".join(flags)


def _kubernetes(release: str, name: str, **more: tuple[str, ...]) -> Binary:
    return Binary(name, f"kubernetes/{release}", "k8s.io/kubernetes", f"k8s.io/kubernetes/cmd/{name}", **more)


def _csi(name: str, folder: str, module: str, variable: str) -> Binary:
    return Binary(name, folder, module, f"{module}/cmd/{name}", version_variable=variable)


def _named_by_version(name: str, folder: str, module: str, package: str) -> Binary:
    """A program that does not report its version has it in its name, so that another pin is another file."""
    binary = Binary(name, folder, module, package, asks_version=())
    return replace(binary, name=f"{name}-{binary.version}")


def binaries(release: str) -> tuple[Binary, ...]:
    """In build order: the API server is usable long before the rest. Only Kubernetes' own depend on the release."""
    return (
        Binary("etcd", "etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
        _kubernetes(release, "kube-apiserver"),
        _kubernetes(release, "kubectl", asks_version=("version", "--client")),
        _kubernetes(release, "kube-scheduler"),
        _kubernetes(release, "kube-controller-manager"),
        _csi("csi-sanity", "csi-sanity", "github.com/kubernetes-csi/csi-test/v5", "VERSION"),
        _csi(
            "csi-provisioner",
            "external-provisioner",
            "github.com/kubernetes-csi/external-provisioner/v5",
            "version",
        ),
        _csi("hostpathplugin", "csi-driver-host-path", "github.com/kubernetes-csi/csi-driver-host-path", "version"),
        Binary(
            "helm",
            "helm",
            "helm.sh/helm/v3",
            "helm.sh/helm/v3/cmd/helm",
            asks_version=("version", "--template", "{{.Version}}"),
            version_variable="helm.sh/helm/v3/internal/version.version",
        ),
        _named_by_version(
            "csi-mock-driver",
            "csi-mock",
            "github.com/kubernetes-csi/csi-test/v4",
            "github.com/kubernetes-csi/csi-test/v4/cmd/mock-driver",
        ),
        _named_by_version("gocsi-mock", "gocsi-mock", "github.com/dell/gocsi", "github.com/dell/gocsi/mock"),
        # It reports its version in a table.
        _named_by_version("krew", "krew", "sigs.k8s.io/krew", "sigs.k8s.io/krew/cmd/krew"),
        _named_by_version("validate-krew", "krew", "sigs.k8s.io/krew", "sigs.k8s.io/krew/cmd/validate-krew-manifest"),
        Binary(
            "promtool",
            "promtool",
            "github.com/prometheus/prometheus",
            "github.com/prometheus/prometheus/cmd/promtool",
            version_variable="github.com/prometheus/common/version.Version",
            # Without service discovery, which would build the client of every cloud.
            tags="remove_all_sd",
        ),
    )


@dataclass(frozen=True)
class Shelf:
    """The directory that holds the binaries of one release."""

    path: Path
    binaries: tuple[Binary, ...]
    #: Whether the directory is provided: nothing is built into it, and any version is accepted.
    foreign: bool

    def missing(self) -> list[Binary]:
        return [binary for binary in self.binaries if not os.access(self.path / binary.name, os.X_OK)]

    def elsewhere(self, binary: Binary) -> list[Path]:
        """The same binary beside other releases: etcd and CSI's programs do not depend on Kubernetes' release."""
        return sorted(file for file in self.path.parent.glob(f"*/{binary.name}") if file.parent != self.path)


def shelf(environ: Mapping[str, str]) -> Shelf:
    """`MOORING_KUBE_BIN` as it is; otherwise a directory of this release in the user's cache, never in the tree.

    Raises LookupError for a release that is not pinned.
    """
    release = environ.get("MOORING_KUBE") or RELEASES[-1]
    if release not in RELEASES:
        raise LookupError(f"Kubernetes {release} is not pinned: choose from {', '.join(RELEASES)}")
    wanted = binaries(release)
    if given := environ.get("MOORING_KUBE_BIN"):
        return Shelf(Path(given).expanduser(), wanted, foreign=True)
    if given := environ.get("MOORING_CACHE"):
        cache = Path(given).expanduser()
    else:
        # The XDG rules: an empty or relative value counts as none.
        home = Path(environ.get("XDG_CACHE_HOME", ""))
        cache = (home if home.is_absolute() else Path.home() / ".cache") / "mooring"
    patch = next(binary.version for binary in wanted if binary.name == "kube-apiserver")
    return Shelf(cache.absolute() / "kube-bin" / patch, wanted, foreign=False)
