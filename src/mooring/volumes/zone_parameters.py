"""Where a class lets volumes be made, told in its `allowedTopologies` or in the parameters that came before them.

`zone` and `zones` were parameters of the provisioners for GCE and AWS disks. They are read as the topology they mean,
by whoever looks at a class: scheduler and provisioners alike. A class that says both is refused on creation.
"""

from typing import Final

from mooring.api import keys
from mooring.api.views.storage import StorageClass, TopologyRequirement, TopologyTerm
from mooring.volumes.in_tree import driver_of

PARAMETERS: Final = ("zone", "zones")

#: Who took these parameters: in-tree plugins, and the drivers that took over.
PLUGINS: Final = ("kubernetes.io/gce-pd", "kubernetes.io/aws-ebs")
PROVISIONERS: Final = frozenset((*PLUGINS, *map(driver_of, PLUGINS)))


def zones(storage_class: StorageClass) -> tuple[str, ...]:
    """The zones that the parameters name, in order; empty where they name none or mean something else."""
    if storage_class.provisioner not in PROVISIONERS:
        return ()
    said = ",".join(storage_class.parameters.get(name, "") for name in PARAMETERS)
    return tuple(dict.fromkeys(zone.strip() for zone in said.split(",") if zone.strip()))


def allowed_topologies(storage_class: StorageClass) -> tuple[TopologyTerm, ...]:
    """The topologies a class allows, in whichever way it says so; empty where it allows all."""
    if storage_class.allowed_topologies:
        return storage_class.allowed_topologies
    named = zones(storage_class)
    return (TopologyTerm((TopologyRequirement(keys.ZONE, named),)),) if named else ()
