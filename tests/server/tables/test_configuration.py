"""ConfigMaps, Secrets, and kinds without a table of their own."""

from mooring.api import kinds
from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.server.tables.printers import PRINTERS
from server.tables.rows import row


def test_config_maps_count_both_kinds_of_data() -> None:
    config = {"metadata": {"name": "a"}, "data": {"x": "1", "y": "2"}, "binaryData": {"z": "AA=="}}
    assert row(kinds.CONFIG_MAP, config) == {"Name": "a", "Data": 3, "Age": "5m"}


def test_secrets() -> None:
    secret = {"metadata": {"name": "s"}, "type": "Opaque", "data": {"x": "AA=="}}
    assert row(kinds.SECRET, secret) == {"Name": "s", "Type": "Opaque", "Data": 1, "Age": "5m"}


def test_service_accounts() -> None:
    assert row(kinds.SERVICE_ACCOUNT, {"metadata": {"name": "default"}}) == {"Name": "default", "Age": "5m"}


def test_unlisted_kinds_show_name_and_age() -> None:
    unlisted = Kind("example.com", "v1", "Thing", "things", True, ApiObject)
    assert row(unlisted, {"metadata": {"name": "x"}}) == {"Name": "x", "Age": "5m"}


def test_every_kind_has_a_printer() -> None:
    assert set(PRINTERS) == {kind for kind in kinds.KINDS if "list" in kind.verbs}
