"""kube-apiserver's file of tokens."""

from pathlib import Path

import pytest

from mooring.server.authentication.token_file import BadTokenFile, StaticTokens, read_token_file
from mooring.server.contract import User


def written(folder: Path, text: str) -> Path:
    file = folder / "tokens.csv"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("t,alice,1\n", {"t": User("alice", (), "1")}, id="without groups"),
        pytest.param('t,alice,1,"dev,ops"\n', {"t": User("alice", ("dev", "ops"), "1")}, id="groups in quotes"),
        pytest.param("t,alice,1,dev\n", {"t": User("alice", ("dev",), "1")}, id="one group"),
        pytest.param("t, alice , 1 , dev\n", {"t": User("alice", ("dev",), "1")}, id="blanks"),
        pytest.param("t,alice,1,dev,more\n", {"t": User("alice", ("dev",), "1")}, id="more columns than are read"),
        pytest.param("\nt,alice,\n\nu,bob,2\n", {"t": User("alice"), "u": User("bob", (), "2")}, id="several, gaps"),
        pytest.param("", {}, id="empty"),
    ],
)
def test_rows(tmp_path: Path, text: str, want: dict[str, User]) -> None:
    assert read_token_file(written(tmp_path, text)) == want


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("s3cret,alice\n", r"row 1: must have at least 3 columns", id="too few columns"),
        pytest.param("a,b,c\n,alice,1\n", r"row 2: neither the token nor the user name", id="no token"),
        pytest.param("s3cret,,1\n", r"row 1: neither the token nor the user name", id="no user"),
        pytest.param("s3cret,a,1\ns3cret,b,2\n", r"row 2: the token is in an earlier row", id="a token twice"),
        pytest.param('s3cret,"a"b,1\n', r"is not a CSV file", id="bad quotes"),
    ],
)
def test_what_cannot_be_read_is_refused_without_showing_it(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(BadTokenFile, match=why) as refused:
        read_token_file(written(tmp_path, text))
    assert "s3cret" not in str(refused.value)


async def test_tokens_are_for_this_server_only() -> None:
    tokens = StaticTokens({"t": User("alice")}, audiences=("api",))
    found = await tokens.identify("t", ())
    assert found is not None
    assert found.audiences == ("api",)
    assert await tokens.identify("t", ("api", "other")) is not None
    assert await tokens.identify("t", ("other",)) is None


def test_no_token_is_kept_in_the_clear() -> None:
    assert "s3cret" not in repr(vars(StaticTokens({"s3cret": User("alice")})))
