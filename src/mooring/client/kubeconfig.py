"""Kubeconfig files, or the service account of a pod, to an `Access`; precedence and merging as kubectl.

Reads and never writes. Unneeded fields are ignored; contradictory or unsupported ones raise `KubeconfigError`.
"""

import base64
import binascii
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from mooring.api.documents import MalformedYaml, single_yaml_document
from mooring.client import access
from mooring.client.access import Access, Impersonation
from mooring.client.exec_plugin import API_VERSIONS, InteractiveMode, PluginCommand, one_line


class KubeconfigError(Exception):
    """No usable configuration. The text says what is wrong and what to do."""


class _Settings(msgspec.Struct, frozen=True, rename="kebab"):
    """Field names in kebab case. Some tools write null for empty lists."""


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
    #: Rejected if present.
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
        return msgspec.convert(single_yaml_document(text_of(path).encode()) or {}, Content)
    except MalformedYaml as error:
        raise KubeconfigError(f"{path} is not YAML: {error}") from error
    except msgspec.ValidationError as error:
        raise KubeconfigError(f"{path} is not a kubeconfig: {error}") from error


def pem(path: Path, inline: str, file: str, field: str) -> str:
    """A certificate or key, inline or as a path relative to the kubeconfig; inline wins, as in kubectl."""
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


#: Upstream's defaults: v1 has none.
_MODE_BY_DEFAULT: Final = {API_VERSIONS[1]: InteractiveMode.IF_AVAILABLE}

#: Called if the plugin sets provideClusterInfo.
ClusterInfo = Callable[[], Mapping[str, Any]]


def with_user(access: Access, path: Path, name: str, user: UserEntry, cluster_info: ClusterInfo) -> Access:
    """The access with the credentials of a user entry in the file `path`. Raises KubeconfigError."""
    origin = f"{path}: user {name!r}"
    if user.auth_provider is not None:
        raise KubeconfigError(
            f"{origin} relies on an auth-provider, which Kubernetes replaced by credential plugins: "
            "use exec, a token or a client certificate"
        )
    if user.token and user.username:
        raise KubeconfigError(f"{origin} has both a token and a username: keep one of them")
    certificate = pem(path, user.client_certificate_data, user.client_certificate, "client-certificate")
    key = pem(path, user.client_key_data, user.client_key, "client-key")
    if bool(certificate) != bool(key):
        raise KubeconfigError(f"{origin} has only one of client-certificate and client-key: give both")
    plugin = _plugin(path, origin, user.exec, cluster_info) if user.exec is not None else None
    if user.token or user.token_file or user.username or certificate:
        plugin = None
    return replace(
        access,
        certificate=certificate,
        key=key,
        token=user.token,
        token_file=token_file(path.parent / user.token_file) if user.token_file else None,
        username=user.username,
        password=user.password,
        plugin=plugin,
        impersonation=_impersonation(origin, user),
    )


def token_file(path: Path) -> Path:
    """The path, checked to be readable."""
    text_of(path)
    return path


def _plugin(path: Path, origin: str, entry: ExecEntry, cluster_info: ClusterInfo) -> PluginCommand:
    if not entry.command:
        raise KubeconfigError(f"{origin} has an exec without a command: name the program to run")
    if entry.api_version not in API_VERSIONS:
        raise KubeconfigError(
            f"{origin} has exec.apiVersion {entry.api_version!r}, but it must be {' or '.join(API_VERSIONS)}: "
            f"update {entry.command!r} and have it write the entry again"
        )
    if any(not variable.name for variable in entry.env or ()):
        raise KubeconfigError(f"{origin} has an exec.env entry without a name: give it one")
    return PluginCommand(
        # A name without a separator is looked up on the PATH; a path is relative to the kubeconfig.
        command=str(path.parent.absolute() / entry.command) if os.sep in entry.command else entry.command,
        api_version=entry.api_version,
        args=entry.args or (),
        env=tuple((variable.name, variable.value) for variable in entry.env or ()),
        install_hint=one_line(entry.install_hint),
        interactive_mode=_mode(origin, entry),
        cluster=cluster_info() if entry.provide_cluster_info else None,
    )


def _mode(origin: str, entry: ExecEntry) -> InteractiveMode:
    if not entry.interactive_mode and (usual := _MODE_BY_DEFAULT.get(entry.api_version)) is not None:
        return usual
    try:
        return InteractiveMode(entry.interactive_mode)
    except ValueError as error:
        choices = ", ".join(mode.value for mode in InteractiveMode)
        raise KubeconfigError(
            f"{origin} has exec.interactiveMode {entry.interactive_mode!r}: choose one of {choices}"
        ) from error


def _impersonation(origin: str, user: UserEntry) -> Impersonation | None:
    extra = {key: values for key, values in (user.impersonate_extra or {}).items() if values}
    if user.impersonate:
        return Impersonation(
            user.impersonate, user.impersonate_uid, user.impersonate_groups or (), tuple(sorted(extra.items()))
        )
    if user.impersonate_uid or user.impersonate_groups or extra:
        raise KubeconfigError(f"{origin} impersonates a uid, groups or extras without a user: add as")
    return None


#: Mount path of a pod's credentials.
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
#: Extension of a cluster entry with settings of credential plugins.
EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"


@dataclass(frozen=True)
class Choice:
    """Overrides from the command line: the context, and cluster and user of the context."""

    context: str = ""
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
    """`path`, else KUBECONFIG, else ~/.kube/config, else the pod's service account. Raises KubeconfigError."""
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
    # An explicit context never means the cluster that the process runs in.
    if choice == CURRENT and environ.get("KUBERNETES_SERVICE_HOST") and (service_account / "token").exists():
        return from_pod(environ, service_account)
    raise KubeconfigError(f"no kubeconfig was found: name one with --kubeconfig or KUBECONFIG, or put it at {usual}")


def from_files(paths: list[Path], *, choice: Choice = CURRENT, environ: Mapping[str, str] | None = None) -> Access:
    """One context of the merged files, by default the current one."""
    merged = _Merged(paths)
    context_name, context = merged.context(choice)
    cluster_name, user_name = choice.cluster or context.cluster, choice.user or context.user
    if not cluster_name:
        raise KubeconfigError(f"{merged.origin}: context {context_name!r} names no cluster: set one in the file")
    cluster_path, cluster = merged.find(merged.clusters, "cluster", cluster_name)
    user_path, user = merged.find(merged.users, "user", user_name) if user_name else (cluster_path, UserEntry())
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
    access = with_user(anonymous, user_path, user_name, user, lambda: _plugin_cluster_info(cluster, authority))
    return _checked(merged.origin, access)


def from_pod(environ: Mapping[str, str], service_account: Path = SERVICE_ACCOUNT) -> Access:
    """The cluster that this process runs in, as its pod's service account."""
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
#: Entries by name with their files, to which paths are relative.
_Section = dict[str, tuple[Path, T]]


class _Merged:
    """Merged files; the first definition of a name wins."""

    def __init__(self, paths: list[Path]) -> None:
        self.origin = os.pathsep.join(map(str, paths))
        self.clusters: _Section[ClusterEntry] = {}
        self.users: _Section[UserEntry] = {}
        self._contexts: _Section[ContextEntry] = {}
        self._current = ""
        for path in paths:
            content = read(path)
            self._current = self._current or content.current_context or ""
            for cluster in content.clusters or ():
                self.clusters.setdefault(cluster.name, (path, cluster.cluster or ClusterEntry()))
            for user in content.users or ():
                self.users.setdefault(user.name, (path, user.user or UserEntry()))
            for context in content.contexts or ():
                self._contexts.setdefault(context.name, (path, context.context or ContextEntry()))

    def find(self, section: _Section[T], noun: str, name: str) -> tuple[Path, T]:
        if name not in section:
            known = ", ".join(sorted(section)) or "none"
            raise KubeconfigError(f"{self.origin} has no {noun} {name!r}; it has: {known}")
        return section[name]

    def context(self, choice: Choice) -> tuple[str, ContextEntry]:
        name = choice.context or self._current
        if name:
            return name, self.find(self._contexts, "context", name)[1]
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
    """The proxy-url of the cluster entry, else the proxy of the environment."""
    if not named:
        try:
            return access.proxy_from_environment(server, environ)
        except access.ProxyError as error:
            raise KubeconfigError(f"the environment variable {error}") from error
    try:
        return access.checked_proxy(named)
    except access.ProxyError as error:
        raise KubeconfigError(f"{where} has a proxy-url that {error}") from error


def _plugin_cluster_info(cluster: ClusterEntry, authority: str) -> dict[str, Any]:
    """`spec.cluster` of an ExecCredential, without empty fields."""
    extensions = {each.name: each.extension for each in cluster.extensions or ()}
    info = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(authority.encode()).decode(),
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
        "config": extensions.get(EXEC_EXTENSION),
    }
    return {field: value for field, value in info.items() if value}


def _checked(origin: str, access: Access) -> Access:
    """The access, with validated certificates."""
    try:
        access.tls()
    except (ssl.SSLError, ValueError) as error:
        raise KubeconfigError(f"{origin}: a certificate or key is broken or they do not match: {error}") from error
    return access
