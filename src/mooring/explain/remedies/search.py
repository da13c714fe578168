"""Turns a proposal into verified remedies. Pure.

A proposal lists obstacles, each with alternative steps. `Trials` removes unnecessary steps, adds missing ones and drops
alternatives that do not help. An incomplete proposal is returned as not enough, with what it also needs.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from mooring.explain.inspection import PodDecision
from mooring.explain.remedies.changes import ClusterChange
from mooring.explain.remedies.data_loss import is_warned
from mooring.explain.remedies.verification import Trials
from mooring.explain.results import ClaimReport, PodVerdict, Reason, Remedy
from mooring.scheduler.framework import cycle

R = TypeVar("R", ClaimReport, PodVerdict)

#: How often a proposal is completed with what the last trial has shown to be missing.
MAX_ROUNDS: Final = 3

#: How the text of a step begins that belongs to the thing before it.
WITH: Final = "with "


class Step(NamedTuple):
    """One way to overcome one obstacle, in words and as changes."""

    text: str
    changes: tuple[ClusterChange, ...]


#: Steps of which any one overcomes the obstacle; those that cost nothing first.
Choice = tuple[Step, ...]


class Proposal(NamedTuple):
    """Obstacles on the way of a pod to a node, or to any node where none is named."""

    choices: tuple[Choice, ...]
    node: str = ""
    #: One obstacle whose steps are worth telling only if nothing else is needed.
    alone: bool = False


class Advice(NamedTuple):
    """What was found: remedies that were tried with success, what would not be enough, and what to look at."""

    remedies: tuple[Remedy, ...] = ()
    not_enough: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()

    def added_to(self, report: R) -> R:
        texts = tuple(one.text for one in self.remedies)
        return replace(
            report, remedy_texts=texts, remedies=self.remedies, not_enough=self.not_enough, checks=self.checks
        )


class _Left(NamedTuple):
    """What still speaks against the node, or against the one that is nearest, after a trial, and the choices there are
    about that."""

    node: str = ""
    reasons: tuple[Reason, ...] = ()
    choices: tuple[Choice, ...] = ()


#: The choices there are about a node in a scene.
Propose = Callable[[PodDecision, str], Sequence[Choice]]


def tried(proposal: Proposal, trials: Trials, propose: Propose) -> Advice:
    """The proposal, completed and cut down to what is needed."""

    def look(scene: PodDecision) -> _Left:
        if scene.decision.refusals:
            return _Left(reasons=(Reason(*scene.decision.refusals[0]),))
        near = node or scene.nearest()
        if near not in scene.snapshot.topology:
            return _Left(reasons=(Reason("", cycle.NO_NODES),))
        return _Left(near, scene.against(near), tuple(propose(scene, near)))

    if proposal.alone:
        helping = [step for step in proposal.choices[0] if trials.fits(step.changes, proposal.node)]
        text, alternatives = ", or ".join(step.text for step in helping), tuple(step.changes for step in helping[1:])
        return Advice((Remedy(text, helping[0].changes, alternatives),)) if helping else Advice()
    node = proposal.node
    steps = [choice[0] for choice in proposal.choices]
    choices = list(proposal.choices)
    left = _Left()
    for _ in range(MAX_ROUNDS):
        with trials.scene(_changes(steps)) as scene:
            fits = scene is not None and scene.fits(node)
            left = _Left() if scene is None or fits else look(scene)
        if fits:
            return _to_advice(*_needed(steps, choices, node, trials), node, trials)
        node = node or left.node
        more = [choice for choice in left.choices if choice[0] not in steps]
        if not more:
            break
        steps += [choice[0] for choice in more]
        choices += more
    for place, choice in enumerate(choices):
        for other in choice[1:]:
            instead = [*steps[:place], other, *steps[place + 1 :]]
            if trials.fits(_changes(instead), node):
                only: list[Choice] = [(step,) for step in instead]
                return _to_advice(*_needed(instead, only, node, trials), node, trials)
    lacking = "; ".join(dict.fromkeys(reason.text for reason in left.reasons))
    if not lacking or not steps:
        return Advice()
    return Advice(not_enough=(f"{_joined(steps)}; also needs: {lacking}",))


def only_steps(proposal: Proposal) -> list[Remedy]:
    """Each step of a proposal with one obstacle as a remedy of its own, not tried."""
    return [Remedy(step.text, step.changes) for choice in proposal.choices for step in choice]


def _needed(
    steps: Sequence[Step], choices: Sequence[Choice], node: str, trials: Trials
) -> tuple[list[Step], list[Choice]]:
    """Without the steps that the pod does not need: of several that cost the same, the later go first."""
    kept, kept_choices = list(steps), list(choices)
    place = len(kept) - 1
    while len(kept) > 1 and place >= 0:
        fewer = [*kept[:place], *kept[place + 1 :]]
        if trials.fits(_changes(fewer), node):
            kept = fewer
            del kept_choices[place]
        place -= 1
    return kept, kept_choices


def _to_advice(steps: Sequence[Step], choices: Sequence[Choice], node: str, trials: Trials) -> Advice:
    """One remedy in which every obstacle has its harmless alternatives, and one for each that costs something."""
    texts: list[str] = []
    costly: list[Remedy] = []
    alternatives: list[tuple[ClusterChange, ...]] = []
    for place, (step, choice) in enumerate(zip(steps, choices, strict=True)):
        helping = [step.text]
        for other in choice:
            instead = [*steps[:place], other, *steps[place + 1 :]]
            if other == step or not trials.fits(_changes(instead), node):
                continue
            if is_warned(other.text):
                costly.append(Remedy(_joined(instead), _changes(instead)))
            else:
                helping.append(other.text)
                alternatives.append(_changes(instead))
        texts.append(", or ".join(helping))
    text = _conjunction(texts, "; and " if alternatives else " and ")
    return Advice((Remedy(text, _changes(steps), tuple(alternatives)), *costly))


def _joined(steps: Sequence[Step]) -> str:
    return _conjunction([step.text for step in steps], " and ")


def _conjunction(texts: Iterable[str], conjunction: str) -> str:
    """Those that cost something first; what a new thing is to come with follows it."""
    told = ""
    for text in sorted(dict.fromkeys(texts), key=lambda text: not is_warned(text)):
        told += f"{', ' if text.startswith(WITH) else conjunction}{text}" if told else text
    return told


def _changes(steps: Sequence[Step]) -> tuple[ClusterChange, ...]:
    return tuple(change for step in steps for change in step.changes)
