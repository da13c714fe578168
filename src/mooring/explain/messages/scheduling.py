"""Messages of the scheduler about nodes and unschedulable pods, of kubelets and the attach/detach controller, and of
kubectl in the first minutes with a cluster."""

from functools import partial
from typing import Final

from mooring.explain.remedies import data_loss
from mooring.explain.results import Message

_rejected = partial(Message, source="kubelet, in the status of a pod that failed")
_mounting = partial(Message, source="kubelet, in the event FailedMount of a pod")
_attacher = partial(Message, source="attach/detach controller, in the event FailedAttachVolume of a pod")
_FINAL: Final = "The pod has failed permanently: its controller creates another, which is scheduled again."

KUBELET: Final = (
    _rejected(
        text="Node didn't have enough resource: <resource>, requested: <requested>, used: <used>, capacity: <capacity>",
        older_texts=("Node didn't have enough resource: <resource>", "OutOfcpu", "OutOfmemory", "OutOfpods"),
        meaning="The kubelet had fewer free resources than the scheduler assumed: another scheduler, or a client that "
        f"sets nodeName, bound pods to the node at the same time. {_FINAL}",
        action="Have one scheduler only bind pods to a node. A failed pod without a controller stays until removed.",
    ),
    _rejected(
        text="Predicate <predicate> failed: <why>",
        meaning=f"The kubelet rejected the pod because of the node's labels, ports or taints. {_FINAL}",
        action="Do not set nodeName; check what changed on the node since the pod was scheduled.",
    ),
    _mounting(
        text='MountVolume.NodeAffinity check failed for volume "<volume>" : no matching NodeSelectorTerms',
        older_texts=("Storage node affinity check failed for volume <volume> : no matching NodeSelectorTerms",),
        meaning="The pod is on a node that cannot access its volume: the pod was created with nodeName, or the node's "
        "labels changed.",
        action=f"Do not set nodeName. To have it scheduled again: {data_loss.THIS_POD}.",
    ),
    _mounting(
        text="error processing PVC <claim>: PVC is not bound",
        older_texts=("PVC is not bound",),
        meaning="The pod has a node and its claim has no volume: the pod was created with nodeName, so no scheduler "
        "selects a node for a claim with WaitForFirstConsumer.",
        action=f"Create the pod without nodeName; use a nodeSelector instead. {data_loss.sentence(data_loss.THIS_POD)}",
    ),
    Message(
        text="PVC <claim> is being rolled back",
        source="Mooring's node agent, in the event FailedMount of a pod",
        meaning="The claim's unused volume is being rolled back, so that the pod can be scheduled elsewhere.",
        action="Wait.",
    ),
    _attacher(
        text='Multi-Attach error for volume "<volume>" <why>',
        meaning="The volume is still attached to another node and cannot be attached to two.",
        action=f"Wait until the other pod is deleted. If its node is unreachable: {data_loss.ANY_NODE}.",
    ),
    _attacher(
        text='AttachVolume.Attach failed for volume "<volume>" : <why>',
        meaning="The driver could not attach the volume to the node.",
        action="Check the error and the driver's log. If it is about a limit, the node supports fewer volumes than its "
        "CSINode states.",
    ),
)


_scheduler = partial(Message, source="scheduler, in the event FailedScheduling of a pod")
_mooring = partial(Message, source="Mooring's scheduler, in the event FailedScheduling of a pod")

NODES: Final = (
    _scheduler(
        text="Insufficient <resource>",
        meaning="The requests of the pods on the node plus those of this pod exceed the node's allocatable resources. "
        "Requests count, not actual usage.",
        action="Add a node, lower the pod's requests or those of others, or move other pods to other nodes. A pod that "
        "requests more than any node has never fits.",
    ),
    _scheduler(
        text="Too many pods",
        meaning="The node has reached its maximum number of pods.",
        action="Add a node, or raise the kubelet's maxPods.",
    ),
    _scheduler(
        text="node(s) were unschedulable",
        meaning="The node was cordoned.",
        action="kubectl uncordon the node when it may accept pods again.",
    ),
    _scheduler(
        text="node(s) didn't match Pod's required features",
        meaning="The pod uses a feature that the node's kubelet does not list in status.declaredFeatures.",
        action="Upgrade the node's kubelet, enable its feature gate, or remove the feature from the pod: a restart "
        "rule with the action RestartAllContainers, or hostNetwork together with hostUsers: false.",
    ),
    _scheduler(
        text="node(s) had untolerated taint(s)",
        older_texts=(
            "node(s) had untolerated taint {<taint>}",
            "node(s) had taint {<taint>}, that the pod didn't tolerate",
            "node(s) had taints that the pod didn't tolerate",
            "PodToleratesNodeTaints",
        ),
        meaning="The node has a taint that the pod does not tolerate; the node controller taints nodes that are not "
        "ready.",
        action="For a not-ready or unreachable taint, repair the node: a pod that tolerates the taint does not run "
        "there either. Otherwise add a toleration to the pod if it may run there, or remove the taint.",
    ),
    _scheduler(
        text="node(s) didn't match Pod's node affinity/selector",
        older_texts=(
            "node(s) didn't match Pod's node affinity",
            "node(s) didn't match node selector",
            "MatchNodeSelector",
        ),
        meaning="The pod's nodeSelector or its required node affinity does not match the node's labels. An invalid "
        "term, such as Gt with a value that is not an integer, matches no node.",
        action="Label nodes, or change the pod's affinity. If a bound volume of the pod is accessible only from other "
        "nodes, no node is suitable.",
    ),
    _scheduler(
        text="node(s) didn't match the requested node name",
        older_texts=("node(s) didn't match the requested hostname",),
        meaning="The pod requests another node by name.",
        action="Remove spec.nodeName from the pod, and use a nodeSelector on kubernetes.io/hostname instead.",
    ),
    _scheduler(
        text="node(s) didn't have free ports for the requested pod ports",
        meaning="A pod on the node uses a host port that this pod requests.",
        action=f"Use another host port or none. {data_loss.sentence(data_loss.ANY_POD)}",
    ),
    _scheduler(
        text="node(s) didn't match pod topology spread constraints",
        meaning="With the pod, the node's topology domain would exceed maxSkew over the domain with the fewest "
        "matching pods.",
        action="Make the domains with the fewest pods schedulable, raise maxSkew, or use ScheduleAnyway. A pod with a "
        "bound zonal volume cannot run in another zone.",
    ),
    _scheduler(
        text="node(s) didn't match pod topology spread constraints (missing required label)",
        meaning="The node lacks a label that the pod's topology spread constraints count by.",
        action="Label the node, or spread by a label that all nodes have.",
    ),
    _scheduler(
        text="node(s) didn't match pod affinity rules",
        older_texts=(
            "node(s) didn't match pod affinity/anti-affinity rules",
            "node(s) didn't match pod affinity/anti-affinity",
        ),
        meaning="The pod requires other pods in the same topology domain, and this node's domain has none.",
        action="Check that the other pods run, and that they and the pod's volumes can share a topology domain.",
    ),
    _scheduler(
        text="node(s) didn't match pod anti-affinity rules",
        meaning="The pod's anti-affinity excludes pods that run in this node's topology domain.",
        action="Add nodes or zones, or make the anti-affinity preferred instead of required.",
    ),
    _scheduler(
        text="node(s) didn't satisfy existing pods anti-affinity rules",
        older_texts=("node(s) didn't satisfy existing pods' anti-affinity rules",),
        meaning="The anti-affinity of pods in this node's topology domain excludes this pod.",
        action="Add nodes or zones, or relax the anti-affinity of those pods.",
    ),
    _scheduler(
        text="no nodes available to schedule pods",
        meaning="The cluster has no nodes.",
        action="Add nodes.",
    ),
    Message(
        text="Scheduling is blocked due to non-empty scheduling gates",
        source="API server, in the condition PodScheduled of a pod",
        meaning="The controller that set the pod's schedulingGates has not removed them yet.",
        action="Find out which controller sets the gates, for example a queueing system, and what it waits for.",
    ),
    _mooring(
        text='schedulerName "<scheduler>" is not served by any profile; available: <names>',
        meaning="No profile of this scheduler has the pod's schedulerName.",
        action="Correct spec.schedulerName, or start the scheduler of that name.",
    ),
    _mooring(
        text="mooring does not support resourceClaims yet",
        meaning="The pod needs devices through resourceClaims, which Mooring's scheduler does not allocate.",
        action="Leave the pod to kube-scheduler with spec.schedulerName.",
    ),
    _mooring(
        text="mooring does not support schedulingGroup yet: pods of a group are not scheduled one by one",
        meaning="The pod belongs to a PodGroup, whose pods must be scheduled together or not at all, and Mooring's "
        "scheduler cannot read PodGroups: the API server does not serve them, or denies to list them. A pod scheduled "
        "alone could hold resources that the others need.",
        action="Leave the pods of the group to kube-scheduler with spec.schedulerName, or create them without "
        "spec.schedulingGroup if each may run alone.",
    ),
    _scheduler(
        text="node(s) didn't satisfy plugin(s) [<plugin>]",
        meaning="The pod's required node affinity names its nodes in matchFields, as that of a DaemonSet's pods does, "
        "and these nodes are not among them.",
        action="Check the reasons for the nodes that it names.",
    ),
    _scheduler(
        text="pod affinity terms conflict",
        meaning="Every term of the pod's required node affinity names two different nodes in matchFields.",
        action="Create the pod again with terms that name one node each.",
    ),
    _mooring(
        text="pod's affinity to other pods cannot be parsed: <problem>",
        meaning="A label selector in the pod's affinity or anti-affinity is invalid.",
        action="Create the pod again with a valid selector.",
    ),
    _mooring(
        text="pod's nodeSelector cannot be parsed: <problem>",
        meaning="A key or value of the pod's nodeSelector is not a valid label.",
        action="Create the pod again with a valid nodeSelector.",
    ),
    _mooring(
        text="pod's topology spread constraints cannot be parsed: <problem>",
        meaning="A label selector in the pod's topology spread constraints is invalid.",
        action="Create the pod again with a valid selector.",
    ),
    _mooring(
        text="pod's resource requests cannot be parsed: <problem>",
        meaning="A resource quantity that the pod requests is invalid.",
        action="Create the pod again with quantities such as 500m or 1Gi.",
    ),
    _scheduler(
        text="No preemption victims found for incoming pod",
        meaning="Evicting pods of lower priority would not make the pod fit.",
        action="Check the reasons before this one: preemption needs no action.",
    ),
    _scheduler(
        text="Preemption is not helpful for scheduling",
        meaning="Evicting pods would not resolve why these nodes were rejected, for example inaccessible volumes.",
        action="Check the reasons before this one: preemption needs no action.",
    ),
    _scheduler(
        text="found a potential placement for pod on node <node>, preempting <count> victims",
        meaning="Pods of lower priority are being evicted from this node to make room for the pod.",
        action="Wait until they are deleted. If they stay, check their finalizers, node and grace period.",
    ),
    _scheduler(
        text="not eligible due to preemptionPolicy=Never.",
        meaning="The pod's priority class does not allow preemption.",
        action="Check the reasons before this one, or use a class that may preempt.",
    ),
    _scheduler(
        text="not eligible due to a terminating pod on the nominated node.",
        meaning="Pods are already being evicted for this pod.",
        action="Wait until they are deleted. If they stay, check their finalizers, node and grace period.",
    ),
)

_API_SERVER: Final = "Mooring's API server, through kubectl"
_KUBECTL: Final = "kubectl"

FIRST_MINUTES: Final = (
    Message(
        text="pods are simulated and run no containers: <reason>",
        source=_API_SERVER,
        meaning="The nodes of an embedded cluster simulate kubelets. A pod is scheduled, gets its volumes and becomes "
        "ready, but no process runs: kubectl logs, exec, attach, cp and port-forward have nothing to talk to.",
        action="Run kubectl describe pod or mooring timeline pod/NAME to see what happened to the pod. To run "
        "containers, use a cluster with real nodes.",
    ),
    Message(
        text='no matches for kind "<kind>" in version "<version>"',
        source=_KUBECTL,
        meaning="The API server does not serve this kind. An embedded cluster has no custom resources and leaves out "
        "kinds that nothing in it would act on, such as Job, CronJob and Ingress.",
        action="Run mooring docs kinds for the kinds that are served. Leave the object out, or use a real API server: "
        "mooring nodeagent adds simulated nodes to it.",
        older_texts=("ensure CRDs are installed first",),
    ),
    Message(
        text="this API server has no custom resources: <reason>",
        source=_API_SERVER,
        meaning="An embedded cluster serves a fixed set of kinds. A CustomResourceDefinition would add one that no "
        "component in it acts on.",
        action="Leave the definitions and their objects out; mooring docs kinds lists the kinds that are served. To "
        "test an operator with its CRDs, use a real API server: mooring nodeagent adds simulated nodes to it.",
    ),
    Message(
        text="the server could not find the requested resource",
        source=_KUBECTL,
        meaning="The API server does not serve this path: the kind or the subresource does not exist there.",
        action="Run kubectl api-resources and mooring docs kinds for what is served.",
    ),
    Message(
        text="Metrics API not available",
        source=_KUBECTL,
        meaning="kubectl top needs a metrics server. An embedded cluster has none, because its pods use no resources.",
        action="Run mooring explain node/NAME for what the pods of a node request.",
    ),
    Message(
        text="ephemeral containers are disabled for this cluster",
        source=_KUBECTL,
        meaning="kubectl debug adds a container to a pod. Simulated nodes run no containers.",
        action="Run mooring explain pod/NAME or mooring timeline pod/NAME instead.",
    ),
    Message(
        text="version difference between client (<version>) and server (<version>) exceeds the supported minor version "
        "skew",
        source=_KUBECTL,
        meaning="kubectl is older or newer than the API server by more than one minor version. An embedded cluster has "
        "the API of a recent Kubernetes release; its tests use kubectl 1.30 and newer.",
        action="Most commands work. If one fails with an unknown flag or field, install a newer kubectl.",
    ),
    Message(
        text="kubectl <version> is older than <version>, the oldest version that is supported: <consequence>",
        source=_API_SERVER,
        meaning="kubectl sends its version with every request. Versions before 1.30 read and write objects, but "
        "commands that use newer parts of the API, such as kubectl explain, fail.",
        action="Install kubectl 1.30 or newer, and check with kubectl version --client that the PATH finds it first.",
    ),
    Message(
        text="The connection to the server <address> was refused",
        source=_KUBECTL,
        meaning="No API server listens at the address in the kubeconfig: the cluster was stopped, or kubectl uses "
        "another kubeconfig than you think.",
        action="Start the cluster again with mooring up, and repeat the line with export KUBECONFIG that it prints.",
    ),
    Message(
        text="x509: certificate signed by unknown authority",
        source=_KUBECTL,
        meaning="The kubeconfig belongs to another cluster at the same address: a cluster in memory, or in another "
        "folder, has certificates of its own.",
        action="Repeat the line with export KUBECONFIG that mooring up prints.",
    ),
    Message(
        text="Port <port> on <address> is already in use",
        source="mooring",
        meaning="Another program, often another mooring up, listens on this port.",
        action="Stop that program, or choose another port with --port; 0 picks a free one.",
    ),
)
