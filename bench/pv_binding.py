"""Cost of binding one claim in the PV controller, by number of volumes.

Run it as `python -m bench.pv_binding [--claims N]`. Half of the volumes are bound, half are free; a claim is
created and bound in four writes with stubbed responses, then the next one. The network is not part of it.
"""

import argparse
import time
from statistics import median

import msgspec

from mooring.api import kinds
from mooring.api.patches.contract import apply_merge_patch
from mooring.api.views.storage import Claim, Volume
from mooring.pvcontroller import claim_sync
from mooring.pvcontroller.actions import to_request
from mooring.pvcontroller.cache import BindingCache

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


class PvControllerCluster:
    """Objects by key, and a controller's state of them."""

    def __init__(self, volumes: int) -> None:
        self.cache = BindingCache(lambda _: ())
        self.bodies: dict[str, Body] = {}
        self._version = 1
        for number in range(volumes):
            self.add(volume(number, bound=number % 2 == 0))

    def add(self, body: Body) -> str:
        view = _decoded(body)
        self.bodies[view.key] = body
        if isinstance(view, Claim):
            self.cache.claims.observe(None, view)
        else:
            self.cache.volumes.observe(None, view)
        return view.key

    def bind(self, key: str) -> int:
        """Bind one claim; return the number of writes."""
        for writes in range(8):
            known = self.cache.claims.get(key)
            assert known is not None
            step = claim_sync.next_claim_step(known, self.cache)
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
                self.cache.claims.apply_write_result(answer)
            else:
                self.cache.volumes.apply_write_result(answer)
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
        cluster = PvControllerCluster(volumes)
        costs = []
        for number in range(count):
            key = cluster.add(claim(number))
            begun = time.perf_counter()
            assert cluster.bind(key) == 4
            costs.append(time.perf_counter() - begun)
        cost = median(costs)
        first = first or cost
        print(f"{volumes:>9,} {cost * 1e6:>13.0f} {cost / first:>6.2f}")


if __name__ == "__main__":
    main()
