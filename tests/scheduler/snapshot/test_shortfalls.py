"""`mooring.scheduler.snapshot.resources`: what a pod lacks on a node while others leave and come back."""

import numpy as np

from mooring.api.pod_requirements import PODS, Requests
from mooring.scheduler.snapshot.resources import NO_SHORTFALLS, Need, NodeShortfall, ResourceShortfall


def asking(cpu: int, memory: int = 0) -> Requests:
    return Requests({"cpu": cpu, "memory": memory}, cpu, memory)


def a_shortfall(*, pods: float = 0, cpu: float = 0) -> NodeShortfall:
    """So much is missing on the second of two nodes."""
    needs = (Need(PODS, "Too many pods", np.array([-9.0, pods])), Need("cpu", "no cpu", np.array([-9.0, cpu])))
    return ResourceShortfall(needs).on_node(1)


def test_removed_pods_reduce_shortfall() -> None:
    shortfall = a_shortfall(pods=1, cpu=3)
    assert shortfall.reasons() == ("Too many pods", "no cpu")
    shortfall.remove_pods([asking(2)])
    assert shortfall.reasons() == ("no cpu",)
    shortfall.remove_pods([asking(2)])
    assert shortfall.reasons() == ()


def test_pods_are_readded_while_pod_fits() -> None:
    shortfall = a_shortfall(cpu=1)
    shortfall.remove_pods([asking(1), asking(3), asking(2)])
    assert shortfall.readd_all() == [True, True, False]
    assert not shortfall.add_pod(asking(2))
    assert shortfall.add_pod(asking(1)), "one of the two that were left"


def test_every_pod_takes_a_place_even_one_that_asks_for_nothing() -> None:
    shortfall = a_shortfall(pods=1)
    shortfall.remove_pods([asking(0), asking(0)])
    assert shortfall.readd_all() == [True, False]


def test_no_shortfall_without_resources() -> None:
    shortfall = NO_SHORTFALLS.on_node(5)
    shortfall.remove_pods([asking(1)])
    assert (shortfall.reasons(), shortfall.add_pod(asking(99))) == ((), True)
