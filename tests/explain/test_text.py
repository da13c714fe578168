"""The explanation as people read it."""

from mooring.explain.text import pod_paragraphs
from support.builders import claim_body, class_body, node_body, pod_body, volume_body
from support.explain.clusters import explained


def test_nodes_that_fit_come_first_and_nodes_with_equal_reasons_stand_together() -> None:
    nodes = [node_body(name=f"n{number}", unschedulable=number > 1) for number in range(1, 10)]
    told = list(pod_paragraphs(explained(*nodes, pod_body())))
    assert told == [
        "n1: fits",
        "n2, n3, n4, n5, n6 and 3 more: do not fit\n  NodeUnschedulable: node(s) were unschedulable: it is cordoned: "
        "spec.unschedulable is true",
    ]


def test_a_reason_that_applies_to_every_node_is_printed_once() -> None:
    told = list(pod_paragraphs(explained(node_body(name="n1"), pod_body(gates=["wait"]))))
    blocked = "Scheduling is blocked due to non-empty scheduling gates"
    assert told[0] == f"on every node:\n  SchedulingGates: {blocked}: wait"
    assert told[1].startswith("what to check:\n  - Find out which controller sets the gates")
    assert len(told) == 2


def test_claims_are_printed_with_their_volumes() -> None:
    told = list(
        pod_paragraphs(
            explained(
                class_body(),
                claim_body(name="data"),
                volume_body(name="v1", node="n1"),
                *(volume_body(name=f"small-{number}", size="1Gi") for number in range(4)),
                node_body(name="n1"),
                node_body(name="n2"),
                pod_body(claims=["data"]),
            )
        )
    )
    missing = "node(s) didn't find available persistent volumes to bind"
    assert told == [
        "n1: fits\n  default/data would be bound to v1",
        "\n".join(
            [
                "n2: does not fit",
                f"  VolumeBinding: {missing}",
                "  default/data gets no volume of class local: class local has no provisioner: an administrator "
                "creates its volumes",
                "    small-0 is smaller than requested (1Gi, 5Gi requested)",
                "    small-1 is smaller than requested (1Gi, 5Gi requested)",
                "    small-2 is smaller than requested (1Gi, 5Gi requested)",
                "    and 2 more volumes do not match; in total: 4 too small, 1 not accessible from the node",
            ]
        ),
    ]


def test_details_that_differ_are_printed_per_node() -> None:
    nodes = [node_body(name=f"n{number}", allocatable={"cpu": str(number)}) for number in range(1, 8)]
    [told, remedy_texts] = pod_paragraphs(explained(*nodes, pod_body(requests={"cpu": "9"})))
    assert told.splitlines()[:3] == [
        "n1, n2, n3, n4, n5 and 2 more: do not fit",
        "  NodeResourcesFit: Insufficient cpu",
        "    n1: 9 requested, 1 of 1 free",
    ]
    assert told.splitlines()[-1] == "    and 2 more"
    assert "a new node with 9 cpu free" in remedy_texts


def test_wide_lists_all_nodes() -> None:
    nodes = [node_body(name=f"n{number}", allocatable={"cpu": str(number)}) for number in range(1, 8)]
    told, _ = pod_paragraphs(explained(*nodes, pod_body(requests={"cpu": "9"})), wide=True)
    assert told.splitlines()[0] == "n1, n2, n3, n4, n5, n6, n7: do not fit"
    assert told.splitlines()[-1] == "    n7: 9 requested, 7 of 7 free"
