"""One kubeconfig file: its fields as people write them, and how to read what it points to.

What is needed is typed; what is not (`preferences`, most `extensions`) is left alone, as kubectl leaves it. Nothing
is decided here: which entry counts is `kubeconfig`'s question, and what a user entry means is `kubeconfig_user`'s.
"""

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from mooring.api.yaml_documents import MalformedYaml, single_document


class KubeconfigError(Exception):
    """No way to a server. The text is for the person at the terminal: what is wrong, and what to do."""


class _Settings(msgspec.Struct, frozen=True, rename="kebab"):
    """How kubeconfigs spell their fields. Tools write null for lists they emptied."""


class Extension(_Settings, frozen=True):
    name: str
    extension: Any = None


class ClusterEntry(_Settings, frozen=True):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: tuple[Extension, ...] | None = None


class ExecVariable(msgspec.Struct, frozen=True):
    name: str
    value: str = ""


class ExecEntry(msgspec.Struct, frozen=True, rename="camel"):
    command: str = ""
    args: tuple[str, ...] | None = None
    env: tuple[ExecVariable, ...] | None = None
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class UserEntry(_Settings, frozen=True):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: ExecEntry | None = None
    #: Refused; only whether it is there matters.
    auth_provider: dict[str, Any] | None = None
    impersonate: str = msgspec.field(default="", name="as")
    impersonate_uid: str = msgspec.field(default="", name="as-uid")
    impersonate_groups: tuple[str, ...] | None = msgspec.field(default=None, name="as-groups")
    impersonate_extra: Mapping[str, tuple[str, ...]] | None = msgspec.field(default=None, name="as-user-extra")


class ContextEntry(_Settings, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class NamedCluster(_Settings, frozen=True):
    name: str
    cluster: ClusterEntry | None = None


class NamedUser(_Settings, frozen=True):
    name: str
    user: UserEntry | None = None


class NamedContext(_Settings, frozen=True):
    name: str
    context: ContextEntry | None = None


class Content(_Settings, frozen=True):
    current_context: str | None = None
    clusters: tuple[NamedCluster, ...] | None = None
    users: tuple[NamedUser, ...] | None = None
    contexts: tuple[NamedContext, ...] | None = None


def read(path: Path) -> Content:
    """Raises KubeconfigError."""
    try:
        return msgspec.convert(single_document(text_of(path).encode()) or {}, Content)
    except MalformedYaml as error:
        raise KubeconfigError(f"{path} is not YAML: {error}") from error
    except msgspec.ValidationError as error:
        raise KubeconfigError(f"{path} is not a kubeconfig: {error}") from error


def pem(path: Path, inline: str, file: str, field: str) -> str:
    """A certificate or key given inline or as a file beside the kubeconfig; inline wins, as in kubectl."""
    if not inline:
        return text_of(path.parent / file) if file else ""
    try:
        return base64.b64decode(inline, validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise KubeconfigError(f"{path}: {field}-data is not base64 of a PEM file: {error}") from error


def text_of(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise KubeconfigError(f"cannot read {path}: {reason}") from error
