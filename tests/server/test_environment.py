"""Randomness in blocks: as many bits as asked for, and none twice."""

import os
import random

import pytest

from mooring.server import environment
from mooring.server.environment import BLOCK_BYTES, SystemEntropy


@pytest.mark.parametrize("bits", [1, 7, 8, 9, 32, 128, 8 * BLOCK_BYTES + 3])
def test_as_many_bits_as_asked_for(bits: int) -> None:
    seen = [SystemEntropy().getrandbits(bits) for _ in range(40)]
    assert max(seen) < 1 << bits
    assert max(seen).bit_length() > bits - 8, "the upper ones are used"
    if bits >= 32:
        assert len(set(seen)) == len(seen)


def test_no_byte_is_given_out_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(size: int) -> bytes:
        calls.append(size)
        return bytes((len(calls),)) * size

    monkeypatch.setattr(environment.os, "urandom", counted)
    source = SystemEntropy()
    taken = [source.randbytes(1000) for _ in range(5)]
    assert taken == [b"\x01" * 1000] * 4 + [b"\x02" * 1000]
    assert calls == [BLOCK_BYTES] * 2


def test_it_serves_wherever_randomness_is_asked_for() -> None:
    source: random.Random = SystemEntropy()
    assert 0 <= source.random() < 1
    assert set(source.choices("ab", k=200)) == {"a", "b"}
    assert len(os.urandom(1)) == 1
