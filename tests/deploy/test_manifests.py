"""The manifests of `deploy/` are consistent: flags, accounts, ports, images, files.

Whether kube-apiserver accepts them is tested in `tests/conformance`.
"""

import re
import subprocess
import sys

import pytest
from tools.generate_deploy import installation

from mooring import __version__
from mooring.cli.main import main
from mooring.hostpath.records import DRIVER_NAME
from mooring.provisioner.capacity.objects import PublisherIdentity, managed_by
from mooring.provisioner.capacity.publisher import record_name
from mooring.provisioner.settings import lease_name
from support.manifests import DEPLOY, FILES, KUSTOMIZATIONS, Body, Container, containers, documents, objects, workloads

CONTAINERS = [pytest.param(container, id=container.name) for container in containers()]
WORKLOADS = [pytest.param(body, id=body["metadata"]["name"]) for body in workloads()]


@pytest.mark.req("T32.installed")
def test_roles_match_the_code() -> None:
    subprocess.run([sys.executable, "-m", "tools.generate_deploy", "--check"], cwd=DEPLOY.parent, check=True)


def test_kustomizations_list_exactly_the_files() -> None:
    named = {
        (path.parent / part).resolve()
        for path in KUSTOMIZATIONS
        for field in ("resources", "components")
        for part in documents(path)[0].get(field, ())
    }
    assert {path for path in named if not path.exists()} == set()
    assert {path for path in FILES if path.resolve() not in named} == set()


def test_all_kustomization_includes_every_component() -> None:
    [everything] = documents(DEPLOY / "everything" / "kustomization.yaml")
    parts = {f"../components/{path.name}" for path in (DEPLOY / "components").iterdir()}
    # It names the namespace in a field that `namespace:` of an overlay does not change.
    assert set(everything["components"]) == parts - {"../components/flow-control"}


def test_the_controllers_are_not_installed_by_default() -> None:
    """Two PV controllers would act on the same claims."""
    for name in ("scheduler", "default"):
        [overlay] = documents(DEPLOY / name / "kustomization.yaml")
        assert "../components/controller" not in overlay["components"]


@pytest.mark.parametrize("container", CONTAINERS)
def test_command_accepts_the_flags(container: Container) -> None:
    command, *arguments = container.arguments
    known = main.get_command(main.make_context("mooring", ["--help"], resilient_parsing=True), command)
    assert known is not None, f"there is no mooring {command}"
    context = known.make_context(command, arguments)
    assert context.args == []


@pytest.mark.parametrize("body", WORKLOADS)
def test_accounts_exist_and_are_bound(body: Body) -> None:
    account = body["spec"]["template"]["spec"]["serviceAccountName"]
    namespace = body["metadata"]["namespace"]
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    [_] = [each for each in objects("ServiceAccount") if each["metadata"] == {"name": account, "namespace": namespace}]
    for kind in ("ClusterRole", "Role"):
        roles = [each["metadata"]["name"] for each in objects(kind)]
        bindings = [each for each in objects(f"{kind}Binding") if subject in each["subjects"]]
        assert [each["roleRef"]["name"] for each in bindings] == [name for name in roles if name == account]
        assert all(each["subjects"] == [subject] and each["roleRef"]["kind"] == kind for each in bindings)
    assert account in [each["metadata"]["name"] for each in objects("ClusterRole")]


def test_every_role_has_its_process() -> None:
    used = {body["spec"]["template"]["spec"]["serviceAccountName"] for body in workloads()}
    assert {body["metadata"]["name"] for body in objects("ServiceAccount", "ClusterRole", "Role")} == used
    assert {process.account for process in installation.PROCESSES.values()} == used


@pytest.mark.parametrize("container", [param for param in CONTAINERS if "ports" in param.values[0].body])
def test_probes_match_served_endpoints(container: Container) -> None:
    [port] = [each for each in container.body["ports"] if each["name"] == "http"]
    endpoint = (
        container.flag("--http-endpoint") or f"{container.flag('--bind-address')}:{container.flag('--http-port')}"
    )
    # The kubelet comes from outside the pod.
    assert endpoint in (f"0.0.0.0:{port['containerPort']}", f":{port['containerPort']}")
    for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert container.body[probe]["httpGet"] == {"path": path, "port": port["name"]}


@pytest.mark.parametrize("service", objects("Service"), ids=lambda body: str(body["metadata"]["name"]))
def test_services_select_their_pods(service: Body) -> None:
    [behind] = [each for each in containers() if selects(service["spec"]["selector"], each.workload)]
    [served] = service["spec"]["ports"]
    ports = {port["name"]: port["containerPort"] for port in behind.body["ports"]}
    assert ports[served["targetPort"]] == served["port"]


@pytest.mark.parametrize("budget", objects("PodDisruptionBudget"), ids=lambda body: str(body["metadata"]["name"]))
def test_budgets_allow_one_disruption(budget: Body) -> None:
    [behind] = [each for each in workloads() if selects(budget["spec"]["selector"]["matchLabels"], each)]
    assert behind["spec"]["replicas"] > budget["spec"]["minAvailable"]


def selects(labels: dict[str, str], workload: Body) -> bool:
    return bool(labels.items() <= workload["spec"]["template"]["metadata"]["labels"].items())


@pytest.mark.parametrize("container", CONTAINERS)
def test_replicated_instances_elect_a_leader(container: Container) -> None:
    # An extender promises nothing between two calls.
    if container.workload["spec"].get("replicas", 1) > 1 and container.arguments[0] != "extender":
        assert container.flag("--leader-elect") == "true"
        assert container.flag("--leader-elect-resource-namespace") == container.workload["metadata"]["namespace"]
        named = container.flag("--leader-elect-resource-name") or f"mooring-{container.arguments[0]}"
        assert named == container.workload["metadata"]["name"] or container.arguments[0] == "provisioner"


def test_all_components_share_the_hold_namespace() -> None:
    told = {each.flag("--hold-namespace") for each in containers() if each.arguments[0] not in OWN_NAMESPACE}
    assert told == {installation.NAMESPACE}
    assert {body["metadata"].get("namespace", installation.NAMESPACE) for body in objects()} == {installation.NAMESPACE}


#: A provisioner takes the namespace of its pod, a driver has nothing to do with it.
OWN_NAMESPACE = ("provisioner", "csi-hostpath")


@pytest.mark.parametrize("container", CONTAINERS)
def test_containers_have_minimal_host_access(container: Container) -> None:
    pod = container.workload["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container.body["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert container.body["resources"]["limits"].keys() == {"memory"}
    assert container.body["resources"]["requests"].keys() == {"cpu", "memory"}


def test_image_has_this_version() -> None:
    assert {container.body["image"] for container in containers()} == {"mooring"}
    tags = {image["newTag"] for path in KUSTOMIZATIONS for image in documents(path)[0].get("images", ())}
    assert tags == {__version__}


def test_controllers_are_those_with_roles() -> None:
    told = {
        each.workload["metadata"]["name"]: tuple(each.flag("--controllers").split(","))
        for each in containers()
        if each.arguments[0] == "controller"
    }
    optional = {f"mooring-{name}": parts for name, parts in installation.OPTIONAL_CONTROLLERS.items()}
    assert told == {"mooring-controller": tuple(installation.CONTROLLERS)} | optional


#: Right -> the processes that have it, of those that run controllers.
DENIED = [
    ("delete", "pods", {"recovery"}),
    ("delete", "persistentvolumes", {"controller", "recovery"}),
    ("delete", "persistentvolumeclaims", {"recovery"}),
    ("create", "persistentvolumeclaims", {"recovery"}),
    ("patch", "persistentvolumes", {"controller", "recovery", "preset-nodes"}),
    ("patch", "persistentvolumes/status", {"controller"}),
    ("unbind", "persistentvolumeclaims", {"controller"}),
    ("get", "secrets", set()),
    ("create", "pods", set()),
    ("update", "nodes", set()),
]


@pytest.mark.req("T32.least-rights")
@pytest.mark.parametrize(("verb", "resource", "allowed"), DENIED, ids=[f"{row[0]} {row[1]}" for row in DENIED])
def test_only_the_process_that_needs_a_right_has_it(verb: str, resource: str, allowed: set[str]) -> None:
    processes = {"controller": "", **installation.OPTIONAL_CONTROLLERS}
    found = {
        name
        for name in processes
        for role in objects("ClusterRole")
        if role["metadata"]["name"] == f"mooring-{name}"
        for rule in role["rules"]
        if verb in rule["verbs"] and resource in rule["resources"]
    }
    assert found == allowed


def test_recovery_writes_records_in_its_namespace_only() -> None:
    [everywhere] = [role for role in objects("ClusterRole") if role["metadata"]["name"] == "mooring-recovery"]
    assert not [rule for rule in everywhere["rules"] if "configmaps" in rule["resources"]]
    [here] = [role for role in objects("Role") if role["metadata"]["name"] == "mooring-recovery"]
    [records] = [rule for rule in here["rules"] if "configmaps" in rule["resources"]]
    assert records["verbs"] == ["create", "delete", "get", "list", "watch"]


def test_example_role_covers_driver_leases() -> None:
    lease = lease_name(DRIVER_NAME)
    named = installation.PROCESSES["provisioner"].leases
    polled = record_name(PublisherIdentity(DRIVER_NAME, managed_by()))
    assert named == (lease, polled, f"mooring-provisioner-{lease}-announcement")


def test_image_is_unprivileged_and_installs_the_lock() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    [user] = re.findall(r"^USER (\d+):(\d+)$", text, re.MULTILINE)
    pods = {
        (str(spec["runAsUser"]), str(spec["runAsGroup"]))
        for spec in (body["spec"]["template"]["spec"]["securityContext"] for body in workloads())
    }
    assert pods == {user}
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${BASE}"}
    assert re.findall(r"^ARG (.*)$", text, re.MULTILINE) == ["BASE=python:3.11-slim"]
    assert "--require-hashes -r requirements.lock" in text
    assert f"mooring:{__version__}" in text
    assert not re.search(r"https?:", text)


def test_network_policies_allow_only_served_ports() -> None:
    """One policy denies all ingress; the others allow the ports that processes listen on."""
    policies = {body["metadata"]["name"]: body["spec"] for body in objects("NetworkPolicy")}
    denied = policies.pop("mooring-deny-ingress")
    assert denied == {"podSelector": {}, "policyTypes": ["Ingress"]}
    opened = {
        (workload["metadata"]["name"], port["port"])
        for workload in workloads()
        for policy in policies.values()
        if reached(policy["podSelector"], workload)
        for rule in policy["ingress"]
        for port in rule["ports"]
    }
    served = {
        (each.workload["metadata"]["name"], port["name"])
        for each in containers()
        for port in each.body.get("ports", ())
    }
    assert opened == served


def reached(selector: Body, workload: Body) -> bool:
    labels = workload["spec"]["template"]["metadata"]["labels"]
    listed = all(labels.get(one["key"]) in one["values"] for one in selector.get("matchExpressions", ()))
    return listed and bool(selector.get("matchLabels", {}).items() <= labels.items())


def test_every_applied_folder_has_the_policies() -> None:
    for name in ("scheduler", "default", "everything"):
        [overlay] = documents(DEPLOY / name / "kustomization.yaml")
        assert "../components/network-policy" in overlay["components"]


def test_every_verb_of_a_lease_has_the_priority_of_leader_election() -> None:
    [schema] = objects("FlowSchema")
    [rule] = schema["spec"]["rules"]
    [subject], [resource] = rule["subjects"], rule["resourceRules"]
    accounts = {account["metadata"]["namespace"] for account in objects("ServiceAccount")}
    verbs = {
        verb
        for kind in ("Role", "ClusterRole")
        for role in objects(kind)
        for granted in role["rules"]
        if granted.get("resources") == ["leases"]
        for verb in granted["verbs"]
    }

    assert {subject["serviceAccount"]["namespace"]} == accounts
    assert resource["resources"] == ["leases"]
    assert verbs - set(resource["verbs"]) <= {"list", "watch", "delete"}, "requests of leader election"
