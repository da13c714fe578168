"""Checks of schedulers and components: two schedulers for one pod, rejected pods, version skew, missing rights. Pure.

Rights are computed from listed roles and bindings as the API server's RBAC authorizer computes them; rights from other
authorizers (webhooks, node authorizer) are not visible.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, groupby
from typing import Final, NamedTuple

from mooring.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, EVENT, LEASE, POD, ROLE, ROLE_BINDING
from mooring.api.times import time_or_none
from mooring.api.views.core import Event, PolicyRule, RoleBinding, Subject, aggregated_rules
from mooring.cluster.identities import IDENTITIES
from mooring.control.component_info import LEASE_DURATION_SECONDS, ComponentInfo, read_component_info, skews
from mooring.doctor.findings import MAX_LISTED, Finding, Severity
from mooring.explain.cluster_objects import ClusterObjects, component_of, moment
from mooring.explain.cluster_view import ClusterView, has_no_scheduler
from mooring.explain.provisioning import CLOCK_SKEW_SECONDS
from mooring.explain.text import counted_noun, listed_names
from mooring.scheduler.kubelet_rejections import pods_of_other_schedulers, rejection_message, rejection_of
from mooring.server.auth.authenticator import authenticated
from mooring.server.auth.coverage import RulesTooWide, missing_rights
from mooring.server.auth.rbac import PolicyIndex, described, service_account

#: Event reasons that only a scheduler writes.
OF_SCHEDULERS: Final = frozenset({"Scheduled", "FailedScheduling"})
#: Times that another instance reports in turn: one change of leader is one, a failed takeover two.
MAX_HANDOVERS: Final = 2
#: ClusterRoles that a second scheduler needs both of; Kubernetes' guide on multiple schedulers binds them apart.
KUBE_SCHEDULER: Final = "system:kube-scheduler"
VOLUME_SCHEDULER: Final = "system:volume-scheduler"
SERVICE_ACCOUNT: Final = "ServiceAccount"
#: Component in the Lease of a process -> its row of rights, where the names differ.
_RIGHTS_OF: Final[Mapping[str, str]] = {"scheduler": "default-scheduler"}


def scheduler_findings(view: ClusterView) -> Iterator[Finding]:
    """Pods that two schedulers decide about."""
    by_pod: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
    by_name: defaultdict[str, list[Event]] = defaultdict(list)
    for event in view.objects.of(EVENT):
        if event.reason in OF_SCHEDULERS:
            about = event.involved_object
            by_pod[about.namespace, about.name, about.uid].add(component_of(event))
            by_name[component_of(event)].append(event)
    shared: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for (namespace, name, _), components in sorted(by_pod.items()):
        if len(components) > 1:
            shared[tuple(sorted(components))].append(f"{namespace}/{name}")
    for names, pods in shared.items():
        yield _two_schedulers(
            f"Scheduler {' and '.join(names)}",
            f"{len(names)} schedulers report about the same {counted_noun(len(pods), 'pod')}.",
            (f"pods: {listed_names(pods, MAX_LISTED)}",),
            len(pods),
        )
    for name, events in sorted(by_name.items()):
        instances = _in_turn(events)
        if len(instances) - 1 > MAX_HANDOVERS and len(set(instances)) > 1:
            listed = listed_names([each or "an instance without a name" for each in sorted(set(instances))], MAX_LISTED)
            yield _two_schedulers(
                f"Scheduler {name}",
                f'{len(set(instances))} instances write events for schedulerName "{name}" in turn: more than one is '
                "active.",
                (f"instances: {listed}", f"changes between them: {len(instances) - 1}"),
                len({event.involved_object.uid for event in events}),
            )


def _in_turn(events: Sequence[Event]) -> list[str]:
    """Instances in the order of their events, each once until another one follows."""
    ordered = sorted(events, key=lambda one: (moment(one), one.key))
    return [instance for instance, _ in groupby(event.reporting_instance or event.source.host for event in ordered)]


def _two_schedulers(item: str, problem: str, evidence: tuple[str, ...], affected: int) -> Finding:
    return Finding(
        severity=Severity.ERROR,
        code="TwoSchedulers",
        object=item,
        problem=f"{problem} Each decides without knowing what the other has assumed, and claims may get a selected "
        "node twice.",
        evidence=evidence,
        fix="give the second scheduler a schedulerName of its own, or enable leader election with the same Lease for "
        "both",
        affected=affected,
    )


def absent_scheduler_findings(view: ClusterView) -> Iterator[Finding]:
    waiting: defaultdict[str, list[str]] = defaultdict(list)
    for pod in view.objects.of(POD):
        if not pod.finished and not pod.deleting and has_no_scheduler(pod, view.events):
            waiting[pod.spec.scheduler_name].append(pod.key)
    for name, pods in sorted(waiting.items()):
        yield Finding(
            severity=Severity.ERROR,
            code="SchedulerAbsent",
            object=f"Scheduler {name}",
            problem=f'{counted_noun(len(pods), "pod")} with schedulerName "{name}" wait, and nothing shows that it '
            "runs.",
            evidence=(f"pods: {listed_names(sorted(pods), MAX_LISTED)}", "no events and no PodScheduled condition"),
            fix=f'start scheduler "{name}", or create the pods again with another schedulerName',
            affected=len(pods),
        )


def rejection_findings(view: ClusterView) -> Iterator[Finding]:
    """Pods whose kubelet rejected them because another pod had the resources."""
    by_node: defaultdict[str, list[str]] = defaultdict(list)
    snapshot, _ = view.as_listed
    for pod in sorted(view.objects.of(POD), key=lambda one: one.key):
        rejection = rejection_of(pod)
        if rejection is not None and rejection.lost_a_race:
            others = pods_of_other_schedulers(snapshot.pods_on(rejection.node), {pod.spec.scheduler_name})
            by_node[rejection.node].append(f"{pod.key}: {rejection_message(rejection, others)}")
    for node, texts in sorted(by_node.items()):
        yield Finding(
            severity=Severity.WARNING,
            code="PodRejectedByKubelet",
            object=f"Node {node}",
            problem=f"its kubelet rejected {counted_noun(len(texts), 'pod')} whose resources another pod already had.",
            evidence=tuple(texts[:MAX_LISTED]),
            fix="keep the nodes of two schedulers apart by taints or node affinity, or let one scheduler serve all "
            "pods",
            affected=len(texts),
        )


class _Announced(NamedTuple):
    lease: str
    info: ComponentInfo
    #: Seconds since the renewal that was due; None if the time of listing is not known.
    late: float | None


def _announced(objects: ClusterObjects) -> Iterator[_Announced]:
    now = objects.moment
    for lease in sorted(objects.of(LEASE), key=lambda one: one.key):
        if (info := read_component_info(lease)) is not None:
            renewed = time_or_none(lease.spec.renew_time)
            late = None if now is None or renewed is None else now - renewed - LEASE_DURATION_SECONDS
            yield _Announced(lease.key, info, late)


def current_components(objects: ClusterObjects) -> Iterator[tuple[str, ComponentInfo]]:
    """Mooring's processes that seem to run, with the keys of their Leases."""
    return ((one.lease, one.info) for one in _announced(objects) if one.late is None or one.late <= CLOCK_SKEW_SECONDS)


def component_findings(view: ClusterView) -> Iterator[Finding]:
    """Processes of different versions or feature gates, and processes that stopped without removing their Lease."""
    running = list(current_components(view.objects))
    for (lease, mine), (other, theirs) in combinations(running, 2):
        for problem in skews(mine, theirs):
            yield Finding(
                severity=Severity.WARNING,
                code="ComponentSkew",
                object=f"Lease {lease}",
                problem=f"{problem}.",
                evidence=(f"Lease {lease}", f"Lease {other}"),
                fix="install the same version of all components, with the same --feature-gates, and wait for the "
                "roll-out",
            )
    for one in _announced(view.objects):
        if one.late is not None and one.late > CLOCK_SKEW_SECONDS:
            yield Finding(
                severity=Severity.WARNING,
                code="ComponentSilent",
                object=f"Lease {one.lease}",
                problem=f"{one.info.process} has not renewed its Lease for {one.late + LEASE_DURATION_SECONDS:.0f} s: "
                "it "
                "stopped, or cannot reach the API server.",
                evidence=(f"version {one.info.version}", f"components: {', '.join(sorted(one.info.components))}"),
                fix=f"check its pods and logs; if it was uninstalled: kubectl -n {one.lease.partition('/')[0]} delete "
                "lease "
                f"{one.lease.partition('/')[2]}",
            )


class ListedPolicy:
    """Roles and bindings of a cluster, asked what a service account may do."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._index = PolicyIndex()
        self.cluster_bindings: Sequence[RoleBinding] = sorted(
            objects.of(CLUSTER_ROLE_BINDING), key=lambda one: one.name
        )
        self.cluster_roles = {one.name: one for one in objects.of(CLUSTER_ROLE)}
        for role in (*self.cluster_roles.values(), *objects.of(ROLE)):
            self._index.put_role(role)
        for binding in (*self.cluster_bindings, *objects.of(ROLE_BINDING)):
            self._index.put_binding(binding)
        #: Namespace and name of all bound service accounts.
        self.accounts = {
            (subject.namespace or binding.namespace, subject.name)
            for binding in (*self.cluster_bindings, *objects.of(ROLE_BINDING))
            for subject in binding.subjects
            if subject.kind == SERVICE_ACCOUNT
        }

    def missing(self, namespace: str, name: str, needed: Sequence[PolicyRule]) -> tuple[int, tuple[str, ...]]:
        """How many of the needed rights a service account lacks in its namespace; missing roles and rights as text."""
        held = self._index.rules_of(authenticated(service_account(namespace, name)), namespace)
        undefined = (f"{role.kind} {role.name}, to which it is bound, does not exist" for role in held.missing)
        try:
            found = missing_rights(held.rules, needed)
        except RulesTooWide:
            return 0, ()
        texts = tuple(described(one) for one in found.rights[:MAX_LISTED])
        return len(found.rights) + found.more, (*undefined, *texts)

    def rules_of_role(self, name: str) -> tuple[PolicyRule, ...]:
        role = self.cluster_roles.get(name)
        return () if role is None else aggregated_rules(role, self.cluster_roles.values())

    def bound_to(self, role: str) -> Iterator[Subject]:
        for binding in self.cluster_bindings:
            if binding.role_ref.name == role:
                yield from (subject for subject in binding.subjects if subject.kind == SERVICE_ACCOUNT)


def permission_findings(view: ClusterView) -> Iterator[Finding]:
    policy = ListedPolicy(view.objects)
    yield from _second_schedulers(policy)
    yield from _component_rights(policy, view.objects)


def _second_schedulers(policy: ListedPolicy) -> Iterator[Finding]:
    """Service accounts with the rights of a scheduler and without those to bind volumes."""
    needed = policy.rules_of_role(VOLUME_SCHEDULER)
    for namespace, name in sorted({(one.namespace, one.name) for one in policy.bound_to(KUBE_SCHEDULER)}):
        number, texts = policy.missing(namespace, name, needed)
        if number:
            bind = f"kubectl create clusterrolebinding {name}-volumes --clusterrole={VOLUME_SCHEDULER}"
            yield _missing_rights(
                namespace, name, number, texts, f"it is bound to {KUBE_SCHEDULER} and may not bind volumes", bind
            )


def _component_rights(policy: ListedPolicy, objects: ClusterObjects) -> Iterator[Finding]:
    """Mooring's processes whose service account lacks rights of this version."""
    for lease, info in current_components(objects):
        namespace = lease.partition("/")[0]
        names = [name for place, name in policy.accounts if place == namespace and _is_of(info.process, name)]
        rows = [IDENTITIES.get(_RIGHTS_OF.get(component, component)) for component in sorted(info.components)]
        needed = [rule for row in rows if row is not None for rule in row.rules]
        if names and needed:
            name = max(names, key=len)
            number, texts = policy.missing(namespace, name, needed)
            if number:
                problem = f"{info.process} runs with it"
                yield _missing_rights(
                    namespace, name, number, texts, problem, "apply the manifests of the installed version again"
                )


def _is_of(process: str, account: str) -> bool:
    """Whether a process seems to run with an account: a provisioner has its driver in its name besides."""
    return process == account or process.startswith(f"{account}-")


def _missing_rights(namespace: str, name: str, number: int, texts: tuple[str, ...], problem: str, fix: str) -> Finding:
    grant = f"{fix} --serviceaccount={namespace}:{name}" if fix.startswith("kubectl") else fix
    return Finding(
        severity=Severity.ERROR,
        code="PermissionMissing",
        object=f"ServiceAccount {namespace}/{name}",
        problem=f"{problem}: {counted_noun(number, 'right')} missing.",
        evidence=texts,
        fix=grant,
        affected=number,
    )
