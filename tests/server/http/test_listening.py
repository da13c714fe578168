"""Sockets: ports, TLS with certificates on both sides, refusals in one sentence."""

import asyncio
import socket

import pytest
from aiohttp import ClientSession, web

from mooring.server.http.listener import KEEP_ALIVE_SECONDS, CannotListen, listen


async def hello(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="hello")


async def test_port_0_picks_one() -> None:
    listener = await listen(hello, "127.0.0.1", 0, None)
    assert listener.port > 0
    assert listener.url == f"http://127.0.0.1:{listener.port}"
    async with ClientSession() as client, client.get(listener.url) as answer:
        assert await answer.text() == "hello"
    await listener.close()


async def test_an_address_of_version_6_is_bracketed() -> None:
    listener = await listen(hello, "::1", 0, None)
    assert listener.url == f"http://[::1]:{listener.port}"
    await listener.close()


async def test_closing_frees_the_port_and_can_be_repeated() -> None:
    first = await listen(hello, "127.0.0.1", 0, None)
    await first.close()
    await first.close()
    second = await listen(hello, "127.0.0.1", first.port, None)
    await second.close()


async def test_closing_lets_requests_under_way_finish() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: web.BaseRequest) -> web.StreamResponse:
        begun.set()
        await go_on.wait()
        return web.Response(text="done")

    listener = await listen(slow, "127.0.0.1", 0, None)
    async with ClientSession() as client:
        asking = asyncio.create_task(client.get(listener.url))
        await begun.wait()
        closing = asyncio.create_task(listener.close())
        await asyncio.sleep(0)
        go_on.set()
        async with await asking as answer:
            assert await answer.text() == "done"
        await closing


def test_idle_connections_outlive_those_of_go_clients() -> None:
    assert KEEP_ALIVE_SECONDS >= 180


async def test_long_selectors_fit() -> None:
    listener = await listen(hello, "127.0.0.1", 0, None)
    async with ClientSession() as client, client.get(f"{listener.url}/?labelSelector={'x' * 30_000}") as answer:
        assert answer.status == 200
    await listener.close()


async def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen) as refused:
            await listen(hello, "127.0.0.1", port, None)
    assert str(refused.value) == (
        f"Port {port} on 127.0.0.1 is already in use: stop the program that holds it, "
        "or choose another port (0 picks a free one)."
    )


async def test_an_address_of_another_machine() -> None:
    with pytest.raises(CannotListen, match=r"Cannot listen on 192\.0\.2\.1, port 0 \(.*\): choose a local address"):
        await listen(hello, "192.0.2.1", 0, None)
