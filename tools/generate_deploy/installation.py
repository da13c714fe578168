"""What people install on a cluster of their own: the processes, and the rights of each as objects to apply.

A process unites the identities of the components that run in it, and has what it needs besides to be the only one and
to be seen. `tools/generate_deploy` writes these objects into `deploy/`. The embedded cluster is not installed: there
every component has its own account, see `identities`.

Leases are named where RBAC can name them: to get and to patch, not to create.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from mooring.api.views.core import PolicyRule
from mooring.cluster.identities import identity_of
from mooring.server.auth.policy import APPS, AUTHORIZATION, COORDINATION, account, binding, role, rule

#: Of everything installed, held volumes' records and Leases included: who removes it removes them.
NAMESPACE: Final = "mooring-system"
#: The controllers that an installed `mooring controller` runs. Those of workloads are left to Kubernetes.
CONTROLLERS: Final[Mapping[str, str]] = {
    "persistentvolume-binder-controller": "persistentvolume-controller",
    "persistentvolume-protection-controller": "volume-protection",
    "zonal-upgrade-controller": "zonal-volume-upgrade",
    "selected-node-janitor": "selected-node-janitor",
}
#: Controllers that are off by default and run beside those of kube-controller-manager, by the process that runs them.
OPTIONAL_CONTROLLERS: Final[Mapping[str, tuple[str, ...]]] = {
    "recovery": ("lost-storage-controller", "unused-claim-controller"),
    "preset-nodes": ("preset-node-controller",),
}
#: Of the example's driver: the one by which its provisioners are elected, when it was asked last for its capacity, and
#: the provisioner's announcement.
_EXAMPLE_LEASES: Final = (
    "hostpath-csi-mooring-dev",
    "capacity-hostpath-csi-mooring-dev",
    "mooring-provisioner-hostpath-csi-mooring-dev-announcement",
)


class Installed(msgspec.Struct, frozen=True):
    """One process: its account, and all its objects, are called `mooring-<name>`."""

    name: str
    #: Whose rights it has.
    components: tuple[str, ...]
    #: The Leases it renews.
    leases: tuple[str, ...] = ()
    rules: tuple[PolicyRule, ...] = ()
    #: In its own namespace only.
    local: tuple[PolicyRule, ...] = ()

    @property
    def account(self) -> str:
        return f"mooring-{self.name}"

    def manifests(self, namespace: str = NAMESPACE) -> list[dict[str, Any]]:
        """Account, roles and bindings."""
        identities = [identity_of(component) for component in self.components]
        everywhere = merged([*(rule for each in identities for rule in each.rules), *self.rules])
        own = (rule for each in identities for rules in each.local.values() for rule in rules if not _any_lease(rule))
        here = merged([*own, *self._elections(), *self.local])
        subject = account(self.account, namespace)
        bodies = [
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": self.account, "namespace": namespace},
            },
            role(self.account, *everywhere).body(),
            binding(self.account, subject).body(),
        ]
        if here:
            bodies.append(role(self.account, *here, namespace=namespace).body())
            bodies.append(binding(self.account, subject, namespace=namespace).body())
        return bodies

    def _elections(self) -> list[PolicyRule]:
        if not self.leases:
            return []
        # RBAC cannot say which names may be created, nor which may be listed.
        return [
            rule("create list", "leases", COORDINATION),
            rule("get patch", "leases", COORDINATION, names=" ".join(self.leases)),
        ]


def _any_lease(one: PolicyRule) -> bool:
    """Identities serve any driver and process; here all are known, and so are the names of their Leases."""
    return one.resources == ("leases",) and not one.resource_names


def _process(name: str, *components: str, rules: Iterable[PolicyRule] = ()) -> Installed:
    """One that is elected by a Lease of its name, and announces itself by another."""
    return Installed(name, components, (f"mooring-{name}", f"mooring-{name}-announcement"), tuple(rules))


PROCESSES: Final[Mapping[str, Installed]] = {
    process.name: process
    for process in (
        _process("scheduler", "default-scheduler"),
        _process(
            "coordinator",
            "mooring-coordinator",
            # Whether ordinary users can write where holds point to.
            rules=[rule("create", "subjectaccessreviews", AUTHORIZATION)],
        ),
        _process("controller", *CONTROLLERS.values()),
        *(_process(name, *components) for name, components in OPTIONAL_CONTROLLERS.items()),
        # It is asked which nodes will do, and binds nothing; all instances answer, and announce themselves as one.
        Installed("extender", ("extender",), ("mooring-extender-announcement",)),
        # The owner of its capacity objects is the Deployment, which its pod knows by way of a ReplicaSet.
        Installed("provisioner", ("mooring-provisioner",), _EXAMPLE_LEASES, local=(rule("get", "replicasets", APPS),)),
        # Not elected: it ends when nothing is held any more, and then collects the records.
        Installed("drain", ("mooring-coordinator",), local=(rule("delete list", "configmaps"),)),
    )
}


def merged(rules: Iterable[PolicyRule]) -> list[PolicyRule]:
    """The same rights in as few rules as are easy to read: one per group, set of verbs and names."""
    verbs: dict[tuple[str, str, tuple[str, ...]], set[str]] = defaultdict(set)
    for one in rules:
        for group in one.api_groups:
            for resource in one.resources:
                verbs[group, resource, one.resource_names] |= set(one.verbs)
    together: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, resource, names), allowed in verbs.items():
        together[group, tuple(sorted(allowed)), names].append(resource)
    return [
        PolicyRule(allowed, (group,), tuple(sorted(resources)), names)
        for (group, allowed, names), resources in sorted(together.items())
    ]
