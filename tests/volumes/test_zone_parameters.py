"""Zones in the parameters of a class, read as the topologies they mean."""

from collections.abc import Mapping

import pytest

from mooring.api import well_known
from mooring.api.views.storage import TopologyRequirement, TopologyTerm
from mooring.volumes.decider import Provisioners
from mooring.volumes.in_tree import allowed_topologies, zone_parameters
from mooring.volumes.matching import requirements_of
from mooring.volumes.topology import TopologyIndex
from support.builders import a_claim, a_class

GCE = "kubernetes.io/gce-pd"


@pytest.mark.parametrize(
    ("provisioner", "parameters", "named"),
    [
        pytest.param(GCE, {"zone": "a"}, ("a",), id="one zone"),
        pytest.param(GCE, {"zones": "a, b,c"}, ("a", "b", "c"), id="several zones"),
        pytest.param(GCE, {"zone": "a", "zones": "b,a"}, ("a", "b"), id="both"),
        pytest.param(GCE, {"zones": " ,"}, (), id="none after all"),
        pytest.param(GCE, {"type": "pd-ssd"}, (), id="no such parameter"),
        pytest.param("kubernetes.io/aws-ebs", {"zones": "a"}, ("a",), id="AWS"),
        pytest.param("ebs.csi.aws.com", {"zone": "a"}, ("a",), id="the driver that took over"),
        pytest.param("disks.example.com", {"zone": "a"}, (), id="another driver's parameter of that name"),
    ],
)
@pytest.mark.req("T37.translated")
def test_zones_named(provisioner: str, parameters: Mapping[str, str], named: tuple[str, ...]) -> None:
    storage_class = a_class(provisioner=provisioner, parameters=parameters)
    assert zone_parameters(storage_class) == named
    expected = (TopologyTerm((TopologyRequirement(well_known.ZONE, named),)),) if named else ()
    assert allowed_topologies(storage_class) == expected


def test_allowed_topologies_speak_for_themselves() -> None:
    storage_class = a_class(provisioner=GCE, parameters={"zone": "a"}, allowed_topologies=[{well_known.ZONE: ["b"]}])
    assert allowed_topologies(storage_class) == storage_class.allowed_topologies


@pytest.mark.req("T37.translated")
def test_scheduler_keeps_to_the_zones_named() -> None:
    topology = TopologyIndex()
    for zone in "ab":
        topology.put(f"node-{zone}", {well_known.ZONE: zone})
    provisioners = Provisioners(topology)
    provisioners.observe_class("disks", a_class(name="disks", provisioner=GCE, parameters={"zone": "b"}))
    provisionable = provisioners.provisionable(requirements_of(a_claim(storage_class="disks")))
    assert [*topology.names(provisionable.nodes)] == ["node-b"]
