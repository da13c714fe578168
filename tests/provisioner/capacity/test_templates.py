"""Capacity of nodes that do not exist yet: form, lifecycle, and that decisions about existing nodes ignore it."""

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.api import well_known
from mooring.api.kinds import LEASE, NODE, STORAGE_CAPACITY, STORAGE_CLASS
from mooring.api.names import check_dns1123_subdomain
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import OwnerReference
from mooring.api.views.storage import StorageCapacity
from mooring.cli.commands.provisioner import provisioner as command
from mooring.control.component import Component, Context
from mooring.csi.contract import Capacity
from mooring.explain.cluster_objects import ClusterObjects
from mooring.provisioner.capacity.objects import (
    CapacityKey,
    CapacityObjectIndex,
    PublisherIdentity,
    TemplateCapacity,
    changes,
    template_body,
)
from mooring.provisioner.capacity.segment_file import READ_INTERVAL_SECONDS
from mooring.provisioner.capacity.templates import BadCapacityFile, parse_templates, template_value
from mooring.provisioner.component import Provisioner
from mooring.provisioner.settings import NodeDeployment, ProvisionerSettings
from mooring.scheduler import cluster_events
from mooring.volumes.decider import Provisioners
from mooring.volumes.topology import TopologyIndex
from support.builders import a_capacity, a_class, capacity_body, node_body
from support.csi_drivers.recording import DRIVER, KEY, FakeCsiDriver
from support.partial_control_plane import Plane, run_plane
from support.provisioner.cluster import CAPACITY, GI, furnish, plane_of, waiting_class

TEMPLATES = f"""
- nodeGroup: ssd
  topologyKeys: [{KEY}]
  labels: {{topology.kubernetes.io/zone: a}}
  storageClasses:
    made: {{capacity: 100Gi, maximumVolumeSize: 50Gi}}
"""
SEGMENT = ((KEY, "ssd_template"), ("topology.kubernetes.io/zone", "a"))
KEY_OF_MADE = CapacityKey(SEGMENT, "made")
PUBLISHER = PublisherIdentity(DRIVER, "external-provisioner", OwnerReference(name="owner", uid="u"))


@pytest.mark.req("C24.template-nodes")
def test_template_gives_the_segment_and_capacity_of_each_class() -> None:
    assert parse_templates(TEMPLATES) == {KEY_OF_MADE: TemplateCapacity("ssd", Capacity(100 * GI, 50 * GI))}


@pytest.mark.req("C24.template-nodes")
def test_template_value_is_no_node_name() -> None:
    """Drivers use the name of the node, or of its host, as value of their topology key."""
    assert check_dns1123_subdomain(template_value("ssd"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "not a list of node group templates"),
        ("- {nodeGroup: a, topologyKeys: [k], storageClasses: {}, extra: 1}", "extra"),
        ("- {nodeGroup: A_b, topologyKeys: [k], storageClasses: {}}", "node group 'A_b': nodeGroup"),
        (f"- {{nodeGroup: {'a' * 60}, topologyKeys: [k], storageClasses: {{}}}}", "topology value"),
        ("- {nodeGroup: a, topologyKeys: [], storageClasses: {}}", "topologyKeys must name a label"),
        ("- {nodeGroup: a, topologyKeys: ['/'], storageClasses: {}}", "topology key /"),
        (
            "- {nodeGroup: a, topologyKeys: [k], labels: {k: v}, storageClasses: {}}",
            "k is in topologyKeys and in label",
        ),
        ("- {nodeGroup: a, topologyKeys: [k], labels: {l: '-'}, storageClasses: {}}", "label l: "),
        ("- {nodeGroup: a, topologyKeys: [k], storageClasses: {c: {capacity: many}}}", "class c: "),
        ("- {nodeGroup: a, topologyKeys: [k], storageClasses: {c: {capacity: '-1'}}}", "class c: negative capacity"),
        (2 * "- {nodeGroup: a, topologyKeys: [k], storageClasses: {}}\n", "listed twice"),
    ],
)
def test_malformed_template_is_rejected_with_its_problem(text: str, problem: str) -> None:
    with pytest.raises(BadCapacityFile, match=problem):
        parse_templates(text)


@pytest.mark.req("C24.template-nodes")
def test_object_of_a_template_has_the_labels_and_owner_of_the_others() -> None:
    body = template_body(KEY_OF_MADE, PUBLISHER, TemplateCapacity("ssd", Capacity(GI, None)))
    assert body == {
        "metadata": {
            "generateName": "csisc-",
            "labels": {
                "csi.storage.k8s.io/drivername": DRIVER,
                "csi.storage.k8s.io/managed-by": "external-provisioner",
                "mooring.dev/node-group": "ssd",
            },
            "ownerReferences": [{"name": "owner", "uid": "u"}],
        },
        "nodeTopology": {"matchLabels": dict(SEGMENT)},
        "storageClassName": "made",
        "capacity": "1Gi",
    }


def test_label_of_the_node_group_is_restored_and_removed() -> None:
    publisher = PUBLISHER._replace(owner=None)
    plain = a_capacity(capacity="1Gi")
    labelled = a_capacity(capacity="1Gi", labels={well_known.CAPACITY_NODE_GROUP: "ssd"})
    reported = Capacity(GI, None)
    assert changes(plain, publisher, reported, node_group="ssd") == {
        "metadata": {"labels": {"mooring.dev/node-group": "ssd"}}
    }
    assert changes(labelled, publisher, reported) == {"metadata": {"labels": {"mooring.dev/node-group": None}}}
    assert changes(labelled, publisher, reported, node_group="ssd") == {}


def test_index_desires_templates_of_existing_classes_only() -> None:
    index = CapacityObjectIndex(DRIVER)
    templates = parse_templates(TEMPLATES)
    assert index.observe_templates(templates) == {KEY_OF_MADE}
    assert index.desired() == set()
    made = a_class(name="made", provisioner=DRIVER)
    assert index.observe_class(None, made) == {KEY_OF_MADE}
    assert index.desired() == {KEY_OF_MADE}
    assert index.observe_templates(templates) == set()
    assert index.observe_templates({}) == {KEY_OF_MADE}
    assert index.class_of(KEY_OF_MADE) is None


async def templates_of(plane: Plane) -> dict[str, StorageCapacity]:
    """Objects of templates by node group."""
    found = (await plane.client.list(STORAGE_CAPACITY)).items
    return {each.node_group: each for each in found if each.node_group}


async def real_capacities(plane: Plane) -> dict[str, object]:
    found = (await plane.client.list(STORAGE_CAPACITY)).items
    return {
        each.node_topology.match_labels[KEY]: each.capacity
        for each in found
        if each.node_topology is not None and not each.node_group
    }


@pytest.mark.req("C24.template-nodes")
def test_objects_of_templates_follow_the_file(tmp_path: Path) -> None:
    """Published beside those of nodes, updated, kept while the file is malformed, restored, and removed."""
    file = tmp_path / "templates.yaml"
    file.write_text(TEMPLATES)
    driver = FakeCsiDriver({"node-1": 10 * GI, "node-2": 4 * GI})

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await plane.pass_time(2.0)
        found = (await templates_of(plane))["ssd"]
        assert (found.capacity, found.maximum_volume_size, found.storage_class_name) == ("100Gi", "50Gi", "made")
        assert await real_capacities(plane) == {"node-1": "10Gi", "node-2": "4Gi"}
        assert all(dict(segment).get(KEY) != "ssd_template" for _, segment in driver.asked), "no driver call"
        version = found.metadata.resource_version
        await plane.pass_time(2 * CAPACITY.poll_interval)
        assert (await templates_of(plane))["ssd"].metadata.resource_version == version, "nothing to write"
        assert (await plane.get(LEASE, "capacity-disks-example-com")).spec.renew_time is not None

        file.write_text(TEMPLATES.replace("100Gi", "200Gi"))
        await plane.pass_time(READ_INTERVAL_SECONDS + 2.0)
        assert (await templates_of(plane))["ssd"].capacity == "200Gi"
        file.write_text("malformed")
        await plane.pass_time(READ_INTERVAL_SECONDS + 2.0)
        assert (await templates_of(plane))["ssd"].capacity == "200Gi"

        name = (await templates_of(plane))["ssd"].name
        await plane.client.delete(STORAGE_CAPACITY, name, namespace="default")
        await plane.pass_time(5.0)
        assert (await templates_of(plane))["ssd"].name != name
        name = (await templates_of(plane))["ssd"].name
        patch = MergePatch({"capacity": "1Gi", "metadata": {"labels": {"mooring.dev/node-group": "other"}}})
        await plane.client.patch(STORAGE_CAPACITY, name, patch, namespace="default")
        await plane.pass_time(CAPACITY.poll_interval + 2.0)
        assert (await templates_of(plane))["ssd"].capacity == "200Gi"

        await plane.client.delete(STORAGE_CLASS, "made")
        await plane.pass_time(5.0)
        assert await templates_of(plane) == {}
        await plane.create(STORAGE_CLASS, waiting_class())
        await plane.pass_time(5.0)
        assert set(await templates_of(plane)) == {"ssd"}
        file.write_text("[]")
        await plane.pass_time(READ_INTERVAL_SECONDS + 2.0)
        assert await templates_of(plane) == {}
        assert await real_capacities(plane) == {"node-1": "10Gi", "node-2": "4Gi"}

    run_plane(plane_of(driver, capacity=replace(CAPACITY, template_file=file)), scenario)


def test_objects_of_an_earlier_process_are_removed_without_templates() -> None:
    """The flag was removed between two starts."""
    driver = FakeCsiDriver({"node-1": GI, "node-2": GI})

    async def scenario(plane: Plane) -> None:
        earlier = template_body(KEY_OF_MADE, PUBLISHER._replace(owner=None), TemplateCapacity("ssd", Capacity(GI)))
        metadata = earlier["metadata"] | {"name": "csisc-earlier", "namespace": "default"}
        await plane.create(STORAGE_CAPACITY, earlier | {"metadata": metadata})
        await furnish(plane)
        await plane.pass_time(CAPACITY.poll_interval + 2.0)
        assert await templates_of(plane) == {}

    run_plane(plane_of(driver, capacity=CAPACITY), scenario)


@pytest.mark.req("C24.template-nodes")
def test_scheduler_ignores_templates_even_if_a_node_has_their_label() -> None:
    topology = TopologyIndex()
    topology.put("n1", {KEY: "ssd_template"})
    provisioners = Provisioners(topology)
    selector = {"matchLabels": {KEY: "ssd_template"}}
    for labels, nodes in (({well_known.CAPACITY_NODE_GROUP: "ssd"}, 0), ({}, 1)):
        found = a_capacity(storage_class="made", topology=selector, capacity="9Gi", labels=labels)
        provisioners.observe_capacity(found.key, found)
        assert provisioners.capacity.nodes_with_capacity("made", GI).bit_count() == nodes
        assert (cluster_events.capacity_event(None, found) is not None) == bool(nodes), "wakes no pod"


@pytest.mark.req("C24.template-nodes")
def test_explain_and_doctor_do_not_see_templates() -> None:
    objects = ClusterObjects()
    objects.add(node_body(name="n1", labels={KEY: "ssd_template"}))
    objects.add(
        capacity_body(
            topology={"matchLabels": {KEY: "ssd_template"}}, capacity="9Gi", labels={"mooring.dev/node-group": "ssd"}
        )
    )
    assert len(objects.of(NODE)) == 1
    assert len(objects.of(STORAGE_CAPACITY)) == 0


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--capacity-template-file={file}"], "--capacity-template-file needs --enable-capacity."),
        (
            ["--enable-capacity", "--node-deployment", "--capacity-template-file={file}"],
            "leave --capacity-template-file",
        ),
        (["--enable-capacity", "--capacity-template-file={file}"], "not a list of node group templates"),
    ],
)
def test_flag_is_checked_at_the_start(tmp_path: Path, flags: list[str], problem: str) -> None:
    file = tmp_path / "templates.yaml"
    file.write_text("{}")
    environment = {"NAMESPACE": "default", "NODE_NAME": "n1", "POD_NAME": "p"}
    done = CliRunner().invoke(command, [each.format(file=file) for each in flags], env=environment)
    assert done.exit_code == 2
    assert problem in done.output


def test_deployment_per_node_publishes_no_templates(tmp_path: Path) -> None:
    file = tmp_path / "templates.yaml"
    file.write_text(TEMPLATES)
    driver = FakeCsiDriver({"node-1": GI, "node-2": GI}, node="node-1")

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await plane.pass_time(5.0)
        assert await templates_of(plane) == {}

    def build(context: Context) -> Component:
        settings = ProvisionerSettings(node_deployment=NodeDeployment("node-1"))
        return Provisioner(context, driver, settings, capacity=replace(CAPACITY, template_file=file))

    run_plane([build], scenario)
