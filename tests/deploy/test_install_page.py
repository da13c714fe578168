"""docs/install.md refers to existing files, flags and objects."""

import re
from typing import Final

import yaml
from tools.generate_deploy.installation import NAMESPACE

from mooring.control.version_skew import REASON
from support.manifests import DEPLOY, containers

PAGE: Final = (DEPLOY.parent / "docs" / "install.md").read_text()


def test_page_names_all_folders() -> None:
    named = set(re.findall(r"`deploy/([\w-]+)`", PAGE))
    there = {path.parent.name for path in DEPLOY.glob("*/kustomization.yaml")}
    assert named == there - {"base"}
    parts = set(re.findall(r"`(?:deploy/)?components/([\w-]+)`", PAGE))
    assert parts <= {path.name for path in (DEPLOY / "components").iterdir()}
    for folder in re.findall(r"-k (deploy/\S+)", PAGE):
        assert (DEPLOY.parent / folder / "kustomization.yaml").exists()


def test_scheduler_name_matches_the_page() -> None:
    [block] = re.findall(r"```yaml\n(spec:.*?)```", PAGE, re.DOTALL)
    wanted = yaml.safe_load(block)["spec"]["schedulerName"]
    [scheduler] = [each for each in containers() if each.arguments[0] == "scheduler"]
    assert scheduler.flag("--scheduler-name") == wanted


def test_scaled_and_awaited_objects_exist() -> None:
    workloads = {container.workload["metadata"]["name"] for container in containers()}
    assert set(re.findall(r"(?:deployment|job)/([\w-]+)", PAGE)) <= workloads | {"NAME"}
    assert set(re.findall(r"-n (\S+)", PAGE)) == {NAMESPACE}


def test_names_match_the_code() -> None:
    sources = "".join(path.read_text() for path in (DEPLOY.parent / "src" / "mooring" / "control").glob("*.py"))
    for metric in re.findall(r"`(mooring_\w+)`", PAGE):
        assert f'"{metric}"' in sources
    assert f"`{REASON}`" in PAGE
