"""Remedies: what would have to change so that a pod runs, each tried before it is told.

A proposal is a list of obstacles with the steps that would overcome each, any one of which does. It is tried with
`trials`: what turns out not to be needed is left out, what turns out to be missing is added, and alternatives that do
not help are dropped. What cannot be completed is told as not enough, with what it needs besides. Pure.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from mooring.explain.cluster_changes import ClusterChange
from mooring.explain.data_loss import is_warned
from mooring.explain.trials import Scene, Trials
from mooring.explain.verdicts import Reason, Remedy
from mooring.scheduler import cycle

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
    """What was found: remedies that were tried with success, and what would not be enough."""

    remedies: tuple[Remedy, ...] = ()
    not_enough: tuple[str, ...] = ()


class _Left(NamedTuple):
    """What still speaks against the node, or against the one that is nearest, after a trial, and the choices there are
    about that."""

    node: str
    reasons: tuple[Reason, ...]
    choices: tuple[Choice, ...]


#: The choices there are about a node in a scene.
Propose = Callable[[Scene, str], Sequence[Choice]]


def tried(proposal: Proposal, trials: Trials, propose: Propose) -> Advice:
    """The proposal, completed and cut down to what is needed."""

    def look(scene: Scene) -> _Left:
        if scene.decision.refusals:
            return _Left("", tuple(Reason(plugin, reason) for plugin, reason in scene.decision.refusals[:1]), ())
        near = node or scene.nearest()
        if near not in scene.snapshot.topology:
            return _Left("", (Reason("", cycle.NO_NODES),), ())
        return _Left(near, scene.against(near), tuple(propose(scene, near)))

    if proposal.alone:
        return _alone(proposal, trials)
    node = proposal.node
    steps = [choice[0] for choice in proposal.choices]
    choices = list(proposal.choices)
    left: _Left | None = None
    for _ in range(MAX_ROUNDS):
        outcome = trials.run(_changes(steps), node, look)
        if outcome.fits:
            return _worded(*_needed(steps, choices, node, trials), node, trials)
        left = outcome.left
        node = node or (left.node if left is not None else "")
        more = [choice for choice in (left.choices if left is not None else ()) if choice[0] not in steps]
        if not more:
            break
        steps += [choice[0] for choice in more]
        choices += more
    for place, choice in enumerate(choices):
        for other in choice[1:]:
            instead = [*steps[:place], other, *steps[place + 1 :]]
            if trials.fits(_changes(instead), node):
                only: list[Choice] = [(step,) for step in instead]
                return _worded(*_needed(instead, only, node, trials), node, trials)
    lacking = "; ".join(dict.fromkeys(_told(reason) for reason in (left.reasons if left is not None else ())))
    if not lacking or not steps:
        return Advice()
    return Advice(not_enough=(f"{_joined(steps)}; also needs: {lacking}",))


def _alone(proposal: Proposal, trials: Trials) -> Advice:
    helping = [step for step in proposal.choices[0] if trials.fits(step.changes, proposal.node)]
    if not helping:
        return Advice()
    first, *others = helping
    text = ", or ".join(step.text for step in helping)
    return Advice((Remedy(text, first.changes, tuple(step.changes for step in others)),))


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


def _worded(steps: Sequence[Step], choices: Sequence[Choice], node: str, trials: Trials) -> Advice:
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


def _told(reason: Reason) -> str:
    return f"{reason.reason} ({reason.detail})" if reason.detail else reason.reason
