"""`python -m tools.release [--output dist]` builds the artifacts of a release, byte for byte the same from one commit.

    mooring-VERSION-py3-none-any.whl     the package, with its documentation
    mooring-VERSION.tar.gz               its source
    mooring-VERSION-manifests.tar.gz     deploy/ for `kubectl apply -k`
    mooring-VERSION.tgz                  the Helm chart
    mooring-VERSION-image.tar.gz         context of the container image: Containerfile and what it copies
    mooring-VERSION.cdx.json             software bill of materials (CycloneDX), from the lock file
    mooring-VERSION.md                   release notes, from CHANGELOG.md
    SHA256SUMS

With `--krew-url URL`, the address from which krew will download the archive of the plugin, also that archive and the
plugin's manifest. The time of all files is that of the last commit (or SOURCE_DATE_EPOCH). Needs the development
environment; `make release` builds in a clean tree only.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tools.release.archives import write_archive
from tools.release.bill_of_materials import bill_of_materials
from tools.release.chart import chart_files
from tools.release.krew import archive_files, manifest

from mooring import __version__

ROOT: Final = Path(__file__).parents[2]
SUMS: Final = "SHA256SUMS"
#: What the Containerfile copies.
IMAGE_PATHS: Final = (
    "deploy/Containerfile",
    "requirements.lock",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "src",
    "docs",
    "examples",
)


def tracked(*paths: str) -> dict[str, bytes]:
    """Contents of the files that git tracks below the paths, by path from the root."""
    listed = subprocess.run(["git", "ls-files", "-z", "--", *paths], cwd=ROOT, capture_output=True, check=True).stdout
    return {name: (ROOT / name).read_bytes() for name in sorted(filter(None, listed.decode().split("\0")))}


def release_time() -> int:
    """Seconds since the epoch: SOURCE_DATE_EPOCH, or the time of the last commit."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    shown = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True)
    return int(shown.stdout)


def notes(changelog: str, version: str) -> str:
    """The section of the version; without one, that of what is not released yet."""
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    for wanted in (version, "Unreleased"):
        for section in sections:
            heading, _, text = section.partition("\n")
            if heading.split()[0].strip("[]") == wanted:
                return f"# Mooring {version}\n{text.rstrip()}\n"
    raise LookupError(f"CHANGELOG.md has a section neither for {version} nor for what is not released")


def packages(output: Path, time: int) -> None:
    """Wheel and source archive."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(output)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(time)}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def under(root: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{root}/{name}": content for name, content in files.items()}


def build(output: Path, *, krew_url: str = "") -> list[Path]:
    """Write all artifacts; returns them in the order of SHA256SUMS."""
    output.mkdir(parents=True, exist_ok=True)
    time, name = release_time(), f"mooring-{__version__}"
    packages(output, time)
    archives = {
        f"{name}-manifests.tar.gz": under(name, tracked("deploy")),
        f"{name}.tgz": under("mooring", chart_files(tracked("deploy"), __version__)),
        f"{name}-image.tar.gz": under(name, tracked(*IMAGE_PATHS)),
    }
    for file, files in archives.items():
        write_archive(output / file, files, time)
    (output / f"{name}.cdx.json").write_text(
        bill_of_materials((ROOT / "requirements.lock").read_text(), __version__, time)
    )
    (output / f"{name}.md").write_text(notes((ROOT / "CHANGELOG.md").read_text(), __version__))
    if krew_url:
        plugin = output / f"kubectl-{name}.tar.gz"
        write_archive(plugin, archive_files(__version__, (ROOT / "LICENSE").read_bytes()), time)
        (output / "mooring.krew.yaml").write_text(manifest(__version__, krew_url, digest(plugin)))
    artifacts = sorted(path for path in output.iterdir() if path.name != SUMS)
    (output / SUMS).write_text("".join(f"{digest(path)}  {path.name}\n" for path in artifacts))
    return artifacts


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="an empty or new folder")
    parser.add_argument("--krew-url", default="", help="address of the plugin's archive for krew")
    parser.add_argument("--allow-dirty", action="store_true", help="build although files differ from the last commit")
    options = parser.parse_args()
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True)
    if changed.stdout and not options.allow_dirty:
        sys.exit(f"Commit these files first, or build with --allow-dirty:\n{changed.stdout.rstrip()}")
    if options.output.is_dir() and any(options.output.iterdir()):
        sys.exit(f"{options.output} is not empty: name another folder with --output, or delete its files.")
    for path in build(options.output, krew_url=options.krew_url):
        print(f"{path.stat().st_size:>10}  {path}")
    print(f"tag it with: git tag -a v{__version__} -F {options.output / f'mooring-{__version__}.md'}")


if __name__ == "__main__":
    main()
