"""Hook of mkdocs: pages of the repository's root become pages of the site, and links out of `docs/` follow them.

A link to a root page leads to its page of the site. A link to any other file outside `docs/`, such as a source file,
has no target on the site: its text stays, as code. A link to a file that does not exist stays as it is, so that mkdocs
reports it.
"""

import os
import re
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
#: File of the root -> page of the site.
ROOT_PAGES: Final = {
    "README.md": "project/readme.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security-policy.md",
}
_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FENCE: Final = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, page in ROOT_PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    sources = {target: source for source, target in ROOT_PAGES.items()}
    place = page.file.src_uri
    origin = ROOT / sources[place] if place in sources else DOCS / place
    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else relinked(part, origin, place) for part in parts)


def relinked(markdown: str, origin: Path, place: str) -> str:
    """The text with its links as seen from `place` on the site; `origin` is the file it was written in."""

    def replaced(found: re.Match[str]) -> str:
        image, text, target = found.groups()
        if "://" in target or target.startswith(("#", "mailto:")):
            return found[0]
        path, mark, anchor = target.partition("#")
        file = Path(os.path.normpath(origin.parent / path))
        if file.is_relative_to(ROOT) and str(file.relative_to(ROOT)) in ROOT_PAGES:
            there = ROOT_PAGES[str(file.relative_to(ROOT))]
        elif file.is_relative_to(DOCS) and file.is_file():
            there = str(file.relative_to(DOCS))
        elif file.exists():
            return text if text.startswith("`") else f"{text} (`{file.relative_to(ROOT)}`)"
        else:
            return found[0]
        return f"{image}[{text}]({os.path.relpath(there, Path(place).parent)}{mark}{anchor})"

    return _LINK.sub(replaced, markdown)
