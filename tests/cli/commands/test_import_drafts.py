"""`mooring import` as people run it."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.cli.main import main
from support import draft_examples


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, ["import", *arguments], input=stdin, catch_exceptions=False)


def test_standard_input_to_standard_output_with_remarks_beside() -> None:
    result = run("-f", "-", stdin=draft_examples.STANDARD)
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout)["volumeBindingMode"] == "WaitForFirstConsumer"
    assert result.stderr == "StorageClass/draft-standard: renamed bindingMode to volumeBindingMode\n"


def test_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "drafts").mkdir()
    for number, text in enumerate(draft_examples.ALL):
        (tmp_path / "drafts" / f"{number:02}.yaml").write_text(text)
    (tmp_path / "claim.yaml").write_text(draft_examples.CLAIM)
    result = run("-f", str(tmp_path / "claim.yaml"), "-f", str(tmp_path / "drafts"), "-n", "storage")
    assert result.exit_code == 0
    objects = [*yaml.safe_load_all(result.stdout)]
    assert len(objects) == 1 + len(draft_examples.ALL) + len(draft_examples.CAPACITIES), "each pair is two objects"
    assert {one["metadata"].get("namespace") for one in objects if one["kind"] == "CSIStorageCapacity"} == {"storage"}
    again = run("-f", "-", stdin=result.stdout)
    assert (again.stdout, again.stderr) == (result.stdout, ""), "what was imported needs no import"


def test_report() -> None:
    result = run("-f", "-", "-o", "json", stdin=draft_examples.POD)
    report = json.loads(result.stdout)
    assert result.stderr == ""
    assert report["refused"] == []
    assert report["objects"][0]["spec"]["containers"] == [{"name": "app", "image": "pause"}]
    assert [change["object"] for change in report["changes"]] == ["standard input"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(draft_examples.POOL, "never became an API", id="a rejected alternative"),
        pytest.param("a: [", "not YAML", id="not YAML"),
        pytest.param("", "no objects", id="nothing"),
        pytest.param(
            f"{draft_examples.CLAIM}---\n{draft_examples.DRIVER_STATUS}",
            "nothing was printed or applied",
            id="one among others",
        ),
    ],
)
def test_nothing_is_printed_when_something_is_refused(text: str, why: str) -> None:
    result = run("-f", "-", stdin=text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert why in result.stderr


def test_file_that_is_no_text(tmp_path: Path) -> None:
    odd = tmp_path / "odd.yaml"
    odd.write_bytes(b"kind: \xff\n")
    result = run("-f", str(odd))
    assert result.exit_code == 2
    assert f"{odd}: not text in UTF-8" in result.stderr


def test_apply_needs_kinds_it_knows(tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    cluster = {"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [cluster],
        "users": [{"name": "a", "user": {}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    }
    config.write_text(yaml.safe_dump(body))
    result = run("-f", "-", "--apply", "--kubeconfig", str(config), stdin="apiVersion: x/v1\nkind: Odd\n")
    assert result.exit_code == 2
    assert "use kubectl apply" in result.stderr
    missing = run("-f", "-", "--apply", "--kubeconfig", str(tmp_path / "none"), stdin=draft_examples.CLAIM)
    assert missing.exit_code == 2
    result = run("-f", "-", "--apply", "--kubeconfig", str(config), stdin=draft_examples.CLAIM)
    assert result.exit_code == 1
    assert "Traceback" not in result.stderr
