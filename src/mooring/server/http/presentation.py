"""Objects in the form a client asked for: as stored, as metadata only, or as rows of a Table.

One presenter serves one request; it turns an object, a page or the objects of a watch into JSON bytes. What is
stored stays untouched: plain objects and lists go out as the bytes they are, joined once.
"""

import enum
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec

from mooring.api.errors import BadRequest
from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.clock import Clock
from mooring.server.contract import Page, StreamEvent
from mooring.server.http.negotiation import Form
from mooring.server.tables.printers import printer_of
from mooring.server.tables.reading import text

_META: Final = "meta.k8s.io/v1"


class Presenter(Protocol):
    def one(self, body: bytes) -> bytes:
        """One object; called again and again by a watch."""
        ...

    def page(self, page: Page) -> bytes: ...

    def line(self, event: StreamEvent) -> bytes:
        """One event of a watch."""
        ...


class IncludeObject(enum.StrEnum):
    """How much of each object comes with its row: the `includeObject` parameter."""

    NONE = "None"
    METADATA = "Metadata"
    OBJECT = "Object"


def presenter_for(form: Form, kind: Kind[ApiObject], *, include: str, clock: Clock) -> Presenter:
    """Raises BadRequest for an `includeObject` that is none."""
    match form:
        case Form.PLAIN:
            return PlainPresenter(kind)
        case Form.METADATA:
            return MetadataPresenter()
        case Form.TABLE:
            try:
                included = IncludeObject(include or IncludeObject.METADATA)
            except ValueError as error:
                raise BadRequest(f'unrecognized includeObject value: "{include}"') from error
            return TablePresenter(kind, include=included, clock=clock)


class PlainPresenter:
    """Bytes as they are."""

    def __init__(self, kind: Kind[ApiObject]) -> None:
        self._kind = kind

    def one(self, body: bytes) -> bytes:
        return body

    def page(self, page: Page) -> bytes:
        return _list(self._kind.list_kind, self._kind.api_version, page, page.items)

    def line(self, event: StreamEvent) -> bytes:
        return event.line


class _Envelope(msgspec.Struct, frozen=True, gc=False):
    """Cuts the metadata out of an object without decoding anything."""

    metadata: msgspec.Raw = msgspec.Raw(b"{}")


class MetadataPresenter:
    """`PartialObjectMetadata`: whatever the kind, only the metadata."""

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(_Envelope)

    def one(self, body: bytes) -> bytes:
        metadata = bytes(self._decoder.decode(body).metadata)
        return b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":%b}' % metadata

    def page(self, page: Page) -> bytes:
        items = [self.one(body) for body in page.items]
        return _list("PartialObjectMetadataList", _META, page, items)

    def line(self, event: StreamEvent) -> bytes:
        return StreamEvent(event.type, self.one(event.body)).line


class TablePresenter:
    """`Table`. Columns are described in the first table of a request only, as watchers expect."""

    def __init__(self, kind: Kind[ApiObject], *, include: IncludeObject, clock: Clock) -> None:
        self._printer = printer_of(kind)
        self._include = include
        self._clock = clock
        self._described = False

    def one(self, body: bytes) -> bytes:
        value = msgspec.json.decode(body)
        version = {"resourceVersion": text(value, "metadata", "resourceVersion")}
        return self._table(version, [self._row(body, value)])

    def page(self, page: Page) -> bytes:
        rows = [self._row(body, msgspec.json.decode(body)) for body in page.items]
        return self._table(_list_metadata(page), rows)

    def line(self, event: StreamEvent) -> bytes:
        return StreamEvent(event.type, self.one(event.body)).line

    def _table(self, metadata: Mapping[str, str | int], rows: list[dict[str, Any]]) -> bytes:
        columns = None if self._described else self._printer.columns
        self._described = True
        return msgspec.json.encode(
            {
                "kind": "Table",
                "apiVersion": _META,
                "metadata": metadata,
                "columnDefinitions": columns,
                "rows": rows,
            }
        )

    def _row(self, body: bytes, value: dict[str, Any]) -> dict[str, Any]:
        row: dict[str, Any] = {
            "cells": self._printer.cells(value, self._clock.now()),
            "object": self._included(body, value),
        }
        if conditions := self._printer.conditions(value):
            row["conditions"] = conditions
        return row

    def _included(self, body: bytes, value: dict[str, Any]) -> object:
        match self._include:
            case IncludeObject.NONE:
                return None
            case IncludeObject.OBJECT:
                return msgspec.Raw(body)
            case IncludeObject.METADATA:
                metadata = value.get("metadata", {})
                return {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": metadata}


def _list_metadata(page: Page) -> dict[str, str | int]:
    metadata: dict[str, str | int] = {"resourceVersion": page.resource_version}
    if page.continue_token:
        metadata["continue"] = page.continue_token
    if page.remaining is not None:
        metadata["remainingItemCount"] = page.remaining
    return metadata


def _list(kind: str, api_version: str, page: Page, items: Iterable[bytes]) -> bytes:
    """One join for the whole list: concatenating large bytes costs more than encoding them."""
    head = {"kind": kind, "apiVersion": api_version, "metadata": _list_metadata(page)}
    opening = msgspec.json.encode(head)[:-1] + b',"items":['
    pieces = [opening]
    for item in items:
        pieces += (item, b",")
    if len(pieces) > 1:
        pieces.pop()
    pieces.append(b"]}")
    return b"".join(pieces)
