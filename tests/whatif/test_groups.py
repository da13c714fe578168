"""Groups of pods in simulations: whether a gang would fit, and what is missing."""

from mooring.cli.simulation_text import lines
from mooring.whatif.results import SimulationResult
from support.builders import Body
from support.builders.groups import member_body, pod_group_body
from support.whatif.questions import FAST, asked, nodes, placed, pool, provisioned_class


def claim(index: int, size: str) -> Body:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "storageClassName": FAST}
    metadata = {"name": f"c-{index}", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def gang(members: int = 3, *, size: str = "100Gi") -> list[Body]:
    """As people write it: without status."""
    bodies = [pod_group_body(min_count=3), *(claim(index, size) for index in range(members))]
    bodies += [member_body(name=f"g-{index}", claims=[f"c-{index}"]) for index in range(members)]
    for body in bodies:
        body.pop("status", None)
    return bodies


def figures(**amounts: str) -> list[Body]:
    """A node of each name, with capacity that adds up."""
    reported = [pool(node, amount) | {"maximumVolumeSize": amount} for node, amount in amounts.items()]
    return [*nodes(len(amounts)), *provisioned_class(), *reported]


def text_of(result: SimulationResult) -> str:
    return "\n".join(lines(result, wide=False))


def test_g74_gang_that_does_not_fit_stays_pending_with_its_certificate() -> None:
    result = asked(*figures(n1="150Gi", n2="110Gi", n3="50Gi"), *gang())
    assert not result.ok
    assert result.verdict == "3 pods stay pending."
    [report] = result.groups
    assert (report.group, report.state) == ("default/g", "Short")
    assert "50Gi more capacity of class fast on n1 or n3" in report.remedy_texts
    assert "n1 150Gi: 1, n2 110Gi: 1, n3 50Gi: 0" in text_of(result)
    assert result.difference.volumes_made == ()


def test_g74_gang_fits_with_one_more_node() -> None:
    result = asked(*figures(n1="150Gi", n2="110Gi", n3="50Gi"), *gang(), add=[("n1", 1)])
    assert result.ok, text_of(result)
    assert sorted(placed(result).values()) == ["n1", "n1-new-1", "n2"]
    assert result.groups == ()


def test_group_without_enough_members_is_reported() -> None:
    result = asked(*figures(n1="500Gi"), *gang(2))
    assert [report.state for report in result.groups] == ["WaitingForMembers"]
    assert not result.ok
