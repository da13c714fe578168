"""`python -m tools.generate_troubleshooting` writes the page; a test says whether it is up to date."""

from pathlib import Path

from tools.generate_troubleshooting.page import page

from mooring.explain.messages import PAGE


def main() -> None:
    (Path(__file__).parents[2] / "docs" / f"{PAGE}.md").write_text(page())


if __name__ == "__main__":
    main()
