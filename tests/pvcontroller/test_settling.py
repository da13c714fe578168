"""Both machines together, against a cluster on paper: whatever happens in between, pairs last and everything settles.

Users create and delete claims and volumes; turns are decided on facts of any age; writes land late, after the
controller that sent them has crashed, or take effect without an answer.
"""

from typing import Any, Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from builders import Body, claim_body, claim_ref, class_body, volume_body
from mooring.api import keys
from mooring.api.kinds import CLAIM, STORAGE_CLASS, VOLUME, Kind
from mooring.api.views.meta import ApiObject
from mooring.pvcontroller.intents import Step
from mooring.volumes import matching
from pvcontroller.paper_world import OldFacts, PaperWorld

CLAIMS: Final = ("claim-1", "claim-2", "claim-3")
VOLUMES: Final = ("volume-1", "volume-2", "volume-3")
KINDS: Final = {"claims": CLAIM, "volumes": VOLUME}
#: Four writes bind a pair; a volume that loses its claim and comes back needs a few more.
MOST_WRITES: Final = 8 * (len(CLAIMS) + len(VOLUMES))

one_claim = st.sampled_from(CLAIMS)
one_volume = st.sampled_from(VOLUMES)


class Turmoil(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = PaperWorld(class_body(name="wait"), class_body(name="now", binding_mode="Immediate"))
        #: Decisions on their way to the server.
        self.sent: list[Step] = []
        #: (claim uid, volume uid) of every pair that was ever complete.
        self.pairs: set[tuple[str, str]] = set()
        self.born = 0

    # What users do.

    @rule(
        name=one_claim,
        size=st.sampled_from(["1Gi", "2Gi"]),
        storage_class=st.sampled_from([None, "", "now", "wait"]),
        volume=st.sampled_from(["", "", *VOLUMES]),
    )
    def user_creates_claim(self, name: str, size: str, storage_class: str | None, volume: str) -> None:
        if not self._there(CLAIM, f"default/{name}"):
            self._create(claim_body(name=name, size=size, storage_class=storage_class, volume=volume, uid=self._uid()))

    @rule(
        name=one_volume,
        size=st.sampled_from(["1Gi", "2Gi"]),
        storage_class=st.sampled_from(["", "now", "wait"]),
        claim=st.sampled_from(["", "", *CLAIMS]),
        reclaim=st.sampled_from(["Retain", "Delete"]),
    )
    def user_creates_volume(self, name: str, size: str, storage_class: str, claim: str, reclaim: str) -> None:
        if not self._there(VOLUME, name):
            reserved = claim_ref(name=claim) if claim else None
            given: dict[str, Any] = {"claim_ref": reserved, "reclaim": reclaim, "phase": "Pending"}
            self._create(volume_body(name=name, size=size, storage_class=storage_class, uid=self._uid(), **given))

    @rule(name=one_claim)
    def user_deletes_claim(self, name: str) -> None:
        if self._there(CLAIM, f"default/{name}"):
            self.world.delete(CLAIM, f"default/{name}")

    @rule(name=one_volume)
    def user_deletes_volume(self, name: str) -> None:
        if self._there(VOLUME, name):
            self.world.delete(VOLUME, name)

    @rule(claim=one_claim, volume=one_volume)
    def scheduler_reserves_volume(self, claim: str, volume: str) -> None:
        """As the scheduler does for a delayed claim: a free volume, by the newest version."""
        key = f"default/{claim}"
        if not (self._there(CLAIM, key) and self._there(VOLUME, volume)):
            return
        wanted, free = self.world.view(CLAIM, key), self.world.view(VOLUME, volume)
        if not wanted.spec.volume_name and matching.why_not(wanted, free) is None:
            self.world.reserve(volume, wanted)

    # What happens to the controller.

    @rule(what=st.sampled_from(sorted(KINDS)), most=st.integers(1, 4))
    def watch_delivers(self, what: str, most: int) -> None:
        self.world.deliver_some(KINDS[what], most)

    @rule(name=one_claim)
    def claim_has_a_turn(self, name: str) -> None:
        self._send(self.world.look_at_claim(f"default/{name}"))

    @rule(name=one_volume)
    def volume_has_a_turn(self, name: str) -> None:
        self._send(self.world.look_at_volume(name))

    @rule(name=one_claim, writes=st.integers(1, 4))
    def claim_gets_on(self, name: str, writes: int) -> None:
        """Undisturbed for a few writes."""
        for _ in range(writes):
            self._land(self.world.look_at_claim(f"default/{name}"), answered=True)

    @rule()
    def quiet_spell(self) -> None:
        """Nothing disturbs the controller until it has come to rest."""
        self.world.deliver()
        self._come_to_rest()
        self.world.deliver()

    @rule(first=st.booleans(), answered=st.booleans())
    def write_lands(self, first: bool, answered: bool) -> None:
        if self.sent:
            self._land(self.sent.pop(0 if first else -1), answered=answered)

    @rule()
    def write_gets_lost(self) -> None:
        if self.sent:
            self.sent.pop()

    @rule()
    def controller_crashes(self) -> None:
        """Its writes may still be on their way."""
        self.world.restart()

    # What must hold.

    @invariant()
    def complete_pairs_last(self) -> None:
        alive = {body["metadata"]["uid"]: body for body in self.world.bodies.values()}
        for claim_uid, volume_uid in self.pairs:
            if claim_uid in alive and volume_uid in alive:
                assert _paired(alive[claim_uid], alive[volume_uid])
        for claim in self._bodies(CLAIM):
            for volume in self._bodies(VOLUME):
                if _paired(claim, volume):
                    self.pairs.add((claim["metadata"]["uid"], volume["metadata"]["uid"]))

    def teardown(self) -> None:
        """Left alone, the machines come to rest, and nothing that could be done is left undone."""
        for step in self.sent:
            self._land(step, answered=False)
        self.world.deliver()
        self._come_to_rest()
        self.complete_pairs_last()
        self._phases_are_right()
        self._nobody_waits_in_vain()

    def _come_to_rest(self) -> None:
        writes = 0
        while steps := [step for step in self._looks() if step.write is not None]:
            # One write, then a fresh look: the order of turns is not for this test to choose.
            self.world.take(steps[writes % len(steps)])
            writes += 1
            assert writes <= MOST_WRITES, f"no end to it: {steps}"

    def _phases_are_right(self) -> None:
        claims = {body["metadata"]["uid"]: body for body in self._bodies(CLAIM)}
        for volume in self._bodies(VOLUME):
            owner = volume["spec"].get("claimRef", {}).get("uid", "")
            if owner in claims and claims[owner]["spec"].get("volumeName") == volume["metadata"]["name"]:
                assert volume["status"]["phase"] == claims[owner]["status"]["phase"] == "Bound"
            elif owner and owner not in claims:
                assert volume["status"]["phase"] in ("Released", "Failed")
            elif not owner:
                assert volume["status"]["phase"] == "Available"
        for claim in claims.values():
            if claim["status"]["phase"] == "Bound":
                assert any(_paired(claim, volume) for volume in self._bodies(VOLUME))

    def _nobody_waits_in_vain(self) -> None:
        free = [v for v in self.world.facts.volumes.filed_under("of class now") if v.spec.claim_ref is None]
        waiting = self.world.facts.claims_without_volume("now")
        assert not [(c.key, v.name) for c in waiting for v in free if matching.why_not(c, v) is None]

    def _looks(self) -> list[Step]:
        claims = [self.world.look_at_claim(f"default/{name}") for name in CLAIMS]
        return claims + [self.world.look_at_volume(name) for name in VOLUMES]

    def _send(self, step: Step) -> None:
        if step.write is not None:
            self.sent.append(step)

    def _land(self, step: Step, *, answered: bool) -> None:
        try:
            self.world.take(step, answered=answered)
        except OldFacts:
            return

    def _bodies(self, wanted: Kind[ApiObject]) -> list[Body]:
        return [body for (kind, _), body in self.world.bodies.items() if kind is wanted]

    def _there(self, kind: Kind[ApiObject], key: str) -> bool:
        return (kind, key) in self.world.bodies

    def _create(self, body: Body) -> None:
        self.world.create(body)
        self.world.deliver_some(STORAGE_CLASS, 1)

    def _uid(self) -> str:
        self.born += 1
        return f"uid-{self.born}"


def _paired(claim: Body, volume: Body) -> bool:
    return bool(
        keys.BIND_COMPLETED in claim["metadata"].get("annotations", {})
        and claim["spec"].get("volumeName") == volume["metadata"]["name"]
        and volume["spec"].get("claimRef", {}).get("uid") == claim["metadata"]["uid"]
    )


TestTurmoil = pytest.mark.req("T42.PC12", "T42.PC38")(Turmoil.TestCase)
TestTurmoil.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
