"""Both machines together, against a cluster on paper: whatever happens in between, pairs last and everything settles.

Users create and delete claims and volumes; turns are decided on facts of any age; writes land late, after the
controller that sent them has crashed, or take effect without an answer.
"""

from typing import Any, Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mooring.api import well_known
from mooring.api.kinds import CLAIM, STORAGE_CLASS, VOLUME, Kind
from mooring.api.views.meta import ApiObject
from mooring.pvcontroller.actions import SyncStep
from mooring.volumes import matching
from support.builders import Body, claim_body, claim_ref, class_body, volume_body
from support.pvcontroller.fake_cluster import FakeCluster, OldFacts

CLAIMS: Final = ("claim-1", "claim-2")
VOLUMES: Final = ("volume-1", "volume-2")
KINDS: Final = {"claims": CLAIM, "volumes": VOLUME}
#: Four writes bind a pair; a volume that loses its claim and comes back needs a few more.
MOST_WRITES: Final = 8 * (len(CLAIMS) + len(VOLUMES))

one_claim = st.sampled_from(CLAIMS)
one_volume = st.sampled_from(VOLUMES)


class Turmoil(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cluster = FakeCluster(class_body(name="wait"), class_body(name="now", binding_mode="Immediate"))
        #: Decisions on their way to the server.
        self.sent: list[SyncStep] = []
        #: (claim uid, volume uid) of every pair that was ever complete.
        self.pairs: set[tuple[str, str]] = set()
        #: What the claimRef of each volume, by uid, said at last.
        self.reserved: dict[str, Body] = {}
        self.born = 0

    @initialize(bound=st.booleans())
    def begin(self, bound: bool) -> None:
        """With nothing, or with a pair that has been together for long."""
        if bound:
            self.user_creates_claim("claim-1", "1Gi", "now", "")
            self.user_creates_volume("volume-1", "1Gi", "now", "", "Retain")
            self.quiet_spell()

    # What users and the scheduler do.

    @rule(
        name=one_claim,
        size=st.sampled_from(["1Gi", "2Gi"]),
        storage_class=st.sampled_from(["now", "now", "wait"]),
        volume=st.sampled_from(["", "", *VOLUMES]),
    )
    def user_creates_claim(self, name: str, size: str, storage_class: str, volume: str) -> None:
        if not self._there(CLAIM, f"default/{name}"):
            self._create(claim_body(name=name, size=size, storage_class=storage_class, volume=volume, uid=self._uid()))

    @rule(
        name=one_volume,
        size=st.sampled_from(["1Gi", "2Gi"]),
        storage_class=st.sampled_from(["now", "now", "wait"]),
        claim=st.sampled_from(["", "", *CLAIMS]),
        reclaim=st.sampled_from(["Retain", "Delete"]),
    )
    def user_creates_volume(self, name: str, size: str, storage_class: str, claim: str, reclaim: str) -> None:
        if not self._there(VOLUME, name):
            reserved = claim_ref(name=claim) if claim else None
            given: dict[str, Any] = {"claim_ref": reserved, "reclaim": reclaim, "phase": "Pending"}
            self._create(volume_body(name=name, size=size, storage_class=storage_class, uid=self._uid(), **given))

    @rule(name=st.sampled_from(CLAIMS + VOLUMES))
    def user_deletes(self, name: str) -> None:
        kind, key = (CLAIM, f"default/{name}") if name in CLAIMS else (VOLUME, name)
        if self._there(kind, key):
            self.cluster.delete(kind, key)

    @rule(name=one_volume, claim=one_claim)
    def user_replaces_volume(self, name: str, claim: str) -> None:
        """By another of the same name, meant for a certain claim."""
        self.user_deletes(name)
        self.user_creates_volume(name, "2Gi", "now", claim, "Retain")

    @rule(name=one_claim, volumes=st.integers(1, 2))
    def scheduler_reserves(self, name: str, volumes: int) -> None:
        """As for a delayed claim, by the newest versions; a scheduler that crashed may take another volume later."""
        if not self._there(CLAIM, f"default/{name}"):
            return
        claim = self.cluster.view(CLAIM, f"default/{name}")
        known = [self.cluster.view(VOLUME, key) for kind, key in self.cluster.bodies if kind is VOLUME]
        free = [v.name for v in known if v.spec.claim_ref is None and matching.first_mismatch(claim, v) is None]
        for volume in free[:volumes] if not claim.spec.volume_name else ():
            self.cluster.reserve(volume, claim)

    # What happens to the controller.

    @rule(what=st.sampled_from(sorted(KINDS)), most=st.integers(1, 4))
    def watch_delivers(self, what: str, most: int) -> None:
        self.cluster.deliver_some(KINDS[what], most)

    @rule(name=st.sampled_from(CLAIMS + VOLUMES))
    def write_is_sent(self, name: str) -> None:
        step = self._look(name)
        if step.write is not None:
            self.sent.append(step)

    @rule(name=st.sampled_from(CLAIMS + VOLUMES), writes=st.integers(1, 4))
    def turn_is_undisturbed(self, name: str, writes: int) -> None:
        for _ in range(writes):
            self._land(self._look(name), answered=True)

    @rule()
    def quiet_spell(self) -> None:
        """Nothing disturbs the controller until it has come to rest."""
        self.cluster.deliver()
        self._come_to_rest()
        self.cluster.deliver()

    @rule(first=st.booleans(), fate=st.sampled_from(["lands", "lands unanswered", "gets lost"]))
    def write_arrives(self, first: bool, fate: str) -> None:
        step = self.sent.pop(0 if first else -1) if self.sent else SyncStep()
        if fate != "gets lost":
            self._land(step, answered=fate == "lands")

    @rule()
    def controller_crashes(self) -> None:
        """Its writes may still be on their way."""
        self.cluster.restart()

    # What must hold.

    @invariant()
    def complete_pairs_last(self) -> None:
        alive = {body["metadata"]["uid"]: body for body in self.cluster.bodies.values()}
        for claim_uid, volume_uid in self.pairs:
            if claim_uid in alive and volume_uid in alive:
                assert _paired(alive[claim_uid], alive[volume_uid])
        for claim in self._bodies(CLAIM):
            for volume in self._bodies(VOLUME):
                if _paired(claim, volume):
                    self.pairs.add((claim["metadata"]["uid"], volume["metadata"]["uid"]))

    @invariant()
    def reservations_are_never_passed_on(self) -> None:
        """A claimRef may be completed or cleared; it never goes from one claim to another."""
        for volume in self._bodies(VOLUME):
            is_now = volume["spec"].get("claimRef", {})
            was = self.reserved.get(volume["metadata"]["uid"], {})
            for field in ("name", "uid"):
                assert not was.get(field) or is_now.get(field) in (None, was[field])
            self.reserved[volume["metadata"]["uid"]] = is_now

    def teardown(self) -> None:
        """Left alone, the machines come to rest, and nothing that could be done is left undone."""
        for step in self.sent:
            self._land(step, answered=False)
        self.cluster.deliver()
        self._come_to_rest()
        self.complete_pairs_last()
        self._phases_are_right()
        self._no_claim_waits_beside_a_match()

    def _come_to_rest(self) -> None:
        writes = 0
        while steps := [step for step in self._looks() if step.write is not None]:
            # One write, then a fresh look: the order of turns is not for this test to choose.
            self.cluster.take(steps[writes % len(steps)])
            writes += 1
            assert writes <= MOST_WRITES, f"no end to it: {steps}"

    def _phases_are_right(self) -> None:
        claims = {body["metadata"]["uid"]: body for body in self._bodies(CLAIM)}
        for volume in self._bodies(VOLUME):
            owner = volume["spec"].get("claimRef", {}).get("uid", "")
            if not owner:
                assert volume["status"]["phase"] == "Available"
            elif owner not in claims:
                assert volume["status"]["phase"] in ("Released", "Failed")
            elif named := claims[owner]["spec"].get("volumeName"):
                assert named == volume["metadata"]["name"]
                assert volume["status"]["phase"] == claims[owner]["status"]["phase"] == "Bound"
        for claim in claims.values():
            if claim["status"]["phase"] == "Bound":
                assert any(_paired(claim, volume) for volume in self._bodies(VOLUME))

    def _no_claim_waits_beside_a_match(self) -> None:
        claims = [self.cluster.view(CLAIM, key) for kind, key in self.cluster.bodies if kind is CLAIM]
        volumes = [self.cluster.view(VOLUME, key) for kind, key in self.cluster.bodies if kind is VOLUME]
        waiting = [claim for claim in claims if claim.storage_class == "now" and not claim.spec.volume_name]
        assert not [(c.key, v.name) for c in waiting for v in volumes if matching.first_mismatch(c, v) is None]

    def _looks(self) -> list[SyncStep]:
        return [self._look(name) for name in CLAIMS + VOLUMES]

    def _look(self, name: str) -> SyncStep:
        return self.cluster.enqueue_claim(f"default/{name}") if name in CLAIMS else self.cluster.look_at_volume(name)

    def _land(self, step: SyncStep, *, answered: bool) -> None:
        try:
            self.cluster.take(step, answered=answered)
        except OldFacts:
            return

    def _bodies(self, expected: Kind[ApiObject]) -> list[Body]:
        return [body for (kind, _), body in self.cluster.bodies.items() if kind is expected]

    def _there(self, kind: Kind[ApiObject], key: str) -> bool:
        return (kind, key) in self.cluster.bodies

    def _create(self, body: Body) -> None:
        self.cluster.create(body)
        self.cluster.deliver_some(STORAGE_CLASS, 1)

    def _uid(self) -> str:
        self.born += 1
        return f"uid-{self.born}"


def _paired(claim: Body, volume: Body) -> bool:
    return bool(
        well_known.BIND_COMPLETED in claim["metadata"].get("annotations", {})
        and claim["spec"].get("volumeName") == volume["metadata"]["name"]
        and volume["spec"].get("claimRef", {}).get("uid") == claim["metadata"]["uid"]
    )


TestTurmoil = pytest.mark.req("T42.settles", "T42.PC12", "T42.PC38")(Turmoil.TestCase)
TestTurmoil.settings = settings(max_examples=200, stateful_step_count=30)
