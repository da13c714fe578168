"""Where pods run and where their volumes are, for the checks of the scenarios.

The input is plain objects, from any environment.
"""

from typing import Any, Final, NamedTuple

NO_VOLUMES: Final = "node(s) didn't find available persistent volumes to bind"
ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
AFFINITY: Final = "node(s) didn't match pod affinity rules"

Objects = list[dict[str, Any]]


class Placed(NamedTuple):
    """The node of a pod, and the node of each of its volumes; empty while undecided."""

    pod: str
    phase: str
    node: str
    volume_nodes: tuple[str, ...]

    @property
    def together(self) -> bool:
        """The pod runs on the node of all its volumes."""
        return self.phase == "Running" and set(self.volume_nodes) == {self.node}


def placements(pods: Objects, claims: Objects, volumes: Objects) -> list[Placed]:
    """By pod name; for pods whose volumes are all claims on local volumes."""
    volume_of = {c["metadata"]["name"]: c["spec"].get("volumeName", "") for c in claims}
    node_of = {v["metadata"]["name"]: _only_node(v) for v in volumes} | {"": ""}
    return [
        Placed(
            pod["metadata"]["name"],
            pod["status"]["phase"],
            pod["spec"].get("nodeName", ""),
            tuple(
                node_of[volume_of.get(mount["persistentVolumeClaim"]["claimName"], "")]
                for mount in pod["spec"]["volumes"]
            ),
        )
        for pod in sorted(pods, key=lambda one: str(one["metadata"]["name"]))
    ]


def _only_node(volume: dict[str, Any]) -> str:
    [term] = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    [expression] = term["matchExpressions"]
    [node] = expression["values"]
    return str(node)
