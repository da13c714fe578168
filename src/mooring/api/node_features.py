"""Features that not every node has, and which of them a pod needs: what is declared in `status.declaredFeatures` while
nodes of several versions are about. The list is Kubernetes', which grows and shrinks with its versions. Pure."""

from typing import Final

from mooring.api.views.pod import Pod

RESTART_ALL: Final = "RestartAllContainersOnContainerExits"
USERS_ON_HOST_NETWORK: Final = "UserNamespacesHostNetworkSupport"
#: Sorted, as kubelets declare them.
ALL: Final = (RESTART_ALL, USERS_ON_HOST_NETWORK)

_RESTART_ALL_ACTION: Final = "RestartAllContainers"


def needed_by(pod: Pod) -> tuple[str, ...]:
    """The features without which a node cannot run a pod."""
    spec = pod.spec
    needed: tuple[str, ...] = ()
    if any(
        rule.action == _RESTART_ALL_ACTION
        for container in (*spec.containers, *spec.init_containers)
        for rule in container.restart_policy_rules
    ):
        needed += (RESTART_ALL,)
    if spec.host_network and spec.host_users is False:
        needed += (USERS_ON_HOST_NETWORK,)
    return needed
