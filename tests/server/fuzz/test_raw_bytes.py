"""Bytes on the socket that are nearly HTTP: an answer or a closed connection, and the server goes on."""

import asyncio
import random
from typing import Final

from server.fuzz.conftest import Victim
from support.server.invalid_objects import RequestFuzzer

TRIES: Final = 200


def written(victim: Victim, seed: int) -> bytes:
    """A request as a client would write it, bent somewhere."""
    rng = random.Random(seed)
    request = RequestFuzzer(rng, victim.tokens).request()
    lines = [f"{request.method} {request.target} HTTP/1.1", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    length = len(request.body) + rng.choice((0, 0, 0, 5, -1, 10**12))
    framing = (
        f"Content-Length: {length}",
        "Transfer-Encoding: chunked",
        "Content-Length: -1",
        "Content-Length: 1\r\nA: b",
    )
    lines.append(rng.choice((framing[0], *framing)))
    raw = bytearray("\r\n".join(lines).encode("utf-8", "replace") + b"\r\n\r\n" + request.body)
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(raw))
        raw[at : at + rng.randrange(3)] = rng.choice((b"", b"\r\n", b"\x00", b":", b"\xff", b" ", b"HTTP/9.9"))
    return bytes(raw)


async def spoken(victim: Victim, seed: int) -> None:
    reader, writer = await asyncio.open_connection(victim.host, victim.port)
    try:
        writer.write(written(victim, seed))
        if random.Random(seed).random() < 0.5:
            writer.write_eof()
        # Some wait for a body that never comes: hanging up is then the client's part.
        async with asyncio.timeout(0.3):
            await reader.read(4096)
    except (TimeoutError, ConnectionError):
        pass
    finally:
        writer.close()


async def test_nearly_http(victim: Victim) -> None:
    for first in range(0, TRIES, 20):
        await asyncio.gather(*(spoken(victim, seed) for seed in range(first, first + 20)))
    assert victim.unexpected() == []
    async with victim.session.get(f"http://{victim.host}:{victim.port}/livez") as answer:
        assert answer.status == 200


async def test_credentials_in_a_broken_header_are_not_logged(victim: Victim) -> None:
    for broken in (
        b"Authorization: Bearer \x00s3cret",
        b"Author ization: Bearer s3cret",
        b"Authorization\x01: Bearer s3cret",
    ):
        reader, writer = await asyncio.open_connection(victim.host, victim.port)
        writer.write(b"GET /api HTTP/1.1\r\nHost: localhost\r\n" + broken + b"\r\n\r\n")
        async with asyncio.timeout(5):
            assert b" 400 " in await reader.readline()
        writer.close()
    assert "s3cret" not in repr(victim.logs)
    assert {line["event"] for line in victim.logs} >= {"malformed HTTP request rejected"}
