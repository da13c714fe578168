"""Kubeconfigs for tests."""

import base64
from pathlib import Path
from typing import Any

import yaml

from mooring.client import kubeconfig
from mooring.client.access import Access


def inline(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def content(
    *,
    name: str = "here",
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    context: dict[str, Any] | None = None,
    current: str | None = None,
) -> dict[str, Any]:
    """A kubeconfig with one cluster, one user and one context of the same name."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name if current is None else current,
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443"} | (cluster or {})}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name} | (context or {})}],
    }


def write(path: Path, body: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(body if isinstance(body, str) else yaml.safe_dump(body))
    return path


def load(path: Path, **environ: str) -> Access:
    return kubeconfig.load(str(path), environ=environ, home=path.parent)
