"""Every tutorial, executed as written in a fresh cluster."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from support.e2e.cluster import Cluster
from support.e2e.transcript import commands, run

ROOT = Path(__file__).parents[3]
TUTORIALS = sorted(path for path in (ROOT / "docs" / "tutorials").glob("*.md") if path.name != "README.md")
#: What else a tutorial proves.
PROVES = {"storage-capacity": pytest.mark.req("C20.answer")}


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.stem, marks=PROVES.get(page.stem, ())) for page in TUTORIALS]
)
def test_tutorial_output_matches(page: Path, start_cluster: Callable[..., Cluster]) -> None:
    text = page.read_text()
    options = re.search(r'make up ARGS="(.*?)"', text)
    cluster = start_cluster("--in-memory", *(options[1].split() if options else ()))
    typed = [*commands(text)]
    assert len(typed) > 3
    for command in typed:
        run(command, kubeconfig=cluster.kubeconfig, folder=ROOT)


def test_the_tour_of_the_readme(start_cluster: Callable[..., Cluster]) -> None:
    cluster = start_cluster("--in-memory")
    # `make up` has started the cluster; test_demo.py runs the demo.
    others = ("make ", "mooring demo")
    typed = [command for command in commands((ROOT / "README.md").read_text()) if not command.text.startswith(others)]
    assert len(typed) > 4
    for command in typed:
        run(command, kubeconfig=cluster.kubeconfig, folder=ROOT)


def test_index_lists_all_tutorials() -> None:
    listed = re.findall(r"\]\((?!\.\.)([\w-]+\.md)\)", (ROOT / "docs" / "tutorials" / "README.md").read_text())
    assert sorted(listed) == [page.name for page in TUTORIALS]
