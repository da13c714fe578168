"""An informer on a bad line to the real kube-apiserver."""

from collections.abc import Callable

from conformance.control_plane import ControlPlane
from network.bad_line import follow_on_a_bad_line


async def test_the_cache_ends_up_right_and_no_version_is_seen_out_of_order(
    start_kube: Callable[[], ControlPlane],
) -> None:
    await follow_on_a_bad_line(start_kube().access, writers=30)
