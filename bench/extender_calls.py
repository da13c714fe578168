"""Cost of a kube-scheduler call for the extender, from request body to response body: 5,000 nodes, half of
them with local volumes for the pod, given as names and as whole objects.

Run it as `python -m bench.extender_calls [--nodes N] [--calls N] [--milliseconds]`. Lines are shown as multiples of the
decision alone, which is the scheduler's own. What HTTP and TLS add is not in it; kube-scheduler pays as much again to
write and to read these bodies.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import msgspec

from bench.scheduling_cycle import a_cluster, a_pod
from mooring.scheduler.extender import protocol
from mooring.scheduler.extender.evaluator import ExtenderEvaluator, Filtered

#: About what a node weighs on a real cluster: forty images, a dozen labels, six conditions.
NODE_BYTES = 13_000


def a_whole_node(name: str) -> dict[str, Any]:
    node: dict[str, Any] = {"metadata": {"name": name}, "status": {"images": []}}
    node["status"]["images"] = [{"names": [f"registry.example.com/{n}@sha256:{'0' * 280}"]} for n in range(40)]
    return node


def filtered(judgement: ExtenderEvaluator, body: bytes) -> bytes:
    args = protocol.decode_call(body, protocol.ExtenderArgs)
    nodes = protocol.Nodes(args)
    verdict = judgement.filter(args.pod, nodes.names)
    assert isinstance(verdict, Filtered)
    assert 0 < len(verdict.passing) < len(nodes.names)
    return protocol.encode_reply(nodes.result(*verdict))


def prioritized(judgement: ExtenderEvaluator, body: bytes) -> bytes:
    args = protocol.decode_call(body, protocol.ExtenderArgs)
    names = protocol.Nodes(args).names
    scores = judgement.scores(args.pod, names)
    return protocol.encode_reply([protocol.HostPriority(*pair) for pair in zip(names, scores, strict=True)])


def seconds_each(work: Callable[[], object], calls: int) -> float:
    """The median of processor time."""
    durations: list[float] = []
    for _ in range(calls):
        start = time.process_time()
        work()
        durations.append(time.process_time() - start)
    return median(durations)


def main() -> None:
    arguments = argparse.ArgumentParser(description="Cost of an extender call, as multiples of the decision alone.")
    arguments.add_argument("--nodes", type=int, default=5000)
    arguments.add_argument("--calls", type=int, default=30)
    arguments.add_argument("--milliseconds", action="store_true", help="show what the figures are multiples of")
    given = arguments.parse_args()

    snapshot = a_cluster(given.nodes, given.nodes)
    judgement = ExtenderEvaluator(snapshot)
    claims = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("small", "large")]
    pod = a_pod(volumes=claims)
    names = tuple(snapshot.topology.names(snapshot.nodes))
    by_name = msgspec.json.encode({"Pod": pod, "NodeNames": names})
    whole = msgspec.json.encode({"Pod": pod, "Nodes": {"items": [a_whole_node(name) for name in names]}})
    first = 0.0

    def line(what: str, work: Callable[[], object]) -> None:
        nonlocal first
        cost = seconds_each(work, given.calls)
        first = first or cost
        absolute = f"  {cost * 1e3:7.2f} ms" if given.milliseconds else ""
        print(f"{cost / first:6.1f} x  {what}{absolute}", flush=True)

    line("the decision alone", lambda: judgement.nodes_worth_preempting(pod, {}))
    line(f"filter, names, {len(by_name) / 1e3:.0f} kB", lambda: filtered(judgement, by_name))
    line(f"prioritize, names, {len(by_name) / 1e3:.0f} kB", lambda: prioritized(judgement, by_name))
    line(f"filter, whole objects, {len(whole) / 1e6:.0f} MB", lambda: filtered(judgement, whole))


if __name__ == "__main__":
    main()
