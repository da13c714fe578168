"""Which node group of an autoscaler would help the pending pods, and with how many nodes. Pure.

A node group is represented by one node: a running one, or the Node of a file. The storage of the latter may be in the
file, or in CSIStorageCapacity objects that a publisher wrote from the group's template. Each group is tried alone.
"""

from collections.abc import Mapping, Sequence

from mooring.api import well_known
from mooring.api.documents import Body
from mooring.api.kinds import CSI_NODE, NODE, STORAGE_CAPACITY
from mooring.api.views.core import Node
from mooring.api.views.storage import StorageCapacity
from mooring.explain.cluster_objects import lost_since
from mooring.explain.text import counted_noun
from mooring.provisioner.capacity.objects import DRIVER_LABEL
from mooring.whatif.additions import Addition
from mooring.whatif.inventory import BadQuestion, Inventory
from mooring.whatif.node_search import CopiedNode, NodePlan, Simulate, most_helpful_number
from mooring.whatif.results import PendingPod, Shortfall, SimulationResult, SimulationStruct


class NodeGroupHelp(SimulationStruct, frozen=True, omit_defaults=False):
    """What nodes of one group would change."""

    #: The node that stands for the group.
    template: str
    #: The fewest nodes to add for the best result; 0 if nodes of the group do not help.
    count: int
    #: Whether no pod stays pending.
    ok: bool
    #: Pods that are pending without these nodes, and scheduled with them.
    scheduled: tuple[str, ...]
    pending: tuple[PendingPod, ...]
    #: Workloads that still lack pods.
    shortfalls: tuple[Shortfall, ...]


class NodeGroupAnswer(SimulationStruct, frozen=True, omit_defaults=False):
    verdict: str
    #: Whether one group alone lets all pods run, or no pod is pending.
    ok: bool
    #: The group that lets most pods run, with the fewest nodes; "" if none helps or is needed.
    best: str
    #: Without added nodes.
    pending: tuple[PendingPod, ...]
    groups: dict[str, NodeGroupHelp]


def which_group(groups: Mapping[str, CopiedNode], simulate: Simulate) -> NodeGroupAnswer:
    nothing = simulate(())

    def tried(additions: Sequence[Addition]) -> SimulationResult:
        return simulate(additions) if additions else nothing

    plans = {name: most_helpful_number(template, tried) for name, template in groups.items()}
    helped = {name: _help(groups[name], plan, nothing) for name, plan in plans.items()}
    useful = [name for name, each in helped.items() if each.count]
    best = min(useful, key=lambda name: (_left(helped[name]), helped[name].count), default="")
    needed = bool(nothing.pending or nothing.shortfalls)
    ok = not needed or (bool(best) and helped[best].ok)
    return NodeGroupAnswer(_verdict(best, helped, needed=needed), ok, best, nothing.pending, helped)


def _help(template: CopiedNode, plan: NodePlan, nothing: SimulationResult) -> NodeGroupHelp:
    placed = {each.pod for each in plan.result.placements}
    without = {each.pod for each in nothing.placements}
    count = sum(each.count for each in plan.nodes)
    return NodeGroupHelp(
        template.name,
        count,
        plan.ok,
        tuple(sorted(placed - without)),
        plan.result.pending,
        plan.result.shortfalls,
    )


def _left(helped: NodeGroupHelp) -> int:
    return len(helped.pending) + sum(each.desired - each.pods for each in helped.shortfalls)


def _verdict(best: str, helped: Mapping[str, NodeGroupHelp], *, needed: bool) -> str:
    if not needed:
        return "No pod needs a further node."
    if not best:
        return "No node group helps."
    nodes = f"{counted_noun(helped[best].count, 'node')} of {best}"
    if helped[best].ok:
        return f"All pods run with {nodes}."
    return f"{nodes[:1].upper()}{nodes[1:]} would help most; {counted_noun(_left(helped[best]), 'pod')} would not run."


def labelled_groups(inventory: Inventory, label: str) -> dict[str, CopiedNode]:
    """The node groups of a label: for each value the first node by name that is ready. Raises BadQuestion."""
    found: dict[str, CopiedNode] = {}
    for node in sorted(inventory.of(NODE), key=lambda each: each.name):
        value = node.metadata.labels.get(label, "")
        if value and value not in found and _is_usable(node):
            found[value] = CopiedNode(node.name, inventory)
    if not found:
        raise BadQuestion(f"no ready node has the label {label}")
    return found


def _is_usable(node: Node) -> bool:
    return not node.spec.unschedulable and lost_since(node, None) is None


def with_published_storage(written: Inventory, cluster: Inventory) -> Inventory:
    """The Node of a file with the capacity that a publisher wrote from its node group's template, and its drivers."""
    node = written.of(NODE)[0]
    labels = node.metadata.labels.items()
    for reported in cluster.of(STORAGE_CAPACITY):
        selector = reported.node_topology
        if not reported.node_group or selector is None or not labels >= selector.match_labels.items():
            continue
        body = cluster.body(STORAGE_CAPACITY, reported.key)
        del body["metadata"]["labels"][well_known.CAPACITY_NODE_GROUP]
        written.keep(STORAGE_CAPACITY, body)
        _register(written, cluster, node.name, reported)
    return written


def _register(written: Inventory, cluster: Inventory, node: str, reported: StorageCapacity) -> None:
    """Add the driver of a capacity object to the CSINode, with the topology keys that it has elsewhere."""
    driver = reported.metadata.labels.get(DRIVER_LABEL, "")
    body: Body = {"metadata": {"name": node}, "spec": {}}
    if written.is_there(CSI_NODE, node):
        body = written.body(CSI_NODE, node)
    drivers = body["spec"].get("drivers") or []
    if not driver or any(each["name"] == driver for each in drivers):
        return
    known = (one for each in cluster.of(CSI_NODE) for one in each.spec.drivers or () if one.name == driver)
    selector = reported.node_topology
    own_keys = [] if selector is None else sorted(selector.match_labels)
    keys = next((list(one.topology_keys) for one in known), own_keys)
    body["spec"]["drivers"] = [*drivers, {"name": driver, "nodeID": node, "topologyKeys": keys}]
    written.keep(CSI_NODE, body)
