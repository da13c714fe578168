"""Who a kubeconfig says one is."""

from pathlib import Path
from typing import Any

import pytest

from mooring.client.access import Access, Impersonation
from mooring.client.exec_plugin import API_VERSIONS, InteractiveMode, PluginCommand
from mooring.client.kubeconfig import KubeconfigError
from support.certificates import Pair, a_pair
from support.kubeconfigs import content, inline, load, write

V1, V1BETA1 = API_VERSIONS


@pytest.fixture(scope="module")
def pair() -> Pair:
    return a_pair()


def exec_entry(command: str = "aws", **entry: object) -> dict[str, Any]:
    return {"exec": {"command": command, "apiVersion": V1, "interactiveMode": "Never"} | entry}


def as_user(tmp_path: Path, user: dict[str, Any], **cluster: object) -> Access:
    return load(write(tmp_path / "config", content(user=user, cluster=cluster)))


def test_a_password(tmp_path: Path) -> None:
    found = as_user(tmp_path, {"username": "me", "password": "secret"})
    assert (found.username, found.password) == ("me", "secret")


def test_impersonation(tmp_path: Path) -> None:
    user = {
        "as": "jane",
        "as-uid": "u1",
        "as-groups": ["a", "b"],
        "as-user-extra": {"scopes": ["view", "edit"], "empty": []},
    }
    assert as_user(tmp_path, user).impersonation == Impersonation(
        "jane", "u1", ("a", "b"), (("scopes", ("view", "edit")),)
    )
    assert as_user(tmp_path, {"as": "jane", "as-groups": None}).impersonation == Impersonation("jane")


# --- credential plugins ---


def test_a_plugin_with_everything(tmp_path: Path, pair: Pair) -> None:
    user = exec_entry(
        args=["eks", "get-token"],
        env=[{"name": "AWS_PROFILE", "value": "prod"}],
        apiVersion=V1BETA1,
        installHint="Get it\n  from the \x1b[1mshop\x1b[0m.",
        interactiveMode="Always",
        provideClusterInfo=True,
    )
    cluster = {
        "certificate-authority-data": inline(pair.certificate),
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:1",
        "extensions": [
            {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}},
            {"name": "example.com/other", "extension": 5},
        ],
    }
    assert as_user(tmp_path, user, **cluster).plugin == PluginCommand(
        command="aws",
        api_version=V1BETA1,
        args=("eks", "get-token"),
        env=(("AWS_PROFILE", "prod"),),
        install_hint="Get it from the [1mshop [0m.",
        interactive_mode=InteractiveMode.ALWAYS,
        cluster={
            "server": "https://here:6443",
            "tls-server-name": "kubernetes",
            "certificate-authority-data": inline(pair.certificate),
            "proxy-url": "http://proxy:1",
            "config": {"audience": "x"},
        },
    )


def test_a_plugin_gets_the_cluster_only_with_provide_cluster_info(tmp_path: Path) -> None:
    plugin = as_user(tmp_path, exec_entry(args=None, env=None)).plugin
    assert plugin == PluginCommand("aws", V1, interactive_mode=InteractiveMode.NEVER)


@pytest.mark.parametrize(
    ("command", "want"),
    [
        pytest.param("aws", "aws", id="a name, for the PATH"),
        pytest.param("./bin/login", "{folder}/bin/login", id="beside the kubeconfig"),
        pytest.param("bin/login", "{folder}/bin/login", id="below the kubeconfig"),
        pytest.param("../login", "{folder}/../login", id="above the kubeconfig"),
        pytest.param("/usr/bin/login", "/usr/bin/login", id="an absolute path"),
    ],
)
def test_where_a_plugin_is_looked_for(tmp_path: Path, command: str, want: str) -> None:
    plugin = as_user(tmp_path, exec_entry(command)).plugin
    assert plugin is not None
    assert plugin.command == want.format(folder=tmp_path)


def test_a_plugin_beside_a_relative_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "config", content(user=exec_entry("./login")))
    plugin = load(Path("config")).plugin
    assert plugin is not None
    assert plugin.command == f"{tmp_path}/login"


def test_the_older_version_has_a_mode_by_default(tmp_path: Path) -> None:
    plugin = as_user(tmp_path, exec_entry(apiVersion=V1BETA1, interactiveMode="")).plugin
    assert plugin is not None
    assert plugin.interactive_mode is InteractiveMode.IF_AVAILABLE


def test_a_plugin_is_used_only_without_other_credentials(tmp_path: Path, pair: Pair) -> None:
    (tmp_path / "token").write_text("t")
    certificate = {"client-certificate-data": inline(pair.certificate), "client-key-data": inline(pair.key)}
    for other in ({"token": "t"}, {"tokenFile": "token"}, {"username": "me"}, certificate):
        assert as_user(tmp_path, exec_entry() | other).plugin is None


# --- what is wrong ---


@pytest.mark.parametrize(
    ("user", "text"),
    [
        pytest.param(
            {"client-key-data": inline("k")}, "only one of client-certificate and client-key", id="half a pair"
        ),
        pytest.param({"tokenFile": "gone"}, "cannot read .*gone: No such file", id="no token file"),
        pytest.param(
            {"auth-provider": {"name": "oidc"}}, "an auth-provider, .*: use exec, a token", id="auth provider"
        ),
        pytest.param({"token": "t", "username": "me"}, "both a token and a username: keep one", id="two ways"),
        pytest.param({"as-groups": ["a"]}, "without a user: add as", id="groups without a user"),
        pytest.param({"as-user-extra": {"a": ["b"]}}, "without a user: add as", id="extras without a user"),
        pytest.param(exec_entry(""), "an exec without a command: name the program", id="no command"),
        pytest.param(exec_entry(apiVersion=""), "has exec.apiVersion '', but it must be", id="no version"),
        pytest.param(
            exec_entry(apiVersion="client.authentication.k8s.io/v1alpha1"),
            f"k8s.io/v1alpha1', but it must be {V1} or {V1BETA1}: update 'aws' and have it write the entry again",
            id="removed version",
        ),
        pytest.param(exec_entry(interactiveMode=""), "interactiveMode '': choose one of Never", id="no mode"),
        pytest.param(exec_entry(interactiveMode="Maybe"), "interactiveMode 'Maybe': choose one of", id="other mode"),
        pytest.param(exec_entry(env=[{"name": "", "value": "x"}]), "without a name", id="nameless variable"),
        pytest.param(exec_entry(env=[{"value": "x"}]), "is not a kubeconfig: .* `name`", id="variable without a name"),
        pytest.param({"exec": "aws"}, r"is not a kubeconfig: .*exec", id="exec that is none"),
    ],
)
def test_errors_are_one_line(tmp_path: Path, user: dict[str, Any], text: str) -> None:
    with pytest.raises(KubeconfigError, match=text) as error:
        as_user(tmp_path, user)
    assert "\n" not in str(error.value)


def test_a_key_of_another_certificate_is_noticed(tmp_path: Path, pair: Pair) -> None:
    user = {"client-certificate-data": inline(pair.certificate), "client-key-data": inline(a_pair().key)}
    with pytest.raises(KubeconfigError, match="do not match"):
        as_user(tmp_path, user)
