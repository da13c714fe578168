"""Messages about PodGroups and their members: kube-scheduler's, and Mooring's events on groups."""

from functools import partial
from typing import Final

from mooring.explain.remedies import data_loss
from mooring.explain.results import Message

_group = partial(Message, source="scheduler, in the condition PodGroupInitiallyScheduled and in FailedScheduling")
_kept = partial(Message, source="scheduler, while a pod is kept out of its queue")
_permit = partial(Message, source="kube-scheduler, in the event FailedScheduling of a pod")
_mooring = partial(Message, source="Mooring, in an event of a PodGroup")

_EXPLAIN: Final = "`mooring explain podgroup/NAME` shows what limits the group and what would help."
_ALIKE: Final = "Create the pods of the group again with the same value."

POD_GROUPS: Final = (
    _group(
        text="minCount (<count>) cannot be satisfied: <count> scheduled, <count> remaining",
        meaning="Too few members of the group fit at the same time: the first number found a node, and with those that "
        "are left minCount cannot be reached. No member is bound.",
        action=f"{_EXPLAIN} Add what it names, or lower minCount.",
    ),
    _group(
        text="minCount (<count>) is not yet satisfied: <count> scheduled, <count> remaining",
        meaning="All members were tried, and fewer than minCount found a node. No member is bound.",
        action=f"{_EXPLAIN} Add what it names, or lower minCount.",
    ),
    _group(
        text="pod group is unschedulable, 0/<count> placements are available, first placement status: <why>",
        meaning="No value of the topology constraint's label has nodes for the whole group. Members that are bound fix "
        "the value for all others.",
        action=f"{_EXPLAIN} It lists each domain.",
    ),
    _group(
        text="pod group is unschedulable",
        meaning="This pod found a node, and its group did not: members of a gang are bound together or not at all.",
        action=_EXPLAIN,
    ),
    _group(
        text="no feasible placements found",
        meaning="No node has the label of the group's topology constraint.",
        action="Label the nodes, or create the PodGroup again with another key: the constraint is immutable.",
    ),
    _group(
        text="cannot determine domain for already scheduled pods: more than 1 domain found for pod group: <domains>",
        meaning="Members of a group with a topology constraint are bound in several domains. No further member is "
        "scheduled.",
        action=f"Choose one domain. For the members in the others: {data_loss.THESE_PODS}.",
    ),
    _group(
        text="all pods in a single pod group should have the same .spec.schedulerName set, got: <name> and <name>",
        meaning="Members of the group name different schedulers.",
        action=_ALIKE,
    ),
    _group(
        text="all pods in a single pod group should have the same priority as the pod group's priority, got <priority> "
        "and <priority>",
        meaning="A member has another priority than its PodGroup.",
        action="Create the pods again with the priorityClassName of the PodGroup.",
    ),
    _group(
        text="all pods in a single pod group should have the same preemption policy, got <policy> and <policy>",
        meaning="Members of the group have different preemption policies.",
        action=_ALIKE,
    ),
    _group(
        text="pod group preemption: No preemption victims found for incoming preemptor",
        meaning="No pod has a lower priority than the group.",
        action=f"Nothing to do about preemption. {_EXPLAIN}",
    ),
    _group(
        text="found a placement for podgroup, preempting <count> victims",
        meaning="Pods of lower priority are being evicted, so that the whole group fits.",
        action="Wait until they have terminated.",
    ),
    _group(
        text="ongoing preemption on nominated nodes",
        meaning="Pods that were evicted for the group have not terminated.",
        action="Wait until they have terminated.",
    ),
    _kept(
        text="waiting for minCount pods from a gang to appear in scheduling queue",
        meaning="Fewer pods of the group exist than its minCount. Pods that have ended do not count; kube-scheduler "
        "also waits as long as one member has scheduling gates.",
        action="Create the missing pods, or lower minCount.",
    ),
    _kept(
        text="waiting for the preemption for this pod group to be finished",
        meaning="Pods that are evicted for the group have not terminated.",
        action="Wait.",
    ),
    _kept(
        text="<count> of <count> members exist",
        meaning="Fewer pods of the group exist than its minCount. The message names pods that do not count: those that "
        "ended, have scheduling gates or wait for another scheduler.",
        action="Create the missing pods, or lower minCount.",
    ),
    _kept(
        text="waiting for the PodGroup to be created",
        meaning="The pod names a PodGroup that does not exist. kube-scheduler reports nothing in this state.",
        action="Create the PodGroup, or create the pod again without spec.schedulingGroup.",
    ),
    _permit(
        text="waiting for minCount pods from a gang to be scheduled",
        meaning="The pod has a node and waits for siblings, at most five minutes.",
        action=f"Wait. {_EXPLAIN}",
    ),
    _permit(
        text="rejected due to timeout after waiting <time> at plugin GangScheduling",
        meaning="Siblings did not find nodes in time, and the pod gave up its node.",
        action=_EXPLAIN,
    ),
    _permit(
        text="failed to schedule other pod from a pod group: <why>",
        meaning="An error with one member ended the attempt for the whole group.",
        action="Check the error; the group is tried again.",
    ),
    _mooring(
        text="volumes are held until <count> members have theirs",
        meaning="The volumes of the members are reserved, and are committed to their claims together. No pod of the "
        "group is bound before.",
        action="Wait. `mooring explain podgroup/NAME` shows what is held and what is missing.",
    ),
    _mooring(
        text="<count> members have all their volumes, which are committed to their claims",
        meaning="The quorum has its volumes. They stay bound to their claims, and the pods are bound to their nodes.",
        action="Nothing: the group runs.",
    ),
    _mooring(
        text="the record of the group was deleted by another client: its held volumes are rolled back",
        meaning="A client deleted the ConfigMap that says which volumes are committed together. Members that had their "
        "volumes keep them; the others are scheduled again, and the group may be below its quorum until then.",
        action="Find out which client deletes ConfigMaps in the hold namespace, and deny it.",
    ),
    _mooring(
        text="no coordinator is active: the group's held volumes are neither committed nor rolled back before one runs "
        "again",
        meaning="Volumes of the group are held, and the coordinator's Lease has expired. The members wait: only a "
        "coordinator commits or rolls back what is held. No data is at risk, and the next coordinator goes on where "
        "the last one stopped.",
        action="Start the coordinator again. If it is not to come back, `mooring coordinator --drain` commits complete "
        "groups and rolls back the others.",
    ),
    _mooring(
        text="held volumes are rolled back (<reason>): <why>",
        meaning="Not all members of the quorum could get their volumes. What was held is released or deleted; no claim "
        "was bound, and no data is lost.",
        action="Check the reason. The group is tried again after a pause of at most five minutes.",
    ),
)
