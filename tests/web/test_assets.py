"""What the browser runs keeps the rules of the rest: small modules, nothing inline, nothing from elsewhere."""

import re

import pytest

from mooring.web.server import assets

TEXTS = {name: asset.body.decode() for name, asset in assets().items()}
MODULES = [name for name in TEXTS if name.endswith(".js")]


@pytest.mark.parametrize("name", TEXTS)
def test_files_stay_small_and_lines_short(name: str) -> None:
    lines = TEXTS[name].splitlines()
    assert len(lines) < 400
    if not name.endswith(".svg"):
        assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("name", [name for name in TEXTS if name.endswith((".js", ".css"))])
def test_every_file_says_what_it_is(name: str) -> None:
    assert TEXTS[name].startswith(("// ", "/* "))


@pytest.mark.parametrize("name", MODULES)
def test_modules_import_what_is_there(name: str) -> None:
    for wanted, source in re.findall(r'import \{([^}]+)\} from "\./([^"]+)"', TEXTS[name]):
        for symbol in wanted.replace("\n", " ").split(","):
            if symbol.strip():
                exported = rf"export (async )?(function\*?|class|const|let) {symbol.strip()}\b"
                assert re.search(exported, TEXTS[source]), f"{source} does not export {symbol.strip()}"


@pytest.mark.parametrize("name", TEXTS)
def test_nothing_comes_from_elsewhere_or_becomes_markup(name: str) -> None:
    text = TEXTS[name].replace("http://www.w3.org/2000/svg", "")
    assert not re.search(
        r"https?:|//cdn|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text
    )


def test_the_page_names_only_files_that_are_there_and_has_nothing_inline() -> None:
    page = TEXTS["index.html"]
    named = re.findall(r'(?:src|href)="/assets/([^"]+)"', page)
    assert set(named) <= set(TEXTS)
    assert {name for name in TEXTS if name.endswith(".css")} <= set(named)
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*\bsrc=)", page)
