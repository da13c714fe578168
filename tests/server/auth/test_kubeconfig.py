"""The kubeconfig."""

from base64 import b64decode

import yaml

from mooring.server.auth.server_files import kubeconfig, kubeconfig_text


def test_a_client_finds_server_authority_and_token() -> None:
    config = kubeconfig(server="https://127.0.0.1:6443", authority=b"-----BEGIN", token="secret")
    read = yaml.safe_load(kubeconfig_text(config))
    assert (read["kind"], read["apiVersion"]) == ("Config", "v1")
    context = {entry["name"]: entry["context"] for entry in read["contexts"]}[read["current-context"]]
    cluster = {entry["name"]: entry["cluster"] for entry in read["clusters"]}[context["cluster"]]
    user = {entry["name"]: entry["user"] for entry in read["users"]}[context["user"]]
    assert cluster["server"] == "https://127.0.0.1:6443"
    assert b64decode(cluster["certificate-authority-data"]) == b"-----BEGIN"
    assert user == {"token": "secret"}
