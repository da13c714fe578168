"""From a kubeconfig, or from inside a pod, to an `Access`.

Looks where kubectl looks: the file named on the command line, else those of `KUBECONFIG`, else `~/.kube/config`,
else the service account of the pod it runs in. Of several files the first to say something wins. It reads and never
writes. Credential plugins, proxies and passwords are understood and refused; proxies named by the environment are
not used. Everything wrong is a `KubeconfigError`: one sentence that says what, and what to do.
"""

import base64
import binascii
import os
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec
import yaml

from mooring.client.access import Access

#: Where Kubernetes puts a pod's credentials.
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class KubeconfigError(Exception):
    """No way to a server. The text is for the person at the terminal."""


class _Settings(msgspec.Struct, frozen=True, rename="kebab"):
    """How kubeconfigs spell their fields."""


class _Cluster(_Settings, frozen=True):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class _User(_Settings, frozen=True):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    # Understood and not built: only whether they are there matters.
    exec: dict[str, Any] | None = None
    auth_provider: dict[str, Any] | None = None
    username: str = ""
    impersonate: str = msgspec.field(default="", name="as")


class _Context(_Settings, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(_Settings, frozen=True):
    name: str
    cluster: _Cluster | None = None


class _NamedUser(_Settings, frozen=True):
    name: str
    user: _User | None = None


class _NamedContext(_Settings, frozen=True):
    name: str
    context: _Context | None = None


class _Content(_Settings, frozen=True):
    """One file. Tools write null for lists they emptied."""

    current_context: str | None = None
    clusters: tuple[_NamedCluster, ...] | None = None
    users: tuple[_NamedUser, ...] | None = None
    contexts: tuple[_NamedContext, ...] | None = None


T = TypeVar("T")


class _Section(Generic[T]):
    """The entries of one list over all files; each remembers its file, for paths in it are relative to that."""

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._entries: dict[str, tuple[Path, T]] = {}

    def add(self, path: Path, entries: Iterable[tuple[str, T]]) -> None:
        for name, entry in entries:
            self._entries.setdefault(name, (path, entry))

    def find(self, name: str, origin: str) -> tuple[Path, T]:
        if name not in self._entries:
            known = ", ".join(sorted(self._entries)) or "none"
            raise KubeconfigError(f"{origin} has no {self._noun} {name!r}; it has: {known}")
        return self._entries[name]


def load(
    path: str = "",
    *,
    context: str = "",
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> Access:
    """How to reach the server, with kubectl's precedence. Raises KubeconfigError."""
    environ = os.environ if environ is None else environ
    if path:
        return from_files([Path(path)], context=context)
    if listed := [Path(each) for each in environ.get("KUBECONFIG", "").split(os.pathsep) if each]:
        if existing := [each for each in listed if each.exists()]:
            return from_files(existing, context=context)
        raise KubeconfigError(
            f"KUBECONFIG names {environ['KUBECONFIG']}, which does not exist: correct or unset the variable"
        )
    usual = (home or Path.home()) / ".kube" / "config"
    if usual.exists():
        return from_files([usual], context=context)
    if environ.get("KUBERNETES_SERVICE_HOST") and (service_account / "token").exists():
        return from_pod(environ, service_account)
    raise KubeconfigError(f"no kubeconfig was found: name one with --kubeconfig or KUBECONFIG, or put it at {usual}")


def from_files(paths: list[Path], *, context: str = "") -> Access:
    """What the files say together about one context, the current one unless another is named."""
    origin = os.pathsep.join(map(str, paths))
    clusters: _Section[_Cluster] = _Section("cluster")
    users: _Section[_User] = _Section("user")
    contexts: _Section[_Context] = _Section("context")
    for path in paths:
        content = _read(path)
        context = context or content.current_context or ""
        clusters.add(path, ((each.name, each.cluster or _Cluster()) for each in content.clusters or ()))
        users.add(path, ((each.name, each.user or _User()) for each in content.users or ()))
        contexts.add(path, ((each.name, each.context or _Context()) for each in content.contexts or ()))
    if not context:
        raise KubeconfigError(f"{origin} has no current-context: choose one with --context")
    _, chosen = contexts.find(context, origin)
    cluster_path, cluster = clusters.find(chosen.cluster, origin)
    user_path, user = users.find(chosen.user, origin) if chosen.user else (cluster_path, _User())
    _refuse_what_is_not_built(origin, chosen, cluster, user)
    if not cluster.server.startswith(("https://", "http://")):
        raise KubeconfigError(
            f"{cluster_path}: cluster {chosen.cluster!r} has the server {cluster.server!r}, which is not an "
            "address: write it like https://host:6443"
        )
    certificate = _pem(user_path, user.client_certificate_data, user.client_certificate, "client-certificate")
    key = _pem(user_path, user.client_key_data, user.client_key, "client-key")
    if bool(certificate) != bool(key):
        raise KubeconfigError(
            f"{user_path}: user {chosen.user!r} has only one of client-certificate and client-key: give both"
        )
    return _checked(
        origin,
        Access(
            server=cluster.server.rstrip("/"),
            namespace=chosen.namespace or "default",
            authority=_pem(
                cluster_path, cluster.certificate_authority_data, cluster.certificate_authority, "certificate-authority"
            ),
            server_name=cluster.tls_server_name,
            insecure=cluster.insecure_skip_tls_verify,
            certificate=certificate,
            key=key,
            token=user.token,
            token_file=_token_file(user_path, user.token_file),
        ),
    )


def from_pod(environ: Mapping[str, str], service_account: Path = SERVICE_ACCOUNT) -> Access:
    """The server of the cluster this process runs in, as its pod's service account."""
    host = environ["KUBERNETES_SERVICE_HOST"]
    port = environ.get("KUBERNETES_SERVICE_PORT", "443")
    namespace = service_account / "namespace"
    return _checked(
        str(service_account),
        Access(
            server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
            namespace=_text(namespace).strip() if namespace.exists() else "default",
            authority=_text(service_account / "ca.crt"),
            token_file=_token_file(service_account, "token"),
        ),
    )


def _read(path: Path) -> _Content:
    try:
        return msgspec.convert(yaml.load(_text(path), yaml.CSafeLoader) or {}, _Content)
    except yaml.YAMLError as error:
        raise KubeconfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    except msgspec.ValidationError as error:
        raise KubeconfigError(f"{path} is not a kubeconfig: {error}") from error


def _refuse_what_is_not_built(origin: str, chosen: _Context, cluster: _Cluster, user: _User) -> None:
    ways = {
        "a credential plugin (exec)": user.exec,
        "an auth-provider": user.auth_provider,
        "a password": user.username,
        "impersonation (as)": user.impersonate,
    }
    if used := next((way for way, value in ways.items() if value), ""):
        raise KubeconfigError(
            f"{origin}: user {chosen.user!r} relies on {used}, which Mooring cannot do yet: "
            "use a token or a client certificate"
        )
    if cluster.proxy_url:
        raise KubeconfigError(
            f"{origin}: cluster {chosen.cluster!r} is behind a proxy (proxy-url), which Mooring cannot use yet: "
            "give an address that can be reached directly"
        )


def _pem(path: Path, inline: str, file: str, field: str) -> str:
    """A certificate or key given inline or as a file; inline wins, as in kubectl."""
    if not inline:
        return _text(path.parent / file) if file else ""
    try:
        return base64.b64decode(inline, validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise KubeconfigError(f"{path}: {field}-data is not base64 of a PEM file: {error}") from error


def _token_file(path: Path, file: str) -> Path | None:
    if not file:
        return None
    whole = (path if path.is_dir() else path.parent) / file
    _text(whole)
    return whole


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise KubeconfigError(f"cannot read {path}: {reason}") from error


def _checked(origin: str, access: Access) -> Access:
    """The access, once its certificates have proved to be some."""
    try:
        access.tls()
    except (ssl.SSLError, ValueError) as error:
        raise KubeconfigError(f"{origin}: a certificate or key is broken or they do not match: {error}") from error
    return access
