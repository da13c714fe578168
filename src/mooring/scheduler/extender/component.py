"""The extender as a component: follows the cluster, and answers calls, bodies in and bodies out.

    informers ──► snapshot ──► judgement ──► filter, prioritize, preempt
                      ▲ promises
                      └────── bindings ────► bind

Judging never awaits, so the snapshot stands still while a verdict is made. Where the protocol has a field for errors
they are told there, with code 200, since kube-scheduler quotes nothing else; elsewhere by the code. Every replica acts:
there is nothing to be the leader of.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar, Final, NamedTuple

import structlog
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from mooring.api.views.pod import Pod
from mooring.control.component import Component, Context
from mooring.control.feature_gates import CLAIM_ROLLBACK, VOLUME_SCHEDULING, FeatureGates
from mooring.scheduler.contract import Plugin
from mooring.scheduler.extender import cluster_view, wire
from mooring.scheduler.extender.bindings import Bindings
from mooring.scheduler.extender.contact import Contact
from mooring.scheduler.extender.given_back import GivenBack
from mooring.scheduler.extender.judgement import Filtered, Judgement, NotKnownYet
from mooring.scheduler.extender.metrics import ExtenderMetrics, Outcome
from mooring.scheduler.extender.second_looks import MOMENT, SecondLooks
from mooring.scheduler.extender.settings import Mode, Settings
from mooring.scheduler.extender.wire import MalformedCall
from mooring.scheduler.plugins.claims_in_rollback import ClaimsInRollback
from mooring.scheduler.plugins.delayed_binding_off import DelayedBindingOff
from mooring.scheduler.snapshot import Snapshot

log: FilteringBoundLogger = structlog.get_logger(__name__)

NOT_READY: Final = "this extender has not listed the cluster yet"
DOES_NOT_BIND: Final = "this extender runs with --mode=filter and does not bind: take bindVerb out of the configuration"

OK: Final = 200
BAD_REQUEST: Final = 400
UNAVAILABLE: Final = 503


class Reply(NamedTuple):
    code: int
    body: bytes
    outcome: Outcome = Outcome.ANSWERED


class Extender:
    name: ClassVar[str] = "extender"

    def __init__(self, context: Context, settings: Settings, *, registry: CollectorRegistry | None = None) -> None:
        """`registry` is where its metrics shall appear."""
        self._context = context
        self._settings = settings
        self._clock = context.clock
        self._snapshot = Snapshot()
        self._judgement = Judgement(self._snapshot, policy=settings.policy, gatekeepers=_gatekeepers(context.gates))
        self._bindings = Bindings(context, self._snapshot, self._judgement, settings)
        self._given_back = GivenBack()
        self._second_looks = SecondLooks()
        now = self._clock.monotonic()
        self._contact = Contact(settings.scheduler_names, within=settings.called_within, now=now)
        self._metrics = ExtenderMetrics(registry or CollectorRegistry())
        self._metrics.watch(unasked=lambda: self._contact.unasked, under_way=lambda: self._bindings.under_way)
        self._verbs: dict[str, Callable[[bytes], Awaitable[Reply]]] = {
            "filter": self._filter,
            "prioritize": self._prioritize,
            "preempt": self._preempt,
            "bind": self._bind,
        }
        self._listed = False

    @property
    def ready(self) -> bool:
        return self._listed and not (self._settings.ready_only_when_called and self._silence())

    async def run(self) -> None:
        pods, claims = self._contact.observe, self._given_back.observe
        await cluster_view.follow(self._context, self._snapshot, pods=pods, claims=claims)
        await self._bindings.follow()
        self._listed = True
        try:
            await self._notice_silence()
        finally:
            self._listed = False
            await self._bindings.stop()

    async def call(self, verb: str, body: bytes) -> Reply:
        """The answer to one call; KeyError for a verb that is none of `wire.VERBS`."""
        answer = self._verbs[verb]
        began = self._clock.monotonic()
        if not self._listed:
            reply = refusal(verb, NOT_READY, code=UNAVAILABLE)
        else:
            try:
                reply = await answer(body)
            except MalformedCall as error:
                reply = refusal(verb, str(error))
        self._metrics.called(verb, reply.outcome, self._clock.monotonic() - began, at=self._clock.now())
        return reply

    async def _filter(self, body: bytes) -> Reply:
        args = wire.decode(body, wire.ExtenderArgs)
        nodes = wire.Nodes(args)
        self._asked(args.pod.uid)
        verdict = self._verdict(args.pod, nodes.names)
        if _is_no(verdict) and self._second_looks.take(self._clock.monotonic()):
            await self._clock.sleep(MOMENT)
            verdict = self._verdict(args.pod, nodes.names)
        if isinstance(verdict, NotKnownYet):
            return refusal("filter", verdict.reason)
        log.debug("filtered", pod=args.pod.key, passing=len(verdict.passing), asked=len(nodes.names))
        outcome = Outcome.ANSWERED if verdict.passing else Outcome.REFUSED
        return Reply(OK, wire.encode(nodes.result(*verdict)), outcome)

    def _verdict(self, pod: Pod, names: Sequence[str]) -> Filtered | NotKnownYet:
        return self._judgement.filter(pod, names, given_back=self._given_back.of(pod))

    async def _prioritize(self, body: bytes) -> Reply:
        args = wire.decode(body, wire.ExtenderArgs)
        names = wire.Nodes(args).names
        self._asked(args.pod.uid)
        scores = self._judgement.scores(args.pod, names)
        return Reply(OK, wire.encode([wire.HostPriority(*pair) for pair in zip(names, scores, strict=True)]))

    async def _preempt(self, body: bytes) -> Reply:
        args = wire.decode(body, wire.ExtenderPreemptionArgs)
        self._asked(args.pod.uid)
        victims = args.by_node()
        uids = {node: frozenset(pod.uid for pod in each.pods or ()) for node, each in victims.items()}
        kept = {node: victims[node] for node in self._judgement.worth_preempting(args.pod, uids)}
        outcome = Outcome.ANSWERED if kept else Outcome.REFUSED
        return Reply(OK, wire.encode(wire.ExtenderPreemptionResult(kept)), outcome)

    async def _bind(self, body: bytes) -> Reply:
        if self._settings.mode is not Mode.BIND:
            return refusal("bind", DOES_NOT_BIND)
        args = wire.decode(body, wire.ExtenderBindingArgs)
        self._asked(args.pod_uid)
        problem = await self._bindings.bind(args)
        pod = f"{args.pod_namespace}/{args.pod_name}"
        if problem:
            log.info("pod not bound", pod=pod, node=args.node, why=problem)
        else:
            log.info("pod bound", pod=pod, node=args.node)
        outcome = Outcome.REFUSED if problem else Outcome.ANSWERED
        return Reply(OK, wire.encode(wire.ExtenderBindingResult(problem)), outcome)

    def _asked(self, uid: str) -> None:
        if self._contact.asked(uid, self._clock.monotonic()):
            log.info("kube-scheduler calls")

    def _silence(self) -> str | None:
        return self._contact.silence(self._clock.monotonic())

    async def _notice_silence(self) -> None:
        """Say once when calls stop, or never come, although pods are placed."""
        silent = False
        while True:
            await self._clock.sleep(self._settings.called_within / 4)
            why = self._silence()
            if why and not silent:
                log.warning("kube-scheduler does not call", why=why)
            silent = why is not None


def refusal(verb: str, why: str, *, code: int = BAD_REQUEST) -> Reply:
    """No verdict: in the protocol's own words where it has some, by the code otherwise."""
    match verb:
        case "filter":
            return Reply(OK, wire.encode(wire.ExtenderFilterResult(error=why)), Outcome.ERROR)
        case "bind":
            return Reply(OK, wire.encode(wire.ExtenderBindingResult(why)), Outcome.ERROR)
        case _:
            return Reply(code, wire.encode(wire.Failure(why)), Outcome.ERROR)


def _gatekeepers(gates: FeatureGates) -> list[Plugin]:
    """As the scheduler has them."""
    plugins: list[Plugin] = []
    if gates.enabled(CLAIM_ROLLBACK):
        plugins.append(ClaimsInRollback())
    if not gates.enabled(VOLUME_SCHEDULING):
        plugins.append(DelayedBindingOff())
    return plugins


def _is_no(verdict: Filtered | NotKnownYet) -> bool:
    return isinstance(verdict, NotKnownYet) or not verdict.passing


def _contract(extender: Extender) -> Component:
    return extender
