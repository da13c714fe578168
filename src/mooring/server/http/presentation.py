"""Objects in the requested form: full, PartialObjectMetadata, or rows of a Table.

One presenter serves one request and encodes an object, a page or watch events as JSON. Full objects are the stored
bytes, without decoding.
"""

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from mooring.api.errors import BadRequest
from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.clock import Clock
from mooring.server.contract import Page, StreamEvent
from mooring.server.http.responses import Form
from mooring.server.kinds.columns import text_at
from mooring.server.kinds.registry import rules_of

_META: Final = "meta.k8s.io/v1"


class Presenter(ABC):
    @abstractmethod
    def one(self, body: bytes) -> bytes:
        """One object; called repeatedly by a watch."""

    @abstractmethod
    def page(self, page: Page) -> bytes: ...

    def line(self, event: StreamEvent) -> bytes:
        """One event of a watch."""
        return StreamEvent(event.type, self.one(event.body)).line


class IncludeObject(enum.StrEnum):
    """The `includeObject` parameter: content of a row's `object`."""

    NONE = "None"
    METADATA = "Metadata"
    OBJECT = "Object"


def presenter_for(form: Form, kind: Kind[ApiObject], *, include: str, clock: Clock) -> Presenter:
    """Raises BadRequest for an invalid `includeObject`."""
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


class PlainPresenter(Presenter):
    def __init__(self, kind: Kind[ApiObject]) -> None:
        self._kind = kind

    def one(self, body: bytes) -> bytes:
        return body

    def page(self, page: Page) -> bytes:
        return _list(self._kind.list_kind, self._kind.api_version, page, page.items)

    def line(self, event: StreamEvent) -> bytes:
        return event.line


class _Envelope(msgspec.Struct, frozen=True, gc=False):
    """Extracts the metadata without decoding it."""

    metadata: msgspec.Raw = msgspec.Raw(b"{}")


class MetadataPresenter(Presenter):
    """`PartialObjectMetadata` of any kind."""

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(_Envelope)

    def one(self, body: bytes) -> bytes:
        metadata = bytes(self._decoder.decode(body).metadata)
        return b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":%b}' % metadata

    def page(self, page: Page) -> bytes:
        items = [self.one(body) for body in page.items]
        return _list("PartialObjectMetadataList", _META, page, items)


class TablePresenter(Presenter):
    """`Table`. Only the first table of a request has column definitions, as clients of watches expect."""

    def __init__(self, kind: Kind[ApiObject], *, include: IncludeObject, clock: Clock) -> None:
        self._printer = rules_of(kind).printer
        self._include = include
        self._clock = clock
        self._described = False

    def one(self, body: bytes) -> bytes:
        value = msgspec.json.decode(body)
        version = {"resourceVersion": text_at(value, "metadata", "resourceVersion")}
        return self._table(version, [self._row(body, value, {})])

    def page(self, page: Page) -> bytes:
        of_list: Mapping[str, Any] = {}
        if self._printer.derive_of_list is not None:
            of_list = self._printer.derive_of_list([msgspec.json.decode(body) for body in page.items])
        rows = [self._row(body, msgspec.json.decode(body), of_list) for body in page.items]
        return self._table(_list_metadata(page), rows)

    def _table(self, metadata: Mapping[str, str | int], rows: list[dict[str, Any]]) -> bytes:
        columns = None if self._described else [column.definition() for column in self._printer.columns]
        self._described = True
        return msgspec.json.encode(
            {"kind": "Table", "apiVersion": _META, "metadata": metadata, "columnDefinitions": columns, "rows": rows}
        )

    def _row(self, body: bytes, value: dict[str, Any], of_list: Mapping[str, Any]) -> dict[str, Any]:
        row: dict[str, Any] = {
            "cells": self._printer.cells(value, self._clock.now(), of_list),
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
    """One join for the whole list: concatenating large bytes would copy them repeatedly."""
    head = {"kind": kind, "apiVersion": api_version, "metadata": _list_metadata(page)}
    opening = msgspec.json.encode(head)[:-1] + b',"items":['
    pieces = [opening]
    for item in items:
        pieces += (item, b",")
    if len(pieces) > 1:
        pieces.pop()
    pieces.append(b"]}")
    return b"".join(pieces)
