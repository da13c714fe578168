"""Who a kubeconfig says one is: its user entry, checked and put into an `Access`.

As kubectl, a credential plugin is for those who have nothing else: a token, a password or a certificate in the same
entry comes first. What kubectl calls contradictory is refused, and so is what Mooring cannot do.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from mooring.client.access import Access, Impersonation
from mooring.client.exec_plugin import API_VERSIONS, InteractiveMode, PluginCommand, one_line
from mooring.client.kubeconfig_file import ExecEntry, KubeconfigError, UserEntry, pem, text_of

#: Upstream's default, which only the older of the two versions has.
_MODE_BY_DEFAULT: Final = {API_VERSIONS[1]: InteractiveMode.IF_AVAILABLE}

#: Tells a plugin about the cluster; called only where the plugin wants to know.
ClusterInfo = Callable[[], Mapping[str, Any]]


def identified(access: Access, path: Path, name: str, user: UserEntry, cluster_info: ClusterInfo) -> Access:
    """The access with what the entry says; `path` is the file it stands in. Raises KubeconfigError."""
    who = f"{path}: user {name!r}"
    if user.auth_provider is not None:
        raise KubeconfigError(
            f"{who} relies on an auth-provider, which Kubernetes gave up for credential plugins: "
            "use exec, a token or a client certificate"
        )
    if user.token and user.username:
        raise KubeconfigError(f"{who} has both a token and a username: keep one of them")
    certificate = pem(path, user.client_certificate_data, user.client_certificate, "client-certificate")
    key = pem(path, user.client_key_data, user.client_key, "client-key")
    if bool(certificate) != bool(key):
        raise KubeconfigError(f"{who} has only one of client-certificate and client-key: give both")
    plugin = _plugin(path, who, user.exec, cluster_info) if user.exec is not None else None
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
        impersonation=_impersonation(who, user),
    )


def token_file(path: Path) -> Path:
    """A file that a token will be read from again and again, and that can be read now."""
    text_of(path)
    return path


def _plugin(path: Path, who: str, entry: ExecEntry, cluster_info: ClusterInfo) -> PluginCommand:
    if not entry.command:
        raise KubeconfigError(f"{who} has an exec without a command: name the program to run")
    if entry.api_version not in API_VERSIONS:
        raise KubeconfigError(
            f"{who} has exec.apiVersion {entry.api_version!r}, but it must be {' or '.join(API_VERSIONS)}: "
            f"update {entry.command!r} and let it write the entry anew"
        )
    if any(not variable.name for variable in entry.env or ()):
        raise KubeconfigError(f"{who} has an exec.env entry without a name: give it one")
    return PluginCommand(
        # A bare name is looked for on the PATH, a path is relative to the kubeconfig.
        command=str(path.parent.absolute() / entry.command) if os.sep in entry.command else entry.command,
        api_version=entry.api_version,
        args=entry.args or (),
        env=tuple((variable.name, variable.value) for variable in entry.env or ()),
        install_hint=one_line(entry.install_hint),
        interactive_mode=_mode(who, entry),
        cluster=cluster_info() if entry.provide_cluster_info else None,
    )


def _mode(who: str, entry: ExecEntry) -> InteractiveMode:
    if not entry.interactive_mode and (usual := _MODE_BY_DEFAULT.get(entry.api_version)) is not None:
        return usual
    try:
        return InteractiveMode(entry.interactive_mode)
    except ValueError as error:
        choices = ", ".join(mode.value for mode in InteractiveMode)
        raise KubeconfigError(
            f"{who} has exec.interactiveMode {entry.interactive_mode!r}: choose one of {choices}"
        ) from error


def _impersonation(who: str, user: UserEntry) -> Impersonation | None:
    extra = {key: values for key, values in (user.impersonate_extra or {}).items() if values}
    if user.impersonate:
        return Impersonation(
            user.impersonate, user.impersonate_uid, user.impersonate_groups or (), tuple(sorted(extra.items()))
        )
    if user.impersonate_uid or user.impersonate_groups or extra:
        raise KubeconfigError(f"{who} impersonates a uid, groups or extras without a user: add as")
    return None
