"""What the scheduler says about nodes, apart from volumes, and about pods it cannot place at all."""

from typing import Final

from mooring.explain import data_loss
from mooring.explain.messages.contract import Message

_SCHEDULER: Final = "scheduler, in the event FailedScheduling of a pod"
_MOORING: Final = "Mooring's scheduler, in the event FailedScheduling of a pod"

NODES: Final = (
    Message(
        text="Insufficient <resource>",
        said_by=_SCHEDULER,
        means="What the pods on the node have requested, and what this one requests, is together more than the "
        "node has to give. Requests count, not what is really used.",
        now="Add a node, lower the pod's requests or those of others, or move other pods away. A pod that requests "
        "more than any node has never fits.",
    ),
    Message(
        text="Too many pods",
        said_by=_SCHEDULER,
        means="The node takes only so many pods.",
        now="Add a node, or raise the kubelet's maxPods.",
    ),
    Message(
        text="node(s) were unschedulable",
        said_by=_SCHEDULER,
        means="The node was cordoned.",
        now="kubectl uncordon the node when it may be used again.",
    ),
    Message(
        text="node(s) didn't match Pod's required features",
        said_by=_SCHEDULER,
        means="The pod uses something newer than the node, whose kubelet does not list it in status.declaredFeatures.",
        now="Upgrade the node's kubelet or switch its feature gate on, or take out of the pod what needs it: a restart "
        "rule with the action RestartAllContainers, or hostNetwork together with hostUsers: false.",
    ),
    Message(
        text="node(s) had untolerated taint(s)",
        older=(
            "node(s) had untolerated taint {<taint>}",
            "node(s) had taint {<taint>}, that the pod didn't tolerate",
            "node(s) had taints that the pod didn't tolerate",
            "PodToleratesNodeTaints",
        ),
        said_by=_SCHEDULER,
        means="The node has a taint that the pod does not tolerate; nodes that are not ready get some by themselves.",
        now="Where the taint says that the node is not ready or unreachable, see to the node: a pod that tolerates it "
        "does not run there either. Otherwise add a toleration to the pod if it may run there, or remove the taint.",
    ),
    Message(
        text="node(s) didn't match Pod's node affinity/selector",
        older=(
            "node(s) didn't match Pod's node affinity",
            "node(s) didn't match node selector",
            "MatchNodeSelector",
        ),
        said_by=_SCHEDULER,
        means="The pod's nodeSelector or its required node affinity does not match the node's labels. A term that "
        "cannot be understood, such as Gt with a value that is no integer, matches no node.",
        now="Label nodes, or change what the pod asks for. If a volume of the pod is elsewhere than the pod wants "
        "to be, no node will do.",
    ),
    Message(
        text="node(s) didn't match the requested node name",
        older=("node(s) didn't match the requested hostname",),
        said_by=_SCHEDULER,
        means="The pod asks for one node by name, and this is not it.",
        now="Remove spec.nodeName from the pod, and use a nodeSelector on kubernetes.io/hostname instead.",
    ),
    Message(
        text="node(s) didn't have free ports for the requested pod ports",
        said_by=_SCHEDULER,
        means="A pod on the node has a host port that this one wants.",
        now=f"Use another host port or none. {data_loss.sentence(data_loss.ANY_POD)}",
    ),
    Message(
        text="node(s) didn't match pod topology spread constraints",
        said_by=_SCHEDULER,
        means="There would be too many of these pods in the node's zone or on the node, compared with where there "
        "are fewest.",
        now="Make it possible for pods to run where there are fewest, raise maxSkew, or use ScheduleAnyway. A pod "
        "whose volume is in a crowded zone cannot go elsewhere.",
    ),
    Message(
        text="node(s) didn't match pod topology spread constraints (missing required label)",
        said_by=_SCHEDULER,
        means="The node lacks a label that the pod's topology spread constraints count by.",
        now="Label the node, or spread by a label that all nodes have.",
    ),
    Message(
        text="node(s) didn't match pod affinity rules",
        older=(
            "node(s) didn't match pod affinity/anti-affinity rules",
            "node(s) didn't match pod affinity/anti-affinity",
        ),
        said_by=_SCHEDULER,
        means="The pod wants to be near others, and there are none of those near this node.",
        now="See whether the others run, and whether they and the pod's volumes can be in one place.",
    ),
    Message(
        text="node(s) didn't match pod anti-affinity rules",
        said_by=_SCHEDULER,
        means="The pod must not be near others, and there are some near this node.",
        now="Add nodes or zones, or prefer to be apart instead of requiring it.",
    ),
    Message(
        text="node(s) didn't satisfy existing pods anti-affinity rules",
        older=("node(s) didn't satisfy existing pods' anti-affinity rules",),
        said_by=_SCHEDULER,
        means="Pods near this node must not have this one near them.",
        now="Add nodes or zones, or relax the anti-affinity of the pods that are there.",
    ),
    Message(
        text="no nodes available to schedule pods",
        said_by=_SCHEDULER,
        means="The cluster has no nodes.",
        now="Add nodes.",
    ),
    Message(
        text="Scheduling is blocked due to non-empty scheduling gates",
        said_by="API server, in the condition PodScheduled of a pod",
        means="Whoever put the pod's schedulingGates there has not removed them yet.",
        now="Find out who sets the gates, for example a queueing system, and what it waits for.",
    ),
    Message(
        text='no scheduler has the name "<scheduler>"; there is: <names>',
        said_by="Mooring's scheduler, in the event FailedScheduling of a pod",
        means="The pod's schedulerName is nobody's.",
        now="Correct spec.schedulerName, or start the scheduler of that name.",
    ),
    Message(
        text="mooring does not support resourceClaims yet",
        said_by=_MOORING,
        means="The pod needs devices through resourceClaims, which Mooring's scheduler does not hand out.",
        now="Leave the pod to kube-scheduler with spec.schedulerName.",
    ),
    Message(
        text="mooring does not support schedulingGroup yet: pods of a group are not placed one by one",
        said_by=_MOORING,
        means="The pod belongs to a PodGroup, whose pods are to be placed together or not at all. Mooring's scheduler "
        "cannot do that yet, and a pod placed alone could hold what the others need.",
        now="Leave the pods of the group to kube-scheduler with spec.schedulerName, or create them without "
        "spec.schedulingGroup if each may run alone.",
    ),
    Message(
        text="node(s) didn't satisfy plugin(s) [<plugin>]",
        said_by=_SCHEDULER,
        means="The pod's required node affinity names its nodes in matchFields, as that of a DaemonSet's pods does, "
        "and these nodes are others.",
        now="Look at the nodes that it names: what is said of those decides.",
    ),
    Message(
        text="pod affinity terms conflict",
        said_by=_SCHEDULER,
        means="Every term of the pod's required node affinity names two different nodes in matchFields.",
        now="Create the pod again with terms that name one node each.",
    ),
    Message(
        text="pod's affinity to other pods cannot be understood: <problem>",
        said_by=_MOORING,
        means="A label selector in the pod's affinity or anti-affinity makes no sense.",
        now="Create the pod again with a selector that does.",
    ),
    Message(
        text="pod's nodeSelector cannot be understood: <problem>",
        said_by=_MOORING,
        means="A key or value of the pod's nodeSelector is no label.",
        now="Create the pod again with one that is.",
    ),
    Message(
        text="pod's topology spread constraints cannot be understood: <problem>",
        said_by=_MOORING,
        means="A label selector in the pod's topology spread constraints makes no sense.",
        now="Create the pod again with a selector that does.",
    ),
    Message(
        text="pod's resource requests cannot be understood: <problem>",
        said_by=_MOORING,
        means="An amount that the pod requests is none.",
        now="Create the pod again with amounts such as 500m or 1Gi.",
    ),
    Message(
        text="No preemption victims found for incoming pod",
        said_by=_SCHEDULER,
        means="Evicting pods of lower priority would not make the pod fit.",
        now="Look at the reasons before this one: nothing needs to be done about preemption.",
    ),
    Message(
        text="Preemption is not helpful for scheduling",
        said_by=_SCHEDULER,
        means="What keeps the pod off these nodes does not change when others are evicted; volumes in another "
        "place do not.",
        now="Look at the reasons before this one: nothing needs to be done about preemption.",
    ),
    Message(
        text="not eligible due to preemptionPolicy=Never.",
        said_by=_SCHEDULER,
        means="The pod's priority class does not allow it to push others out.",
        now="Look at the reasons before this one, or use a class that may preempt.",
    ),
    Message(
        text="not eligible due to a terminating pod on the nominated node.",
        said_by=_SCHEDULER,
        means="Others are being evicted for the pod already.",
        now="Wait until they are gone. If they do not go, see what holds them: finalizers, a lost node, a long "
        "grace period.",
    ),
)
