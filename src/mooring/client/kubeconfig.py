"""From a kubeconfig, or from inside a pod, to an `Access`.

Looks where kubectl looks: the file named on the command line, else those of `KUBECONFIG`, else `~/.kube/config`,
else the service account of the pod it runs in. Of several files the first to say something wins. It reads and never
writes. Everything wrong is a `KubeconfigError`: one sentence that says what, and what to do.
"""

import base64
import os
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlsplit

from mooring.client import proxies
from mooring.client.access import Access
from mooring.client.kubeconfig_file import ClusterEntry, ContextEntry, UserEntry, pem, read, text_of
from mooring.client.kubeconfig_file import KubeconfigError as KubeconfigError
from mooring.client.kubeconfig_user import identified, token_file

#: Where Kubernetes puts a pod's credentials.
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
#: The name under which a cluster entry carries settings for credential plugins.
EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"


@dataclass(frozen=True)
class Choice:
    """What the command line wants of a kubeconfig instead of its current context."""

    context: str = ""
    #: These two stand in for the context's own.
    cluster: str = ""
    user: str = ""


CURRENT: Final = Choice()


def load(
    path: str = "",
    *,
    choice: Choice = CURRENT,
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> Access:
    """How to reach the server, with kubectl's precedence. Raises KubeconfigError."""
    environ = os.environ if environ is None else environ
    if path:
        return from_files([Path(path)], choice=choice, environ=environ)
    if listed := [Path(each) for each in environ.get("KUBECONFIG", "").split(os.pathsep) if each]:
        if existing := [each for each in listed if each.exists()]:
            return from_files(existing, choice=choice, environ=environ)
        raise KubeconfigError(
            f"KUBECONFIG names {environ['KUBECONFIG']}, which does not exist: correct or unset the variable"
        )
    usual = (home or Path.home()) / ".kube" / "config"
    if usual.exists():
        return from_files([usual], choice=choice, environ=environ)
    # Who asks for a context by name does not mean the cluster that happens to be around.
    if choice == CURRENT and environ.get("KUBERNETES_SERVICE_HOST") and (service_account / "token").exists():
        return from_pod(environ, service_account)
    raise KubeconfigError(f"no kubeconfig was found: name one with --kubeconfig or KUBECONFIG, or put it at {usual}")


def from_files(paths: list[Path], *, choice: Choice = CURRENT, environ: Mapping[str, str] | None = None) -> Access:
    """What the files say together about one context, the current one unless another is chosen."""
    merged = _Merged(paths)
    context_name, context = merged.context(choice)
    cluster_name, user_name = choice.cluster or context.cluster, choice.user or context.user
    if not cluster_name:
        raise KubeconfigError(f"{merged.origin}: context {context_name!r} names no cluster: choose one with --cluster")
    cluster_path, cluster = merged.clusters.find(cluster_name, merged.origin)
    user_path, user = merged.users.find(user_name, merged.origin) if user_name else (cluster_path, UserEntry())
    where = f"{cluster_path}: cluster {cluster_name!r}"
    authority = pem(
        cluster_path, cluster.certificate_authority_data, cluster.certificate_authority, "certificate-authority"
    )
    if authority and cluster.insecure_skip_tls_verify:
        raise KubeconfigError(f"{where} has a certificate-authority and insecure-skip-tls-verify: remove one of them")
    server = _server(where, cluster.server)
    anonymous = Access(
        server=server,
        namespace=context.namespace or "default",
        authority=authority,
        server_name=cluster.tls_server_name,
        insecure=cluster.insecure_skip_tls_verify,
        proxy=_proxy(where, cluster.proxy_url, server, os.environ if environ is None else environ),
        compression=not cluster.disable_compression,
    )
    access = identified(anonymous, user_path, user_name, user, lambda: _told_to_plugins(cluster, authority))
    return _checked(merged.origin, access)


def from_pod(environ: Mapping[str, str], service_account: Path = SERVICE_ACCOUNT) -> Access:
    """The server of the cluster this process runs in, as its pod's service account."""
    host = environ["KUBERNETES_SERVICE_HOST"]
    port = environ.get("KUBERNETES_SERVICE_PORT", "443")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    namespace = service_account / "namespace"
    return _checked(
        str(service_account),
        Access(
            server=server,
            namespace=text_of(namespace).strip() if namespace.exists() else "default",
            authority=text_of(service_account / "ca.crt"),
            token_file=token_file(service_account / "token"),
            proxy=_proxy(str(service_account), "", server, environ),
        ),
    )


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


class _Merged:
    """All files, the first to say something about a name having said it for all."""

    def __init__(self, paths: list[Path]) -> None:
        self.origin = os.pathsep.join(map(str, paths))
        self.clusters: _Section[ClusterEntry] = _Section("cluster")
        self.users: _Section[UserEntry] = _Section("user")
        self._contexts: _Section[ContextEntry] = _Section("context")
        self._current = ""
        for path in paths:
            content = read(path)
            self._current = self._current or content.current_context or ""
            self.clusters.add(path, ((each.name, each.cluster or ClusterEntry()) for each in content.clusters or ()))
            self.users.add(path, ((each.name, each.user or UserEntry()) for each in content.users or ()))
            self._contexts.add(path, ((each.name, each.context or ContextEntry()) for each in content.contexts or ()))

    def context(self, choice: Choice) -> tuple[str, ContextEntry]:
        name = choice.context or self._current
        if name:
            return name, self._contexts.find(name, self.origin)[1]
        if choice.cluster:
            return "", ContextEntry()
        raise KubeconfigError(f"{self.origin} has no current-context: choose one with --context")


def _server(where: str, address: str) -> str:
    try:
        url = urlsplit(address)
        usable = url.scheme in ("https", "http") and bool(url.hostname) and url.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise KubeconfigError(
            f"{where} has the server {address!r}, which is not an address: write it like https://host:6443"
        )
    return address.rstrip("/")


def _proxy(where: str, named: str, server: str, environ: Mapping[str, str]) -> str:
    """The cluster's own proxy, else the environment's."""
    if not named:
        try:
            return proxies.from_environment(server, environ)
        except proxies.ProxyError as error:
            raise KubeconfigError(f"the environment variable {error}") from error
    try:
        return proxies.checked(named)
    except proxies.ProxyError as error:
        raise KubeconfigError(f"{where} has a proxy-url that {error}") from error


def _told_to_plugins(cluster: ClusterEntry, authority: str) -> dict[str, Any]:
    """`spec.cluster` of an ExecCredential; what is empty is left out."""
    extensions = {each.name: each.extension for each in cluster.extensions or ()}
    told = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(authority.encode()).decode(),
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
        "config": extensions.get(EXEC_EXTENSION),
    }
    return {field: value for field, value in told.items() if value}


def _checked(origin: str, access: Access) -> Access:
    """The access, once its certificates have proved to be some."""
    try:
        access.tls()
    except (ssl.SSLError, ValueError) as error:
        raise KubeconfigError(f"{origin}: a certificate or key is broken or they do not match: {error}") from error
    return access
