"""Lines 77-80: authentication and authorization."""

import json
import ssl
import urllib.request

import pytest

from mooring.client.kubeconfig import from_files
from support.checklist.bare_server import BareServer
from support.checklist.wire import Wire
from support.e2e.kubectl import Kubectl


@pytest.fixture
def strangers(server: BareServer) -> Wire:
    access = from_files([server.kubeconfig])
    return Wire(access.server, access.authority, "wrong")


def test_77_wrong_token(strangers: Wire) -> None:
    assert strangers("GET", "/api/v1/pods").code == 401


def test_77_no_rights(kubectl: Kubectl) -> None:
    refused = kubectl.refusal("get", "pods", "--as=alice")
    assert 'Error from server (Forbidden): pods is forbidden: User "alice" cannot list resource "pods"' in refused
    assert 'in API group "" in the namespace "default"' in refused


def test_78_questions_about_rights(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert kubectl("auth", "can-i", "create", "pods", "--as=alice", check=False).startswith("no")
    assert "*.*" in kubectl("auth", "can-i", "--list")
    assert "Username" in kubectl("auth", "whoami")


def test_79_tokens(kubectl: Kubectl, server: BareServer, space: str) -> None:
    kubectl("-n", space, "create", "serviceaccount", "robot")
    token = kubectl("-n", space, "create", "token", "robot").strip()
    assert token.count(".") == 2
    access = from_files([server.kubeconfig])
    account = Wire(access.server, access.authority, token)
    refused = account("GET", "/api/v1/pods")
    assert refused.code == 403
    assert f'User "system:serviceaccount:{space}:robot"' in refused.json["message"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_80_names_of_the_server(server: BareServer, host: str) -> None:
    access = from_files([server.kubeconfig])
    url = access.server.replace("127.0.0.1", host)
    handler = urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=access.authority))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), handler)
    with opener.open(f"{url}/version", timeout=10) as response:
        assert json.load(response)["minor"] == "37"


def test_80_another_authority_is_not_trusted(server: BareServer) -> None:
    with pytest.raises(urllib.error.URLError, match="certificate verify failed"):
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{server.url}/version", timeout=10)
