"""Access control with the real kubectl: permissions, tokens and impersonation."""

import json
import os
import re
import stat
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mooring.server.auth.certificates import KeyPair
from support.builders import pod_body
from support.e2e.cluster import Cluster
from support.e2e.kubectl import Kubectl
from support.e2e.workspace import Workspace


def test_auth_can_i(workspace: Workspace) -> None:
    assert workspace("auth", "can-i", "create", "pods").strip() == "yes"
    assert workspace("auth", "can-i", "create", "pods", "--as=alice", check=False).strip() == "no"
    assert workspace("auth", "can-i", "get", "/livez", "--as=alice").strip() == "yes"
    workspace("create", "role", "reader", "--verb=get,list", "--resource=pods,configmaps", "--resource-name=one")
    workspace("create", "rolebinding", "reader", "--role=reader", "--user=alice")
    listed = workspace("auth", "can-i", "--list", "--as=alice")
    assert [line.split() for line in listed.splitlines() if line.startswith("pods")] == [
        ["pods", "[]", "[one]", "[get", "list]"]
    ]


def test_auth_whoami(cluster: Cluster) -> None:
    assert "mooring-admin" in cluster("auth", "whoami")
    output = json.loads(cluster("auth", "whoami", "-o", "json", "--as=alice", "--as-group=dev", "--as-uid=7"))
    assert output["status"]["userInfo"] == {"username": "alice", "uid": "7", "groups": ["dev", "system:authenticated"]}


def test_role_changes_take_effect_at_once(workspace: Workspace) -> None:
    refused = workspace("get", "pods", "--as=alice", check=False)
    assert refused.strip() == (
        'Error from server (Forbidden): pods is forbidden: User "alice" cannot list resource "pods" in API group "" '
        f'in the namespace "{workspace.name}"'
    )
    workspace("create", "rolebinding", "viewer", "--clusterrole=view", "--user=alice")
    assert "No resources found" in workspace("get", "pods", "--as=alice")
    assert "Forbidden" in workspace("get", "secrets", "--as=alice", check=False)
    assert "forbidden" in workspace("create", "configmap", "mine", "--as=alice", check=False)
    assert "Forbidden" in workspace.cluster("get", "pods", "-n", "default", "--as=alice", check=False)
    workspace("delete", "rolebinding", "viewer")
    assert "Forbidden" in workspace("get", "pods", "--as=alice", check=False)


def test_group_and_aggregated_role(workspace: Workspace) -> None:
    name = workspace.name
    workspace("create", "clusterrole", f"{name}-part", "--verb=list", "--resource=secrets")
    workspace("label", "clusterrole", f"{name}-part", "rbac.authorization.k8s.io/aggregate-to-view=true")
    workspace("create", "rolebinding", "devs", "--clusterrole=view", "--group=dev")
    workspace.wait_for(lambda: "No resources" in workspace("get", "secrets", "--as=bob", "--as-group=dev", check=False))
    assert "Forbidden" in workspace("get", "secrets", "--as=bob", check=False)
    workspace("delete", "clusterrole", f"{name}-part")


def test_tokens_of_service_accounts(workspace: Workspace) -> None:
    workspace("create", "serviceaccount", "bot")
    token = workspace("create", "token", "bot", "--duration=10m").strip()
    assert with_token(workspace, token, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}") == (
        f"system:serviceaccount:{workspace.name}:bot"
    )
    assert "Forbidden" in with_token(workspace, token, "get", "pods")
    workspace("create", "rolebinding", "bot", "--clusterrole=view", f"--serviceaccount={workspace.name}:bot")
    assert "No resources found" in with_token(workspace, token, "get", "pods")
    workspace("delete", "serviceaccount", "bot")
    assert "Unauthorized" in with_token(workspace, token, "get", "pods")


def test_every_namespace_has_a_default_account(workspace: Workspace) -> None:
    workspace.wait_for(lambda: "default" in workspace("get", "serviceaccounts", "-o", "name"))
    assert workspace("create", "token", "default").count(".") == 2


def token_config(workspace: Workspace, token: str) -> Path:
    """A kubeconfig with this token only."""
    config = Path(workspace.cluster.kubeconfig).read_text()
    server = next(line.split()[-1] for line in config.splitlines() if line.strip().startswith("server:"))
    authority = workspace.cluster(
        "config", "view", "--raw", "-o", "jsonpath={.clusters[0].cluster.certificate-authority-data}"
    )
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": workspace.name}}],
        "current-context": "x",
    }
    file = workspace.cluster.folder / f"{workspace.name}-token-config"
    file.write_text(json.dumps(body))
    return file


def with_token(workspace: Workspace, token: str, *arguments: str) -> str:
    """kubectl with this token only."""
    file = token_config(workspace, token)
    done = subprocess.run(
        ["kubectl", "--request-timeout=20s", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"KUBECONFIG": str(file), "HOME": str(workspace.cluster.folder)},
    )
    return done.stdout + done.stderr


def test_wrong_token_is_unauthorized(workspace: Workspace) -> None:
    assert "Unauthorized" in with_token(workspace, "wrong", "get", "pods")


def test_privilege_escalation_is_rejected(workspace: Workspace) -> None:
    workspace("create", "rolebinding", "carol", "--clusterrole=admin", "--user=carol")
    workspace("create", "role", "reader", "--verb=get", "--resource=pods", "--as=carol")
    assert "is attempting to grant RBAC permissions not currently held" in workspace(
        "create", "role", "nodes", "--verb=get", "--resource=nodes", "--as=carol", check=False
    )
    assert "is attempting to grant RBAC permissions not currently held" in workspace(
        "create", "rolebinding", "root", "--clusterrole=cluster-admin", "--user=carol", "--as=carol", check=False
    )


def test_impersonation_needs_permission(workspace: Workspace) -> None:
    refused = workspace("get", "pods", "--as=alice", "--as-group=dev", check=False)
    assert "Forbidden" in refused
    workspace("create", "serviceaccount", "low")
    token = workspace("create", "token", "low").strip()
    output = with_token(workspace, token, "get", "pods", "--as=alice")
    assert 'cannot impersonate resource "users" in API group "" at the cluster scope' in output


@pytest.mark.req("T32.identities")
def test_every_component_has_its_own_minimal_identity(workspace: Workspace) -> None:
    """All other tests of this folder show that the permissions are sufficient."""
    roles = workspace("get", "clusterroles", "-o", "name")
    accounts = workspace.cluster("get", "serviceaccounts", "-n", "kube-system", "-o", "name")
    work = {
        "default-scheduler": ("create pods/binding", "create pods"),
        "persistentvolume-controller": ("patch persistentvolumeclaims/status", "get secrets"),
        "node-agent": ("patch pods/status", "patch persistentvolumes"),
        "statefulset-controller": ("create pods", "create pods/binding"),
        "garbage-collector": ("delete configmaps", "create configmaps"),
        "service-account-controller": ("create serviceaccounts", "create serviceaccounts/token"),
    }
    for component, (needed, forbidden) in work.items():
        assert f"clusterrole.rbac.authorization.k8s.io/mooring:{component}" in roles.split()
        assert f"serviceaccount/mooring-{component}" in accounts.split()
        for asked, response in ((needed, "yes"), (forbidden, "no")):
            verb, resource, subresource = re.split("[ /]", f"{asked}/")[:3]
            output = workspace(
                "auth",
                "can-i",
                verb,
                resource,
                f"--subresource={subresource}",
                f"--as=system:serviceaccount:kube-system:mooring-{component}",
                check=False,
            )
            assert output.split()[0] == response, (component, asked)
    token = workspace.cluster("create", "token", "mooring-default-scheduler", "-n", "kube-system").strip()
    assert "No resources found" in with_token(workspace, token, "get", "pods")
    assert "forbidden" in with_token(workspace, token, "get", "secrets")
    assert "forbidden" in with_token(workspace, token, "create", "configmap", "x")


def test_external_scheduler_works_with_service_account_token(workspace: Workspace, tmp_path: Path) -> None:
    token = workspace.cluster("create", "token", "mooring-default-scheduler", "-n", "kube-system").strip()
    log = tmp_path / "log"
    command = [sys.executable, "-m", "mooring", "scheduler", "--scheduler-name", "second", "--no-http"]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stderr=output, env=os.environ | {"KUBECONFIG": str(token_config(workspace, token))}
        )
    try:
        pod = pod_body(name="p", namespace=workspace.name)
        pod["spec"]["schedulerName"] = "second"
        workspace.apply(pod | {"apiVersion": "v1", "kind": "Pod"})
        workspace.wait_for(lambda: bool(workspace.node_of("p")))
    finally:
        process.terminate()
        process.wait(timeout=30)
    assert "forbidden" not in log.read_text(), log.read_text()


def test_reconciling_roles_from_a_file(workspace: Workspace) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    metadata = {"name": "r", "namespace": workspace.name}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": rules}
    assert "reconciled" in workspace("auth", "reconcile", "-f", "-", stdin=json.dumps(role))
    wider = role | {"rules": [rules[0] | {"verbs": ["list"]}]}
    workspace("auth", "reconcile", "-f", "-", stdin=json.dumps(wider))
    assert {verb for rule in workspace.item("role", "r")["rules"] for verb in rule["verbs"]} == {"get", "list"}


def test_client_certificate_is_an_identity(start_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    data = tmp_path / "data"
    cluster = start_cluster("--data-dir", str(data))
    certificate, key = signed_by(data / "pki", user="dora", group="ops")
    cluster("create", "clusterrolebinding", "ops", "--clusterrole=view", "--group=ops")
    config = json.loads(cluster("config", "view", "--raw", "-o", "json"))
    config["users"][0]["user"] = {"client-certificate-data": certificate, "client-key-data": key}
    file = tmp_path / "doras-config"
    file.write_text(json.dumps(config))
    dora = Kubectl(file)
    output = json.loads(dora("auth", "whoami", "-o", "json"))["status"]["userInfo"]
    assert (output["username"], output["groups"]) == ("dora", ["ops", "system:authenticated"])
    assert "No resources found" in dora("get", "pods")
    assert "orbidden" in dora("get", "secrets", check=False)


def test_tokens_and_roles_survive_a_restart(start_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    cluster = start_cluster("--data-dir", str(tmp_path / "data"))
    space = Workspace(cluster, "default")
    space("create", "serviceaccount", "bot")
    space("create", "serviceaccount", "gone")
    space("create", "rolebinding", "bot", "--clusterrole=view", "--serviceaccount=default:bot")
    space("create", "rolebinding", "alice", "--clusterrole=view", "--user=alice")
    token, ended = (space("create", "token", name).strip() for name in ("bot", "gone"))
    space("delete", "serviceaccount", "gone")
    space("delete", "rolebinding", "alice")
    cluster.stop()
    cluster.start()
    assert "No resources found" in with_token(space, token, "get", "pods")
    assert "Unauthorized" in with_token(space, ended, "get", "pods")
    assert "orbidden" in space("get", "pods", "--as=alice", check=False)


def signed_by(pki: Path, *, user: str, group: str) -> tuple[str, str]:
    """A client certificate and key, as in a kubeconfig."""
    authority = KeyPair.from_pem((pki / "ca.crt").read_bytes(), (pki / "ca.key").read_bytes())
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group), x509.NameAttribute(NameOID.COMMON_NAME, user)]
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(names))
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    private = key.private_bytes(encoding, form, serialization.NoEncryption())
    return b64encode(certificate.public_bytes(encoding)).decode(), b64encode(private).decode()


@pytest.mark.parametrize(
    "file", ["kubeconfig", "data/token", "data/pki/sa.key", "data/pki/ca.key", "data/pki/server.key"]
)
def test_secret_files_are_private(secret_files: Path, file: str) -> None:
    assert stat.S_IMODE((secret_files / file).stat().st_mode) == 0o600


@pytest.fixture(scope="module")
def secret_files(tmp_path_factory: pytest.TempPathFactory, kubectl_on_path: None) -> Path:
    """The files in the data folder of a cluster that was started."""
    folder = tmp_path_factory.mktemp("kept")
    cluster = Cluster(folder, "--data-dir", str(folder / "data"))
    cluster.start()
    cluster.end()
    return folder
