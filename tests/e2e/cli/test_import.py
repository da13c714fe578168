"""Manifests of the design drafts: converted with `mooring import`, applied with kubectl, and used in a cluster.

Six nodes in three zones. As in the clouds of the drafts, nodes also have the deprecated zone label.
"""

import os
import subprocess
import sys
from typing import Final

import pytest

from mooring.api import well_known
from support import draft_examples
from support.builders import Body, claim_body, class_body, driver_body, pod_body
from support.e2e.cluster import Cluster
from support.e2e.workspace import Workspace

#: zone-a has node-1 and node-4, zone-b node-2 and node-5, zone-c node-3 and node-6; node-1 is in a rack.
NODES: Final = tuple(f"node-{number}" for number in range(1, 7))
REACHES: Final = {
    "draft-local": ("node-1",),
    "draft-zonal": ("node-1", "node-4"),
    "draft-multi-zonal": ("node-1", "node-2", "node-4", "node-5"),
    "draft-rack": ("node-1",),
}


@pytest.fixture(scope="module")
def cluster_options() -> tuple[str, ...]:
    return ("--nodes", "6", "--zones", "3", "--local-pvs", "0")


@pytest.fixture(scope="module")
def clouds(cluster: Cluster) -> Cluster:
    for node in cluster.items("nodes"):
        labels = node["metadata"]["labels"]
        old = (
            f"{well_known.ZONE_BETA}={labels[well_known.ZONE]}",
            f"{well_known.REGION_BETA}={labels[well_known.REGION]}",
        )
        cluster("label", "node", node["metadata"]["name"], *old)
    cluster("label", "node", "node-1", "example.com/rack=rack-1")
    return cluster


def import_process(*options: str, text: str, cluster: Cluster) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mooring", "import", "-f", "-", *options],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"KUBECONFIG": str(cluster.kubeconfig), "HOME": str(cluster.folder)},
    )


def run_import(*options: str, text: str, cluster: Cluster, check: bool = True) -> str:
    """Standard output of `mooring import`."""
    done = import_process(*options, text=text, cluster=cluster)
    assert (done.returncode == 0) == check, done.stderr
    return done.stdout


def imported(cluster: Cluster, *texts: str, namespace: str) -> None:
    for text in texts:
        manifests = run_import("-n", namespace, text=text, cluster=cluster)
        cluster("apply", "-n", namespace, "-f", "-", stdin=manifests)


@pytest.mark.req("T2.import")
def test_every_example_can_be_applied(clouds: Cluster, workspace: Workspace) -> None:
    imported(clouds, *draft_examples.ALL, namespace=workspace.name)
    output = clouds("get", "pv,sc", "-o", "name")
    for name in (*REACHES, "draft-labelled", "draft-standard", "draft-fancy", "draft-regional", "draft-one-zone"):
        assert f"/{name}\n" in output + "\n"
    assert len(workspace.items("csistoragecapacities")) == 6
    clouds("delete", "pv", *REACHES, "draft-labelled")
    clouds("delete", "sc", *(f"draft-{name}" for name in ("standard", "zonal", "regional", "one-zone", "fancy")))
    workspace("delete", "pod/draft-pod", "pvc/draft-claim")


@pytest.mark.req("T2.nodes")
def test_imported_volumes_are_used_on_exactly_their_nodes(clouds: Cluster, workspace: Workspace) -> None:
    imported(
        clouds,
        draft_examples.LOCAL,
        draft_examples.ZONAL,
        draft_examples.MULTI_ZONAL,
        draft_examples.MULTI_LABEL,
        namespace=workspace.name,
    )
    visitors: list[Body] = [class_body(name="draft-static", binding_mode="Immediate")]
    for volume in REACHES:
        visitors.append(claim_body(name=volume, namespace="", storage_class="draft-static", volume=volume, size="1Gi"))
        visitors += [
            pod_body(name=f"{volume}-{node}", namespace="", claims=[volume], node_selector={well_known.HOSTNAME: node})
            for node in NODES
        ]
    workspace.apply(*visitors)
    welcome = {f"{volume}-{node}" for volume, nodes in REACHES.items() for node in nodes}
    workspace.wait_ready(*welcome)
    refused = workspace.wait_refused(
        len(REACHES) * len(NODES) - len(welcome), "1 node(s) didn't match PersistentVolume's node affinity"
    )
    assert welcome.isdisjoint(refused)


@pytest.mark.req("T19.runs")
def test_zonal_example_runs_with_its_volume(clouds: Cluster, workspace: Workspace) -> None:
    imported(clouds, draft_examples.STANDARD, draft_examples.CLAIM, namespace=workspace.name)
    workspace.wait_event("pvc/draft-claim", "WaitForFirstConsumer", "waiting for first consumer")
    imported(clouds, draft_examples.POD, namespace=workspace.name)
    workspace.wait_ready("draft-pod")
    node = clouds.item("node", workspace.node_of("draft-pod"))
    volume = clouds.item("pv", workspace.item("pvc", "draft-claim")["spec"]["volumeName"])
    assert "gcePersistentDisk" in volume["spec"]
    [term] = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    [place] = term["matchExpressions"]
    assert place["key"] in (well_known.ZONE, well_known.ZONE_BETA)
    assert place["values"] == [node["metadata"]["labels"][well_known.ZONE]]


@pytest.mark.req("T4.drafts", "T18.one-zone")
def test_draft_classes_provision_in_their_topology(clouds: Cluster, workspace: Workspace) -> None:
    classes = draft_examples.ZONAL_CLASS, draft_examples.MULTI_ZONAL_CLASS, draft_examples.ONE_ZONE_CLASS
    imported(clouds, *classes, namespace=workspace.name)
    names = "draft-zonal", "draft-regional", "draft-one-zone"
    workspace.apply(*(claim_body(name=name, namespace="", storage_class=name) for name in names))
    workspace.wait_bound("draft-zonal", "draft-regional")
    for name, allowed, count in (("draft-zonal", "ab", 1), ("draft-regional", "abc", 2)):
        volume = clouds.item("pv", workspace.item("pvc", name)["spec"]["volumeName"])
        [term] = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        [place] = term["matchExpressions"]
        assert place["key"] == well_known.ZONE_BETA, "as the class spells it"
        assert len(place["values"]) == count
        assert {zone.removeprefix("zone-") for zone in place["values"]} <= set(allowed)
    workspace.wait_event("pvc/draft-one-zone", "ProvisioningFailed", "needs 2 zones in one region")


#: The labels of the draft's multi-label class.
RACKS: Final = {
    "node-1": ("zone-a", "rack-1"),
    "node-2": ("zone-b", "rack-1"),
    "node-3": ("zone-c", "rack-1"),
    "node-4": ("zone-a", "rack-2"),
    "node-5": ("zone-b", "rack-2"),
    "node-6": ("zone-b", "rack-3"),
}


@pytest.mark.req("T4.drafts")
def test_draft_class_with_several_labels_provisions_in_its_racks(clouds: Cluster, workspace: Workspace) -> None:
    """The draft leaves its provisioner open: a stand-in reads the same two labels."""
    for node, (zone, rack) in RACKS.items():
        clouds("label", "node", node, f"zone={zone}", f"rack={rack}")
    stand_in = "rack.standins.mooring.dev\nparameters: {topologyKeys: 'zone,rack'}"
    draft = draft_examples.MULTI_LABEL_CLASS.replace("rack-based-provisioner\nparameters:", stand_in)
    imported(clouds, draft, namespace=workspace.name)
    names = [f"data-{number}" for number in range(6)]
    workspace.apply(*(claim_body(name=name, namespace="", storage_class="draft-fancy") for name in names))
    workspace.wait_bound(*names)
    found = set()
    for name in names:
        volume = clouds.item("pv", workspace.item("pvc", name)["spec"]["volumeName"])
        [term] = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        place = {each["key"]: each["values"] for each in term["matchExpressions"]}
        found.add((*place.pop("zone"), *place.pop("rack")))
        assert place == {}
    assert found == {("zone-a", "rack-1"), ("zone-b", "rack-1"), ("zone-b", "rack-2")}


@pytest.mark.req("C1.converted", "C1.examples")
def test_draft_capacity_objects_determine_the_node(clouds: Cluster, workspace: Workspace) -> None:
    """node-1 has 256G, node-2 has 512G: a claim for 300G leaves one node."""
    imported(clouds, draft_examples.CAPACITIES[0], namespace=workspace.name)
    driver = "hostpath.example.com"
    workspace.apply(
        driver_body(name=driver, tracks_capacity=True),
        class_body(name="draft-some", provisioner=driver),
        claim_body(name="data", namespace="", storage_class="draft-some", size="300G"),
        pod_body(name="web", namespace="", claims=["data"]),
        claim_body(name="much", namespace="", storage_class="draft-some", size="600G"),
        pod_body(name="stuck", namespace="", claims=["much"]),
    )

    def chosen() -> bool:
        return (
            workspace.item("pvc", "data")["metadata"].get("annotations", {}).get(well_known.SELECTED_NODE) == "node-2"
        )

    workspace.wait_for(chosen)
    workspace.wait_unscheduled("stuck", "node(s) did not have enough free storage")


@pytest.mark.req("C1.alternatives")
def test_rejected_alternatives_are_not_applied(clouds: Cluster) -> None:
    named = draft_examples.DRIVER_STATUS.replace("hostpath.example.com", "rejected.example.com")
    for text in (named, draft_examples.POOL):
        assert run_import("--apply", text=text, cluster=clouds, check=False) == ""
    assert "rejected.example.com" not in clouds("get", "csidrivers", "-o", "name")


@pytest.mark.req("T2.apply")
def test_import_can_apply_by_itself(clouds: Cluster, workspace: Workspace) -> None:
    text = draft_examples.STANDARD.replace("draft-standard", "draft-applied")
    options = ("--apply", "-n", workspace.name)
    done = import_process(*options, text=text, cluster=clouds)
    assert (done.returncode, done.stdout) == (0, "storageclass/draft-applied created\n")
    assert done.stderr == "StorageClass/draft-applied: renamed bindingMode to volumeBindingMode\n"
    assert clouds.item("sc", "draft-applied")["volumeBindingMode"] == "WaitForFirstConsumer"
    more = f"{text}allowVolumeExpansion: true\n"
    assert run_import(*options, text=more, cluster=clouds) == "storageclass/draft-applied configured\n"
    assert clouds.item("sc", "draft-applied")["allowVolumeExpansion"] is True
    claim = draft_examples.CLAIM.replace("draft-standard", "draft-applied")
    assert run_import(*options, text=claim, cluster=clouds) == "persistentvolumeclaim/draft-claim created\n"
    assert workspace.item("pvc", "draft-claim")["spec"]["storageClassName"] == "draft-applied"


@pytest.mark.req("T2.strict-server")
@pytest.mark.parametrize(
    ("draft", "validate", "why"),
    [
        pytest.param(draft_examples.LOCAL, "strict", 'unknown field "metadata.Name"', id="Go's field names"),
        pytest.param(draft_examples.LOCAL, "ignore", "name or generateName is required", id="no name"),
        pytest.param(draft_examples.LABELLED, "strict", '"spec.gcePersistentDisk.diskName"', id="disk source"),
        pytest.param(draft_examples.LABELLED, "ignore", "spec.accessModes: Required value", id="no access modes"),
        pytest.param(draft_examples.STANDARD, "strict", "bindingMode", id="binding mode"),
        pytest.param(draft_examples.STANDARD, "ignore", "bindingMode: Forbidden", id="binding mode, fields unchecked"),
        pytest.param(
            draft_examples.POD.replace("  ...\n", ""), "ignore", "spec.containers: Required value", id="no containers"
        ),
        pytest.param(
            draft_examples.CAPACITIES[0], "strict", 'no matches for kind "CSIStorageCapacity"', id="alpha API"
        ),
        pytest.param(
            draft_examples.CAPACITIES[0].replace("v1alpha1", "v1"), "strict", 'unknown field "spec"', id="capacity spec"
        ),
    ],
)
def test_server_rejects_draft_objects(clouds: Cluster, draft: str, validate: str, why: str) -> None:
    output = clouds("create", f"--validate={validate}", "-f", "-", stdin=draft, check=False)
    assert why in output
    assert "created" not in output
