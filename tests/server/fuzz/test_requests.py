"""Thousands of requests that make some sense and then do not: each gets an answer, and the server stays well.

MOORING_FUZZ_SECONDS makes it run for that long, with new seeds; MOORING_FUZZ_SEED repeats one.
"""

import asyncio
import os
import random
import time
from collections import Counter

import msgspec
from aiohttp import ClientError
from yarl import URL

from server.fuzz.conftest import Victim
from support.server.invalid_objects import Request, RequestFuzzer

#: Enough to reach every verb and most kinds in a few seconds.
REQUESTS = 1500
#: What a request may take: a list waits three seconds for a version that is yet to come, all else is quick.
SLOW = 6.0


async def send(victim: Victim, request: Request) -> tuple[int, bytes]:
    url = URL(f"http://{victim.host}:{victim.port}{request.target}", encoded=True)
    async with victim.session.request(
        request.method, url, headers=request.headers, data=request.body or None, skip_auto_headers=("Content-Type",)
    ) as answer:
        body = b"" if request.watches and answer.status == 200 else await answer.read()
    return answer.status, body


def check(request: Request, status: int, body: bytes) -> None:
    """Failures are Status objects; nothing else is promised here."""
    assert 200 <= status < 600
    if status >= 400 and body.startswith(b"{") and request.method != "HEAD":
        told = msgspec.json.decode(body)
        assert told["kind"] == "Status"
        assert told["code"] == status
        assert told["message"]


async def run(victim: Victim, seed: int) -> int:
    request = RequestFuzzer(random.Random(seed), victim.tokens).request()
    began = time.monotonic()
    try:
        status, body = await send(victim, request)
    except ClientError as error:
        raise AssertionError(f"seed {seed}: {request} was not answered: {error!r}") from error
    check(request, status, body)
    assert not victim.unexpected(), f"seed {seed}: {request}\n{victim.unexpected()[-1]}"
    took = time.monotonic() - began
    assert took < SLOW or request.watches, f"seed {seed}: {request} took {took:.1f} s"
    return status


async def test_every_request_gets_an_answer(victim: Victim) -> None:
    codes: Counter[int] = Counter()
    if repeated := os.environ.get("MOORING_FUZZ_SEED"):
        await run(victim, int(repeated))
        return
    seconds = float(os.environ.get("MOORING_FUZZ_SECONDS", "0"))
    began, first = time.monotonic(), random.SystemRandom().randrange(1 << 40) if seconds else 0
    tried = 0
    while tried < REQUESTS or time.monotonic() - began < seconds:
        codes.update(await asyncio.gather(*(run(victim, first + tried + n) for n in range(8))))
        victim.logs.clear()
        tried += 8
    # It got past the door, and further: objects were made, found, refused and removed.
    assert {200, 201, 400, 401, 404, 405, 409, 415, 422} <= set(codes), codes
    async with victim.session.get(f"http://{victim.host}:{victim.port}/livez") as answer:
        assert answer.status == 200
    print(f"{tried} requests from seed {first}: {dict(codes)}")


async def test_one_after_the_other_on_one_connection(victim: Victim) -> None:
    """What one request does to a connection must not hurt the next one on it."""
    for seed in range(10_000, 10_600):
        await run(victim, seed)
        victim.logs.clear()
