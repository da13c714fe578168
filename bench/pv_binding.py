"""What it costs the PV controller to bind one claim with ever more volumes around.

Run it as `python bench/pv_binding.py [--claims N]`. Half of the volumes are bound, half are free; a claim comes, is
bound in four writes whose answers are made up here, and so on, one after the other. The network is not part of it.
"""

import argparse
import time
from statistics import median

import msgspec

from mooring.api import kinds
from mooring.api.patches.merge import apply_merge_patch
from mooring.api.views.claim import Claim
from mooring.api.views.volume import Volume
from mooring.pvcontroller import claims
from mooring.pvcontroller.facts import Facts
from mooring.pvcontroller.writes import to_request

Body = dict[str, object]


def volume(number: int, *, bound: bool) -> Body:
    spec: Body = {
        "capacity": {"storage": f"{10 + number % 1000}Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "disks",
        "volumeMode": "Filesystem",
        "persistentVolumeReclaimPolicy": "Retain",
    }
    if bound:
        spec["claimRef"] = {"namespace": "default", "name": f"old-{number}", "uid": f"old-{number}"}
    meta: Body = {"name": f"volume-{number:06}", "uid": f"volume-{number}", "resourceVersion": "1"}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Bound" if bound else "Available"}}


def claim(number: int) -> Body:
    spec: Body = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "disks",
        "volumeMode": "Filesystem",
        "resources": {"requests": {"storage": f"{10 + number % 900}Gi"}},
    }
    meta: Body = {"name": f"claim-{number}", "namespace": "default", "uid": f"claim-{number}", "resourceVersion": "1"}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}


class World:
    """Objects by key, and a controller's facts about them."""

    def __init__(self, volumes: int) -> None:
        self.facts = Facts(lambda _: ())
        self.bodies: dict[str, Body] = {}
        self._version = 1
        for number in range(volumes):
            self.come(volume(number, bound=number % 2 == 0))

    def come(self, body: Body) -> str:
        view = _decoded(body)
        self.bodies[view.key] = body
        if isinstance(view, Claim):
            self.facts.claims.observe(None, view)
        else:
            self.facts.volumes.observe(None, view)
        return view.key

    def bind(self, key: str) -> int:
        """Everything the controller does for one claim; returns how many writes that took."""
        for writes in range(8):
            known = self.facts.claims.get(key)
            assert known is not None
            step = claims.next_step(known, self.facts)
            if step.write is None:
                assert known.status.phase == "Bound"
                return writes
            request = to_request(step.write)
            self._version += 1
            merged = apply_merge_patch(self.bodies[request.target.key], request.patch.body)
            assert isinstance(merged, dict)
            merged["metadata"]["resourceVersion"] = str(self._version)
            self.bodies[request.target.key] = merged
            answer = _decoded(merged)
            if isinstance(answer, Claim):
                self.facts.claims.learn(answer)
            else:
                self.facts.volumes.learn(answer)
        raise AssertionError(f"{key} does not settle")


def _decoded(body: Body) -> Claim | Volume:
    kind = kinds.CLAIM if "resources" in body["spec"] else kinds.VOLUME  # type: ignore[operator]
    return kind.decode(msgspec.json.encode(body))  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--claims", type=int, default=40, help="how many claims to bind for each line")
    count = parser.parse_args().claims
    first = 0.0
    print(f"{'volumes':>9} {'µs per claim':>13} {'ratio':>6}")
    for volumes in (100, 1_000, 10_000, 100_000):
        world = World(volumes)
        costs = []
        for number in range(count):
            key = world.come(claim(number))
            begun = time.perf_counter()
            assert world.bind(key) == 4
            costs.append(time.perf_counter() - begun)
        cost = median(costs)
        first = first or cost
        print(f"{volumes:>9,} {cost * 1e6:>13.0f} {cost / first:>6.2f}")


if __name__ == "__main__":
    main()
