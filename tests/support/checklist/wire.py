"""Raw HTTP: requests with any header and any bytes, and watches read line by line."""

import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from mooring.client.access import Access

#: A response takes milliseconds; only a missing one reaches the timeout.
TIMEOUT_SECONDS: Final = 20


class Answer:
    def __init__(self, response: http.client.HTTPResponse, raw: bytes) -> None:
        self.code = response.status
        self.headers = response.headers
        self.raw = raw

    @property
    def json(self) -> dict[str, Any]:
        decoded: dict[str, Any] = json.loads(self.raw)
        return decoded


class Wire:
    """One server, one credential, a connection for each request."""

    def __init__(self, url: str, authority: str, token: str) -> None:
        self._host = urlsplit(url).netloc
        self._tls = ssl.create_default_context(cadata=authority)
        self._token = token

    def __call__(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        media_type: str | None = "application/json",
        **headers: str,
    ) -> Answer:
        with self._asked(method, path, body, media_type, headers) as response:
            return Answer(response, response.read())

    def get(self, path: str, **headers: str) -> dict[str, Any]:
        answer = self("GET", path, **headers)
        assert answer.code == 200, answer.raw
        return answer.json

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = self("POST", path, body)
        assert answer.code == 201, answer.raw
        return answer.json

    def patch(self, path: str, body: object, *, media_type: str = "application/merge-patch+json") -> Answer:
        return self("PATCH", path, body, media_type=media_type)

    @contextmanager
    def watch(self, path: str) -> Iterator[Iterator[dict[str, Any]]]:
        """The events of a watch as they arrive, until the server ends it."""
        with self._asked("GET", path, None, None, {}) as response:
            assert response.status == 200, response.read()
            yield (json.loads(line) for line in iter(response.readline, b""))

    @contextmanager
    def _asked(
        self, method: str, path: str, body: object, media_type: str | None, headers: dict[str, str]
    ) -> Iterator[http.client.HTTPResponse]:
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {"Authorization": f"Bearer {self._token}"} | {k.replace("_", "-"): v for k, v in headers.items()}
        if raw is not None and media_type:
            sent["Content-Type"] = media_type
        connection = http.client.HTTPSConnection(self._host, context=self._tls, timeout=TIMEOUT_SECONDS)
        try:
            connection.request(method, path, raw, sent)
            yield connection.getresponse()
        finally:
            connection.close()


class Connection:
    """One connection kept open over many requests."""

    def __init__(self, access: Access) -> None:
        tls = ssl.create_default_context(cadata=access.authority)
        host = access.server.removeprefix("https://")
        self._connection = http.client.HTTPSConnection(host, context=tls, timeout=20)
        self._headers = {"Authorization": f"Bearer {access.token}", "Content-Type": "application/json"}

    def __call__(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        raw = None if body is None else json.dumps(body)
        self._connection.request(method, path, raw, self._headers)
        response = self._connection.getresponse()
        return response.status, json.loads(response.read())

    def close(self) -> None:
        self._connection.close()
