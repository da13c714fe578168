"""The explanation as people read it."""

from builders import claim_body, class_body, node_body, pod_body, volume_body
from explain.worlds import explained
from mooring.explain.words import paragraphs


def test_nodes_that_fit_come_first_and_nodes_with_equal_reasons_stand_together() -> None:
    nodes = [node_body(name=f"n{number}", unschedulable=number > 1) for number in range(1, 10)]
    told = list(paragraphs(explained(*nodes, pod_body())))
    assert told == [
        "n1: fits",
        "n2, n3, n4, n5, n6 and 3 more: do not fit\n  NodeUnschedulable: node(s) were unschedulable: it is cordoned: "
        "spec.unschedulable is true",
    ]


def test_what_holds_for_every_node_is_said_once() -> None:
    told = list(paragraphs(explained(node_body(name="n1"), pod_body(gates=["wait"]))))
    blocked = "Scheduling is blocked due to non-empty scheduling gates"
    assert told[0] == f"on every node:\n  SchedulingGates: {blocked}: wait"
    assert told[1].startswith("what to look at:\n  - Find out who sets the gates")
    assert len(told) == 2


def test_claims_are_told_with_their_volumes() -> None:
    told = list(
        paragraphs(
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
                "  default/data gets no volume of class local: class local has no provisioner: its volumes are made by "
                "hand",
                "    small-0 is smaller than requested (1Gi, 5Gi asked for)",
                "    small-1 is smaller than requested (1Gi, 5Gi asked for)",
                "    small-2 is smaller than requested (1Gi, 5Gi asked for)",
                "    and 2 more volumes do not do; in all: 4 too small, 1 out of the node's reach",
            ]
        ),
    ]


def test_figures_that_differ_are_told_node_by_node() -> None:
    nodes = [node_body(name=f"n{number}", allocatable={"cpu": str(number)}) for number in range(1, 8)]
    [told, helps] = paragraphs(explained(*nodes, pod_body(requests={"cpu": "9"})))
    assert told.splitlines()[:3] == [
        "n1, n2, n3, n4, n5 and 2 more: do not fit",
        "  NodeResourcesFit: Insufficient cpu",
        "    n1: 9 asked for, 1 of 1 free",
    ]
    assert told.splitlines()[-1] == "    and 2 more"
    assert "a new node with 9 cpu free" in helps


def test_wide_names_everybody() -> None:
    nodes = [node_body(name=f"n{number}", allocatable={"cpu": str(number)}) for number in range(1, 8)]
    told, _ = paragraphs(explained(*nodes, pod_body(requests={"cpu": "9"})), wide=True)
    assert told.splitlines()[0] == "n1, n2, n3, n4, n5, n6, n7: do not fit"
    assert told.splitlines()[-1] == "    n7: 9 asked for, 7 of 7 free"
