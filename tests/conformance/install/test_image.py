"""The container image, built by buildah from the image context of a release, and run as its unprivileged user.

No registry of images is used: the base is made of this machine's Python, and the locked packages come from a folder.
Isolation is chroot, which needs root and neither a daemon nor a runtime.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from mooring import __version__
from support.conformance.base_image import write_root

BASE: Final = "localhost/base"
IMAGE: Final = f"localhost/mooring:{__version__}"
BUILD_SECONDS: Final = 300
#: Starts a cluster and asks the command of the image about it.
CLUSTER: Final = """
import mooring.testing, os
with mooring.testing.cluster(nodes=2, zones=1) as cluster:
    print(os.getuid(), os.getgid(), len(cluster.objects("nodes")), cluster.mooring("explain", "node/node-1").returncode)
"""


class BuildahFailed(Exception):
    """Its standard error."""


class Buildah:
    def __init__(self, folder: Path) -> None:
        self._command = ["buildah", "--root", str(folder / "storage"), "--runroot", str(folder / "run")]
        self._environment = os.environ | {"BUILDAH_ISOLATION": "chroot"}

    def __call__(self, *arguments: str) -> str:
        """Standard output without the newline; raises BuildahFailed."""
        done = subprocess.run(
            [*self._command, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise BuildahFailed(done.stderr.strip())
        return done.stdout.strip()

    def end(self) -> None:
        """Unmount and delete everything, so that the folder can be deleted."""
        self("rm", "--all")
        self("rmi", "--all", "--force")


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    """With a base image."""
    if shutil.which("buildah") is None:
        pytest.skip("no buildah on the PATH: the container image is not built (on Debian: apt-get install buildah)")
    if sys.platform != "linux" or os.getuid() != 0:
        pytest.skip("the container image is built by root on Linux only")
    folder = tmp_path_factory.mktemp("buildah")
    write_root(folder / "base")
    buildah = Buildah(folder)
    try:
        container = buildah("from", "scratch")
        buildah("add", "--quiet", container, str(folder / "base"), "/")
        settings = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}
        buildah("config", *(f"--env={name}={value}" for name, value in settings.items()), container)
        buildah("commit", "--quiet", "--rm", container, BASE)
    except BuildahFailed as error:
        pytest.skip(f"buildah does not work on this machine: {error}")
    yield buildah
    buildah.end()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def image(buildah: Buildah, artifacts: Path, wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("context")
    with tarfile.open(artifacts / f"mooring-{__version__}-image.tar.gz") as files:
        files.extractall(folder, filter="data")
    context = folder / f"mooring-{__version__}"
    command = ["bud", "--volume", f"{wheels}:/wheels:ro", "--build-arg", f"BASE={BASE}"]
    buildah(*command, "-f", str(context / "deploy" / "Containerfile"), "-t", IMAGE, str(context))
    return IMAGE


def test_the_image_runs_the_command_as_its_user(buildah: Buildah, image: str) -> None:
    configured = json.loads(buildah("inspect", "--type", "image", image))["OCIv1"]["config"]
    assert configured["Entrypoint"] == ["mooring"]
    assert configured["User"] == "65532:65532"

    container = buildah("from", image)
    assert buildah("run", container, "--", *configured["Entrypoint"], "--version").split()[-1] == __version__
    assert buildah("run", container, "--", "python", "-c", CLUSTER).split() == ["65532", "65532", "2", "0"]


def test_the_image_has_the_locked_packages_only(buildah: Buildah, image: str) -> None:
    lock = (Path(__file__).parents[3] / "requirements.lock").read_text().splitlines()
    locked = {line.split()[0] for line in lock if "==" in line}
    container = buildah("from", image)
    found = buildah("run", container, "--", "/opt/mooring/bin/pip", "list", "--format=freeze").split()

    assert {name.lower().replace("_", "-") for name in found} - {name.lower() for name in locked} == {
        f"mooring=={__version__}",
        *(each for each in found if each.startswith(("pip==", "setuptools=="))),
    }
