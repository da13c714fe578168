"""The documentation site builds without a warning, has every page, and its sentences are short."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools.site_pages import ROOT_PAGES, relinked

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: Words of a sentence that counts as long, and the share of such sentences.
LONG_WORDS = 25
LONG_SHARE = 0.10
#: Records that are dated and not rewritten, and generated tables.
LEFT_OUT = ("decisions", "reference")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Warnings are errors: links, anchors, and pages that the navigation leaves out."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_on_the_site(site: Path) -> None:
    wanted = {
        str(path.relative_to(DOCS).with_suffix(".html")) for path in DOCS.rglob("*.md") if path.name != "README.md"
    }
    wanted |= {str(Path(page).with_suffix(".html")) for page in ROOT_PAGES.values()}

    assert {page for page in wanted if not (site / page).is_file()} == set()


def test_links_on_the_site_have_targets(site: Path) -> None:
    broken = [
        f"{page.relative_to(site)}: {link}"
        for page in site.rglob("*.html")
        for link in re.findall(r'href="([^"#:]+)["#]', page.read_text())
        if page.name != "404.html" and not (page.parent / link).exists()
    ]
    assert broken == []


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        pytest.param("[a](rollback.md#holds)", "[a](rollback.md#holds)", id="a page beside"),
        pytest.param("[a](../CHANGELOG.md)", "[a](project/changelog.md)", id="a page of the root"),
        pytest.param("[`x`](../examples/custom_scheduler.py)", "`x`", id="a source file"),
        pytest.param("[x](../Makefile)", "x (`Makefile`)", id="a source file that the text does not name"),
        pytest.param("[a](no-such-page.md)", "[a](no-such-page.md)", id="a page that does not exist"),
        pytest.param("[a](https://kubernetes.io)", "[a](https://kubernetes.io)", id="another site"),
    ],
)
def test_links_follow_the_pages(link: str, expected: str) -> None:
    assert relinked(link, DOCS / "explain.md", "explain.md") == expected


def sentences(text: str) -> list[str]:
    """Sentences of the prose: without code, tables and headings."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`]*`", "x", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    paragraphs = [each for each in re.split(r"\n\s*\n", text) if not each.lstrip().startswith(("|", "#", "<!--"))]
    items = [item for each in paragraphs for item in re.split(r"^\s*(?:[-*]|\d+\.) ", each, flags=re.MULTILINE)]
    found = [part for item in items for part in re.split(r"(?<=[.!?:])\s+(?=[A-Z*\[x])", item.replace("\n", " "))]
    return [each for each in found if len(each.split()) > 1]


def test_few_sentences_are_long() -> None:
    pages = [path for path in DOCS.rglob("*.md") if path.parent.name not in LEFT_OUT]
    pages += [ROOT / name for name in ROOT_PAGES if name != "CHANGELOG.md"]
    found = {path: sentences(path.read_text()) for path in pages}
    long = {path: [each for each in all_ if len(each.split()) > LONG_WORDS] for path, all_ in found.items()}
    share = sum(map(len, long.values())) / sum(map(len, found.values()))

    worst = sorted(long, key=lambda path: -len(long[path]))[:5]
    named = "\n".join(f"{path.relative_to(ROOT)}: {each[:100]}" for path in worst for each in long[path][:3])
    assert share <= LONG_SHARE, f"{share:.1%} of the sentences have more than {LONG_WORDS} words:\n{named}"


def test_a_long_sentence_counts() -> None:
    text = (
        "# Heading of no sentence\n\nShort one. Long "
        + "word " * 26
        + "end.\n\n| a | table |\n\n```\ncode "
        + "x " * 30
        + "\n```\n"
    )

    assert [len(each.split()) > LONG_WORDS for each in sentences(text)] == [False, True]
