"""The artifacts of `make release`: built twice the same, and each of them works from an empty directory."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from tools.release.__main__ import SUMS, build, notes
from tools.release.chart import camel, chart_files

from mooring import __version__
from support.e2e.kubectl import require_kubectl
from support.manifests import DEPLOY

ROOT = Path(__file__).parents[2]
NAME = f"mooring-{__version__}"
KREW_URL = "https://example.invalid/plugin.tar.gz"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    build(folder, krew_url=KREW_URL)
    return folder


def unpacked(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    return folder


def test_a_build_in_another_clone_gives_the_same_bytes(release: Path, tmp_path: Path) -> None:
    """In another folder, time zone and hash order, and with files that only their owner may read."""
    clone, output = tmp_path / "clone", tmp_path / "output"
    git("clone", "-q", "--shared", "--no-checkout", str(ROOT), str(clone), cwd=tmp_path)
    # As the tree is now: what git tracks, and what it does not ignore, which goes into the source archive.
    tracked, untracked = git("ls-files"), git("ls-files", "--others", "--exclude-standard")
    for name in (tracked + untracked).splitlines():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, clone / name)
        (clone / name).chmod((ROOT / name).stat().st_mode & 0o700)
    git("add", "--force", "--pathspec-from-file=-", cwd=clone, stdin=tracked)
    subprocess.run(
        [sys.executable, "-m", "tools.release", "--allow-dirty", "--output", output, "--krew-url", KREW_URL],
        cwd=clone,
        env=os.environ | {"PYTHONPATH": str(clone / "src"), "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "7"},
        umask=0o077,
        stdout=subprocess.DEVNULL,
        check=True,
    )

    assert (output / SUMS).read_text() == (release / SUMS).read_text()


def git(*arguments: str, cwd: Path = ROOT, stdin: str = "") -> str:
    done = subprocess.run(["git", *arguments], cwd=cwd, input=stdin, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_checksums_name_every_artifact(release: Path) -> None:
    checked = subprocess.run(["sha256sum", "--check", "--strict", SUMS], cwd=release, capture_output=True, text=True)

    assert checked.returncode == 0, checked.stdout
    named = {line.split()[1] for line in (release / SUMS).read_text().splitlines()}
    assert named == {path.name for path in release.iterdir()} - {SUMS}


@pytest.fixture(scope="module")
def installed(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of a virtual environment with the wheel, and with the dependencies of this one."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    # A plain path adds packages without following the editable installation among them.
    site = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    (Path(site) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(release / f"{NAME}-py3-none-any.whl")], check=True, env=clean_environment())
    return folder / "bin"


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(command: Path, *arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [command, *arguments], cwd=cwd, env=clean_environment(), capture_output=True, text=True, check=False
    )


def test_the_wheel_has_its_own_package_and_pages(installed: Path, tmp_path: Path) -> None:
    where = run(installed / "python", "-c", "import mooring; print(mooring.__file__)", cwd=tmp_path)
    page = run(installed / "mooring", "docs", "rollback", cwd=tmp_path)
    example = run(installed / "mooring", "docs", "examples/statefulset-local.yaml", cwd=tmp_path)

    assert Path(where.stdout.strip()).is_relative_to(installed.parent)
    assert page.returncode == 0, page.stderr
    assert page.stdout.startswith("# ")
    assert "kind: StatefulSet" in example.stdout


def test_a_cluster_of_the_wheel_starts_in_an_empty_directory(installed: Path, tmp_path: Path) -> None:
    script = (
        "import mooring.testing\n"
        "with mooring.testing.cluster(nodes=2, zones=1) as cluster:\n"
        "    print(len(cluster.objects('nodes')), cluster.mooring('explain', 'node/node-1').returncode)\n"
    )
    started = run(installed / "python", "-c", script, cwd=tmp_path)

    assert started.stdout.split() == ["2", "0"], started.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_wheel_registers_the_fixtures_with_pytest(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "def test_nodes(mooring_cluster):\n    assert mooring_cluster.objects('no')\n"
    )

    done = run(installed / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)

    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_source_archive_has_what_the_wheel_is_built_from(release: Path) -> None:
    with tarfile.open(release / f"{NAME}.tar.gz") as archive:
        names = set(archive.getnames())
    for wanted in ("pyproject.toml", "src/mooring/__init__.py", "docs/install.md", "LICENSE", "README.md"):
        assert f"{NAME}/{wanted}" in names


def test_the_image_context_has_what_the_containerfile_copies(release: Path, tmp_path: Path) -> None:
    context = unpacked(release / f"{NAME}-image.tar.gz", tmp_path) / NAME
    lines = (context / "deploy" / "Containerfile").read_text().splitlines()
    copied = [
        word for line in lines if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]
    ]

    assert copied
    assert [word for word in copied if not (context / word).exists()] == []


def test_the_steps_of_the_image_run_in_a_clean_root(release: Path, tmp_path: Path) -> None:
    """The Containerfile's steps, one by one, with only the files that it copies. The base image is this Python, and the
    locked packages are those of this environment, whose versions are compared: tests have no registry and no index."""
    context = unpacked(release / f"{NAME}-image.tar.gz", tmp_path / "context") / NAME
    build, prefix = tmp_path / "root" / "build", tmp_path / "root" / "opt" / "mooring"
    build.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "-q", "--python", str(prefix / "bin" / "python")]
    done = []
    for instruction in instructions(context / "deploy" / "Containerfile"):
        match instruction.split():
            case ["COPY", "--from=build", *paths]:
                assert paths == ["/opt/mooring", "/opt/mooring"]
            case ["COPY", *sources, _]:
                for each in sources:
                    copy = shutil.copytree if (context / each).is_dir() else shutil.copy
                    copy(context / each, build / each)
            case ["RUN", "python", "-m", "venv", "/opt/mooring"]:
                subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True)
            case ["RUN", "/opt/mooring/bin/pip", "install", *_, "-r", lock]:
                wanted = dict(
                    line.split()[0].split("==") for line in (build / lock).read_text().splitlines() if "==" in line
                )
                assert {name: version for name, version in wanted.items() if metadata.version(name) != version} == {}
                site = sysconfig.get_path("purelib", vars={"base": str(prefix), "platbase": str(prefix)})
                (Path(site) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
            case ["RUN", "/opt/mooring/bin/pip", "install", *options, "."]:
                subprocess.run([*pip, "install", *options, "."], cwd=build, check=True, env=clean_environment())
            case ["ENTRYPOINT", command]:
                version = run(prefix / "bin" / json.loads(command)[0], "--version", cwd=tmp_path)
                assert version.stdout.split()[-1] == __version__, version.stderr
            case ["ARG" | "FROM" | "WORKDIR" | "ENV" | "USER", *_]:
                pass
            case _:
                pytest.fail(f"not a known instruction: {instruction}")
        done.append(instruction.split()[0])
    assert done[-1] == "ENTRYPOINT"

    subprocess.run([*pip, "uninstall", "-y", "mooring"], check=True, env=clean_environment())
    assert list(prefix.rglob("*mooring*")) == [], "uninstalling leaves nothing behind"


def instructions(containerfile: Path) -> list[str]:
    """Without comments, continuation lines joined."""
    lines = (line for line in containerfile.read_text().splitlines() if not line.lstrip().startswith("#"))
    return [line for line in "\n".join(lines).replace("\\\n", " ").splitlines() if line.strip()]


def test_the_manifests_name_the_image_of_the_release(release: Path, tmp_path: Path) -> None:
    manifests = unpacked(release / f"{NAME}-manifests.tar.gz", tmp_path) / NAME / "deploy"

    for path in sorted(manifests.glob("*/kustomization.yaml")):
        images = yaml.safe_load(path.read_text()).get("images", [{"newTag": __version__}])
        assert [image["newTag"] for image in images] == [__version__], path
    assert (manifests / "default" / "kustomization.yaml").exists()


def test_the_bill_of_materials_lists_every_locked_package(release: Path) -> None:
    bill = json.loads((release / f"{NAME}.cdx.json").read_text())
    locked = {line.split("==")[0] for line in (ROOT / "requirements.lock").read_text().splitlines() if "==" in line}

    assert {each["name"] for each in bill["components"]} == locked
    for each in bill["components"]:
        [distribution] = each["externalReferences"]
        assert each["purl"] == f"pkg:pypi/{each['name']}@{each['version']}"
        assert all(len(entry["content"]) == 64 for entry in distribution["hashes"])
        assert distribution["hashes"]


def test_every_component_is_a_switch_of_the_chart() -> None:
    files = chart_files({str(path.relative_to(ROOT)): path.read_bytes() for path in DEPLOY.rglob("*.yaml")}, "1.2.3")
    values = yaml.safe_load(files["values.yaml"])
    components = {path.name for path in (DEPLOY / "components").iterdir()}

    assert set(values["components"]) == set(map(camel, components))
    assert values["image"]["tag"] == yaml.safe_load(files["Chart.yaml"])["version"] == "1.2.3"
    for component in components:
        template = files[f"templates/{component}.yaml"].decode()
        assert f"namespace: {'mooring-system'}\n" not in template
        assert "image: mooring\n" not in template
    schema = json.loads(files["values.schema.json"])["properties"]
    assert set(schema["components"]["properties"]) == set(values["components"])


class TestKrew:
    def launcher(self, release: Path, folder: Path) -> Path:
        return unpacked(release / f"kubectl-{NAME}.tar.gz", folder) / "kubectl-mooring"

    def tool(self, folder: Path, name: str, commands: str) -> None:
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{commands}\n")
        (folder / name).chmod(0o755)

    @pytest.mark.parametrize(
        ("tools", "expected"),
        [
            pytest.param(
                {"mooring": f'[ "$1" = --version ] && echo "mooring, version {__version__}" || echo "ran $*"'},
                "ran explain pod/a b",
                id="installed",
            ),
            pytest.param(
                {"mooring": 'echo "mooring, version 0.0.0"', "uvx": 'echo "uvx $*"'},
                f"uvx --from mooring=={__version__} mooring explain pod/a b",
                id="another version installed, uv there",
            ),
            pytest.param(
                {"pipx": 'echo "pipx $*"'},
                f"pipx run --spec mooring=={__version__} mooring explain pod/a b",
                id="pipx there",
            ),
        ],
    )
    def test_the_launcher_runs_this_version(
        self, release: Path, tmp_path: Path, tools: dict[str, str], expected: str
    ) -> None:
        for name, commands in tools.items():
            self.tool(tmp_path / "path", name, commands)
        launched = subprocess.run(
            ["/bin/sh", self.launcher(release, tmp_path), "explain", "pod/a b"],
            env={"PATH": str(tmp_path / "path")},
            capture_output=True,
            text=True,
            check=True,
        )
        assert launched.stdout.strip() == expected

    def test_without_anything_to_run_it_says_what_to_install(self, release: Path, tmp_path: Path) -> None:
        command = ["/bin/sh", self.launcher(release, tmp_path), "explain"]
        launched = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)

        assert launched.returncode == 3
        assert f"pip install mooring=={__version__}" in launched.stderr

    def test_the_manifest_names_the_archive(self, release: Path) -> None:
        manifest = yaml.safe_load((release / "mooring.krew.yaml").read_text())
        sums = dict(reversed(line.split()) for line in (release / SUMS).read_text().splitlines())

        assert manifest["spec"]["version"] == f"v{__version__}"
        for platform in manifest["spec"]["platforms"]:
            assert platform["sha256"] == sums[f"kubectl-{NAME}.tar.gz"]
            assert platform["uri"] == KREW_URL

    def test_kubectl_finds_and_loses_the_plugin(self, release: Path, installed: Path, tmp_path: Path) -> None:
        """Unpacked and linked as krew does it. `make conformance` has the real krew do it."""
        require_kubectl()
        manifest = yaml.safe_load((release / "mooring.krew.yaml").read_text())
        platform = manifest["spec"]["platforms"][0]
        store, links = tmp_path / "store" / "mooring" / manifest["spec"]["version"], tmp_path / "bin"
        links.mkdir()
        unpacked(release / f"kubectl-{NAME}.tar.gz", store)
        assert {path.name for path in store.iterdir()} == {each["from"] for each in platform["files"]}
        (links / f"kubectl-{manifest['metadata']['name']}").symlink_to(store / platform["bin"])
        path = os.pathsep.join([str(links), str(installed), os.environ["PATH"]])
        command = ["kubectl", "mooring", "explain", "Metrics API not available"]
        environment = clean_environment() | {"PATH": path}

        listed = subprocess.run(["kubectl", "plugin", "list"], env=environment, capture_output=True, text=True)
        explained = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert str(links / "kubectl-mooring") in listed.stdout
        assert "mooring explain node/NAME" in explained.stdout, explained.stderr

        shutil.rmtree(tmp_path / "store")
        (links / "kubectl-mooring").unlink()
        lost = subprocess.run(["kubectl", "plugin", "list"], env=environment, capture_output=True, text=True)
        assert str(links) not in lost.stdout


CHANGES = """# Changelog

## Unreleased

- new

## 1.2.0 (2027-01-01)

- old
"""


@pytest.mark.parametrize(("version", "text"), [("1.2.0", "- old"), ("1.3.0", "- new")])
def test_notes_are_those_of_the_version(version: str, text: str) -> None:
    assert notes(CHANGES, version) == f"# Mooring {version}\n\n{text}\n"
