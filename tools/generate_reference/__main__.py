"""`python -m tools.generate_reference` writes the pages; a test says whether they are up to date."""

from pathlib import Path

from tools.generate_reference.pages import PAGES


def main() -> None:
    root = Path(__file__).parents[2]
    for path, page in PAGES.items():
        (root / path).write_text(page(root))


if __name__ == "__main__":
    main()
