"""Many pods at once, each with a delayed-binding claim, and as many volumes or fewer, spread over three nodes."""

from collections import Counter
from typing import Final

from support.builders import Body, claim_body, class_body, pod_body, volume_body
from support.scenarios.placements import Objects, placements

NODES: Final = ("node-1", "node-2", "node-3")


def volumes(storage_class: str, numbers: range) -> list[Body]:
    return [
        volume_body(name=f"{storage_class}-{n}", storage_class=storage_class, node=NODES[n % len(NODES)])
        for n in numbers
    ]


def manifest(storage_class: str, *, pods: int, volume_count: int) -> list[Body]:
    names = [f"member-{number}" for number in range(pods)]
    return [
        class_body(name=storage_class),
        *volumes(storage_class, range(volume_count)),
        *(claim_body(name=name, namespace="", storage_class=storage_class) for name in names),
        *(pod_body(name=name, namespace="", claims=[name]) for name in names),
    ]


def assert_one_volume_each(storage_class: str, count: int, pods: Objects, claims: Objects, pvs: Objects) -> None:
    """This many pods run, each with its own volume on its node; the others have no node and no volume."""
    placed = placements(pods, claims, pvs)
    running = [p for p in placed if p.phase == "Running"]
    assert len(running) == count
    assert all(p.together for p in running)
    assert all(p.node == "" and p.volume_nodes == ("",) for p in placed if p not in running)
    taken = Counter(claim["spec"]["volumeName"] for claim in claims if claim["spec"].get("volumeName"))
    assert taken == Counter(f"{storage_class}-{n}" for n in range(count))
    owners = {v["metadata"]["name"]: v["spec"]["claimRef"]["name"] for v in pvs if v["spec"].get("claimRef")}
    assert all(owners[c["spec"]["volumeName"]] == c["metadata"]["name"] for c in claims if c["spec"].get("volumeName"))
