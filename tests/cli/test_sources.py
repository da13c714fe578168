"""Where the objects of a cluster come from: files, or a cluster, but not both."""

from pathlib import Path

import click
import pytest

from mooring.api.kinds import NODE
from mooring.cli.sources import SourceFlags, read
from mooring.cli.terminal import ClusterUnavailable, InvalidInput
from support.kubeconfigs import content, write


def flags(*files: Path, kubeconfig: Path | str = "", context: str = "") -> SourceFlags:
    return SourceFlags(files=tuple(map(str, files)), kubeconfig=str(kubeconfig), context=context)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "nodes.yaml", "kind: Node\napiVersion: v1\nmetadata: {name: n1}\n")


def test_documents_of_files_come_with_their_origin(file: Path) -> None:
    found = read(flags(file), [NODE], component="test")
    assert found.documents == ((str(file), {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}}),)
    assert found.unseen == ()
    assert found.looked_at is None
    assert found.namespace == "default"


def test_the_namespace_named_counts(file: Path) -> None:
    assert read(flags(file), [NODE], component="test", namespace="shop").namespace == "shop"


def complaint(wrong: SourceFlags) -> click.ClickException:
    with pytest.raises(click.ClickException) as raised:
        read(wrong, [NODE], component="test")
    assert str(raised.value).endswith(".")
    return raised.value


def test_files_and_a_cluster_are_one_too_many(file: Path) -> None:
    assert "either -f" in str(complaint(flags(file, kubeconfig="config")))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    message = complaint(flags(tmp_path / "nowhere.yaml"))
    assert isinstance(message, InvalidInput)
    assert "nowhere.yaml: No such file" in str(message)


def test_a_kubeconfig_that_is_not_there(tmp_path: Path) -> None:
    message = complaint(flags(kubeconfig=tmp_path / "nowhere"))
    assert isinstance(message, InvalidInput)
    assert message.exit_code == 2
    assert "or give files with -f" in str(message)


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    unreachable = content(cluster={"server": "http://127.0.0.1:9"})
    message = complaint(flags(kubeconfig=write(tmp_path / "config", unreachable)))
    assert isinstance(message, ClusterUnavailable)
    assert message.exit_code == 3
    assert "Cannot use the API server" in str(message)
