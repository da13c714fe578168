from builders import a_claim
from mooring.volumes.claim_kin import ClaimKin


def kin(*claims: tuple[str, dict[str, str]]) -> ClaimKin:
    found = ClaimKin()
    for name, labels in claims:
        claim = a_claim(name=name, labels=labels)
        found.observe(claim.key, claim)
    return found


def test_equal_labels_make_kin_within_a_namespace() -> None:
    found = kin(("a", {"app": "db"}), ("b", {"app": "db"}), ("c", {"app": "db", "tier": "x"}))
    other = a_claim(name="a", namespace="other", labels={"app": "db"})
    found.observe(other.key, other)
    assert list(found.of("default/a")) == ["default/b"]
    assert list(found.of("other/a")) == []


def test_claims_without_labels_have_none() -> None:
    found = kin(("a", {}), ("b", {}))
    assert list(found.of("default/a")) == []
    assert list(found.of("default/unknown")) == []


def test_kin_follow_what_becomes_of_claims() -> None:
    found = kin(("a", {"app": "db"}), ("b", {"app": "db"}), ("c", {"app": "db"}))
    found.observe("default/b", None)
    assert list(found.of("default/a")) == ["default/c"]
    found.observe("default/c", a_claim(name="c", labels={"app": "web"}))
    assert list(found.of("default/a")) == []
    found.observe("default/a", None)
    found.observe("default/a", None)
    assert list(found.of("default/a")) == []
