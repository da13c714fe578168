"""Every field of a kubeconfig that is read is documented, and so is every one that is refused."""

from pathlib import Path

import msgspec
import pytest

from mooring.client.kubeconfig_file import ClusterEntry, ExecEntry, UserEntry

PAGE = (Path(__file__).parents[2] / "docs" / "kubeconfig.md").read_text()


@pytest.mark.parametrize("entry", [ClusterEntry, UserEntry, ExecEntry], ids=lambda entry: entry.__name__)
def test_every_field_is_on_the_page(entry: type[msgspec.Struct]) -> None:
    missing = [row.encode_name for row in msgspec.structs.fields(entry) if f"`{row.encode_name}`" not in PAGE]
    assert missing == []
