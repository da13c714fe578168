from pathlib import Path

import pytest

from mooring.client import kubeconfig
from mooring.client.access import Access
from mooring.client.kubeconfig import Choice, KubeconfigError
from support.certificates import Pair, a_pair
from support.kubeconfigs import content, inline, load, write


@pytest.fixture(scope="module")
def pair() -> Pair:
    return a_pair()


# --- where it looks ---


def test_a_file_named_on_the_command_line_wins(tmp_path: Path) -> None:
    named = write(tmp_path / "named", content(name="named"))
    write(tmp_path / ".kube" / "config", content(name="usual"))
    environ = {"KUBECONFIG": str(write(tmp_path / "env", content(name="env")))}
    assert kubeconfig.load(str(named), environ=environ, home=tmp_path).server == "https://named:6443"
    assert kubeconfig.load(environ=environ, home=tmp_path).server == "https://env:6443"
    assert kubeconfig.load(environ={}, home=tmp_path).server == "https://usual:6443"


def test_of_several_files_the_first_to_say_something_wins(tmp_path: Path) -> None:
    first = write(tmp_path / "first", content(name="a", current="b") | {"users": None})
    second = write(tmp_path / "second", content(name="b", user={"token": "second"}))
    third = write(tmp_path / "third", content(name="a", cluster={"server": "https://other"}, user={"token": "t"}))
    environ = {"KUBECONFIG": f"{first}:{tmp_path / 'missing'}:{second}:{third}"}
    chosen = kubeconfig.load(environ=environ, home=tmp_path)
    assert (chosen.server, chosen.token) == ("https://b:6443", "second")
    other = kubeconfig.load(environ=environ, home=tmp_path, choice=Choice(context="a"))
    assert (other.server, other.token) == ("https://a:6443", "t")


def test_a_cluster_and_a_user_may_be_chosen_beside_the_context(tmp_path: Path) -> None:
    here, there = content(name="here", user={"token": "h"}), content(name="there", user={"token": "t"})
    both = {key: here[key] + there[key] for key in ("clusters", "users", "contexts")}
    config = write(tmp_path / "config", here | both)
    for choice, server, token in (
        (Choice(cluster="there"), "https://there:6443", "h"),
        (Choice(user="there"), "https://here:6443", "t"),
        (Choice("there", user="here"), "https://there:6443", "h"),
    ):
        chosen = kubeconfig.load(str(config), choice=choice, environ={})
        assert (chosen.server, chosen.token) == (server, token)
    write(config, both)
    chosen = kubeconfig.load(str(config), choice=Choice(cluster="there", user="there"), environ={})
    assert (chosen.server, chosen.token) == ("https://there:6443", "t"), "a cluster and a user need no context"


def test_inside_a_pod_the_service_account_is_used(tmp_path: Path, pair: Pair) -> None:
    account = tmp_path / "account"
    write(account / "token", "secret\n")
    write(account / "ca.crt", pair.certificate)
    write(account / "namespace", "shop")
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    found = kubeconfig.load(environ=environ, home=tmp_path, service_account=account)
    assert found == Access(
        "https://10.0.0.1:443", namespace="shop", authority=pair.certificate, token_file=account / "token"
    )
    proxied = environ | {"HTTPS_PROXY": "http://proxy:3128"}
    assert kubeconfig.load(environ=proxied, home=tmp_path, service_account=account).proxy == "http://proxy:3128"
    with pytest.raises(KubeconfigError, match="no kubeconfig was found"):
        kubeconfig.load(choice=Choice("here"), environ=environ, home=tmp_path, service_account=account)
    ipv6 = environ | {"KUBERNETES_SERVICE_HOST": "fd00::1"}
    assert kubeconfig.load(environ=ipv6, home=tmp_path, service_account=account).server == "https://[fd00::1]:443"


@pytest.mark.parametrize(
    ("path", "environ", "text"),
    [
        pytest.param("", {}, "no kubeconfig was found: name one with --kubeconfig", id="nothing anywhere"),
        pytest.param("missing", {}, "cannot read missing: No such file or directory", id="named file missing"),
        pytest.param("", {"KUBECONFIG": "missing"}, "KUBECONFIG names missing, which does not exist", id="environment"),
    ],
)
def test_it_says_what_was_not_found(tmp_path: Path, path: str, environ: dict[str, str], text: str) -> None:
    with pytest.raises(KubeconfigError, match=text):
        kubeconfig.load(path, environ=environ, home=tmp_path, service_account=tmp_path)


# --- what it reads ---


def test_everything_may_be_inline(tmp_path: Path, pair: Pair) -> None:
    body = content(
        cluster={"certificate-authority-data": inline(pair.certificate), "tls-server-name": "kubernetes"},
        user={"client-certificate-data": inline(pair.certificate), "client-key-data": inline(pair.key), "token": "t"},
        context={"namespace": "shop"},
    )
    assert load(write(tmp_path / "config", body)) == Access(
        "https://here:6443",
        namespace="shop",
        authority=pair.certificate,
        server_name="kubernetes",
        certificate=pair.certificate,
        key=pair.key,
        token="t",
    )


def test_files_are_relative_to_the_kubeconfig_that_names_them(tmp_path: Path, pair: Pair) -> None:
    write(tmp_path / "keys" / "ca.crt", pair.certificate)
    write(tmp_path / "keys" / "me.crt", pair.certificate)
    write(tmp_path / "keys" / "me.key", pair.key)
    write(tmp_path / "keys" / "token", "secret")
    body = content(
        cluster={"certificate-authority": "keys/ca.crt"},
        user={"client-certificate": "keys/me.crt", "client-key": "keys/me.key", "tokenFile": "keys/token"},
    )
    found = load(write(tmp_path / "config", body))
    assert (found.authority, found.certificate, found.key) == (pair.certificate, pair.certificate, pair.key)
    assert found.token_file == tmp_path / "keys" / "token"


def test_inline_wins_over_a_file(tmp_path: Path, pair: Pair) -> None:
    body = content(cluster={"certificate-authority": "missing", "certificate-authority-data": inline(pair.certificate)})
    assert load(write(tmp_path / "config", body)).authority == pair.certificate


def test_an_unchecked_server_and_a_path_in_the_address(tmp_path: Path) -> None:
    body = content(cluster={"server": "https://host/k8s/one/", "insecure-skip-tls-verify": True})
    found = load(write(tmp_path / "config", body))
    assert (found.server, found.insecure) == ("https://host/k8s/one", True)


def test_compression_may_be_unwanted(tmp_path: Path) -> None:
    assert load(write(tmp_path / "config", content())).compression
    assert not load(write(tmp_path / "config", content(cluster={"disable-compression": True}))).compression


def test_the_clusters_own_proxy_comes_before_the_environments(tmp_path: Path) -> None:
    direct = write(tmp_path / "direct", content())
    proxied = write(tmp_path / "proxied", content(cluster={"proxy-url": "http://me:pw@mine:1"}))
    environ = {"HTTPS_PROXY": "yours:2", "NO_PROXY": "there"}
    assert load(direct).proxy == ""
    assert load(direct, **environ).proxy == "http://yours:2"
    assert load(direct, **environ | {"NO_PROXY": "here"}).proxy == ""
    assert load(proxied, **environ | {"NO_PROXY": "here"}).proxy == "http://me:pw@mine:1"


def test_the_environments_proxy_may_be_unusable(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=r"^the environment variable HTTPS_PROXY is a SOCKS proxy"):
        load(write(tmp_path / "config", content()), HTTPS_PROXY="socks5://p")


def test_a_context_without_a_user_is_anonymous(tmp_path: Path) -> None:
    found = load(write(tmp_path / "config", content(context={"user": ""})))
    assert (found.token, found.certificate) == ("", "")


BROKEN = "-----BEGIN CERTIFICATE-----\nbm90IG9uZQ==\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param("a: [", "is not YAML", id="not yaml"),
        pytest.param("[" * 50_000, "nested more than 200 deep", id="nested without end"),
        pytest.param("a: &a [*a]", "contains itself", id="a value that contains itself"),
        pytest.param("- a\n- b\n", "is not a kubeconfig", id="a list"),
        pytest.param(
            content() | {"users": [{"user": {}}]}, "is not a kubeconfig: .* `name`", id="a user without a name"
        ),
        pytest.param(content(user={"token": 5}), r"Expected `str`, got `int` - at `\$.users", id="a wrong type"),
        pytest.param(content(current=""), "has no current-context: choose one with --context", id="no context"),
        pytest.param(content(current="gone"), "has no context 'gone'; it has: here", id="unknown context"),
        pytest.param(content(context={"cluster": "gone"}), "has no cluster 'gone'", id="unknown cluster"),
        pytest.param(content(context={"user": "gone"}), "has no user 'gone'", id="unknown user"),
        pytest.param(content(cluster={"server": "host:6443"}), "not an address: write it like https", id="no scheme"),
        pytest.param(
            content(cluster={"certificate-authority": "gone.crt"}), "cannot read .*gone.crt", id="no such file"
        ),
        pytest.param(content(cluster={"certificate-authority-data": "%"}), "is not base64", id="not base64"),
        pytest.param(content(cluster={"certificate-authority-data": inline(BROKEN)}), "is broken", id="no certificate"),
        pytest.param(content(cluster={"server": "https://host:port"}), "not an address", id="no port"),
        pytest.param(content(cluster={"server": "https://"}), "not an address", id="no host"),
        pytest.param(content(context={"cluster": ""}), "names no cluster: set one in the file", id="no cluster"),
        pytest.param(
            content(cluster={"certificate-authority-data": inline("x"), "insecure-skip-tls-verify": True}),
            "a certificate-authority and insecure-skip-tls-verify: remove one",
            id="trust and none",
        ),
        pytest.param(
            content(cluster={"proxy-url": "socks5://p:1"}),
            r"cluster 'here' has a proxy-url that is a SOCKS proxy \(socks5\), which Mooring cannot use",
            id="socks",
        ),
        pytest.param(
            content(cluster={"proxy-url": "p:1"}), "write it like http://host:3128", id="proxy without scheme"
        ),
    ],
)
def test_errors_are_one_line(tmp_path: Path, body: object, text: str) -> None:
    with pytest.raises(KubeconfigError, match=text) as error:
        load(write(tmp_path / "config", body))
    assert "\n" not in str(error.value)
