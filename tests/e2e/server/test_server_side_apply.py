"""`kubectl apply --server-side` by two field managers on one object."""

import json
from typing import Any

from support.e2e.workspace import Workspace


def config(**data: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": data})


def apply(workspace: Workspace, manager: str, body: str, *options: str, check: bool = True) -> str:
    command = ("apply", "--server-side", f"--field-manager={manager}", *options, "-f", "-")
    return workspace(*command, stdin=body, check=check)


def data_of(workspace: Workspace) -> dict[str, Any]:
    return dict(workspace.item("configmap", "shared").get("data", {}))


def test_two_managers_share_an_object(workspace: Workspace) -> None:
    assert "serverside-applied" in apply(workspace, "ann", config(a="1", b="1"))
    refused = apply(workspace, "bob", config(a="2", c="3"), check=False)
    assert 'Apply failed with 1 conflict: conflict with "ann": .data.a' in refused
    assert data_of(workspace) == {"a": "1", "b": "1"}

    apply(workspace, "bob", config(a="2", c="3"), "--force-conflicts")
    apply(workspace, "ann", config())
    assert data_of(workspace) == {"a": "2", "c": "3"}
    shown = workspace("get", "configmap", "shared", "--show-managed-fields", "-o", "json")
    assert {entry["manager"] for entry in json.loads(shown)["metadata"]["managedFields"]} == {"bob"}


def test_client_side_apply_migrates_to_server_side(workspace: Workspace) -> None:
    workspace("apply", "-f", "-", stdin=config(a="1"))
    apply(workspace, "kubectl", config(a="2"), "--force-conflicts")
    assert data_of(workspace)["a"] == "2"


def test_dry_run_changes_nothing(workspace: Workspace) -> None:
    assert "(server dry run)" in apply(workspace, "ann", config(a="1"), "--dry-run=server")
    assert not workspace("get", "configmap", "shared", "--ignore-not-found")
