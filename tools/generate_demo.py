"""Writes docs/figures/demo.svg, an animated picture of `mooring demo`: runs it and draws what it prints.

The picture is a terminal of fixed size. Lines appear one after the other and scroll; where animations are not wanted
(`prefers-reduced-motion`) it shows the explanation. Times and names differ between runs, so a test compares only the
commands. Run `python -m tools.generate_demo` after a change of the demo.
"""

import html
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

PICTURE: Final = Path(__file__).parents[1] / "docs" / "figures" / "demo.svg"

COLUMNS: Final = 112
ROWS: Final = 26
CHARACTER_WIDTH: Final = 7.9
LINE_HEIGHT: Final = 18
MARGIN: Final = 16
TITLE_HEIGHT: Final = 30
#: A command is typed, an output is read; and the end stays.
TYPING_SECONDS: Final = 1.6
LINE_SECONDS: Final = 0.12
READING_SECONDS: Final = 2.2
END_SECONDS: Final = 6.0
#: Lines of output after which a command's output is cut, with an ellipsis.
MAX_OUTPUT: Final = 16
#: What the still picture shows at its top.
STILL_FROM: Final = "mooring explain"

STYLE: Final = """
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre;fill:#d6dbe5}
.c{fill:#7fd1e8}.k{fill:#fff;font-weight:600}.r{fill:#ff8f8f;font-weight:600}.g{fill:#8fe3a1;font-weight:600}
"""


class Line(NamedTuple):
    text: str
    style: str
    #: When it appears.
    at: float


def transcript() -> list[str]:
    command = [sys.executable, "-m", "mooring", "demo", "--pause=0"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().splitlines()


def timed(lines: Sequence[str]) -> tuple[list[Line], float]:
    """The lines with their times, and the length of the whole."""
    found: list[Line] = []
    now, shown = 0.5, 0
    for text in lines:
        if text.startswith("$ "):
            now += TYPING_SECONDS
            shown = 0
        elif text.startswith("#"):
            now += READING_SECONDS if found and not found[-1].text.startswith("#") else 0.0
        else:
            shown += 1
            now += LINE_SECONDS
            if shown > MAX_OUTPUT:
                if shown == MAX_OUTPUT + 1:
                    found.append(Line("  …", "", now))
                continue
        found += (Line(part, _style(text), now) for part in _wrapped(text))
    return found, now + END_SECONDS


def _style(text: str) -> str:
    if text.startswith("#"):
        return "c"
    if text.startswith("$ "):
        return "k"
    if "would not fit" in text:
        return "r"
    return "g" if text.endswith(("is scheduled.", "condition met")) else ""


def _wrapped(text: str) -> Iterator[str]:
    """As a terminal wraps; continuations of a command are recognised by their backslash."""
    while len(text) > COLUMNS:
        yield text[: COLUMNS - 1] + "\\"
        text = text[COLUMNS - 1 :]
    yield text


def drawn(lines: Sequence[Line], seconds: float) -> str:
    width = round(COLUMNS * CHARACTER_WIDTH + 2 * MARGIN)
    height = ROWS * LINE_HEIGHT + 2 * MARGIN + TITLE_HEIGHT
    still = next((row for row, line in enumerate(lines) if STILL_FROM in line.text), 0)
    still = max(0, min(still - 2, len(lines) - ROWS))
    rules = [STYLE.strip(), f".s{{transform:translateY({-still * LINE_HEIGHT}px)}}"]
    rules.append("@media (prefers-reduced-motion:no-preference){")
    rules.append(f".s{{animation:s {seconds:g}s infinite step-end}}")
    frames = ["0%{transform:translateY(0)}"]
    frames += (
        f"{100 * line.at / seconds:.2f}%{{transform:translateY({-(row - ROWS + 1) * LINE_HEIGHT}px)}}"
        for row, line in enumerate(lines)
        if row >= ROWS
    )
    rules.append(f"@keyframes s{{{''.join(frames)}}}")
    moments = sorted({line.at for line in lines})
    for number, at in enumerate(moments):
        rules.append(f".t{number}{{animation:t{number} {seconds:g}s infinite step-end}}")
        rules.append(f"@keyframes t{number}{{0%{{opacity:0}}{100 * at / seconds:.2f}%{{opacity:1}}}}")
    rules.append("}")
    rows = "\n".join(
        f'<text class="t{moments.index(line.at)} {line.style}" y="{row * LINE_HEIGHT}">{html.escape(line.text)}</text>'
        for row, line in enumerate(lines)
        if line.text
    )
    dots = "".join(
        f'<circle cx="{place}" cy="16" r="5" fill="{colour}"/>'
        for place, colour in ((20, "#ff6b60"), (38, "#f7c04a"), (56, "#3fc56b"))
    )
    size = f'width="{width}" height="{height}"'
    # The baseline of the first row is 13 below the top.
    inner = f'width="{width - 2 * MARGIN}" height="{(ROWS - 1) * LINE_HEIGHT + 18}"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {size} role="img">
<title>mooring demo: a stuck pod, its explanation and a rollback</title>
<style>
{"".join(rules)}
</style>
<rect {size} rx="8" fill="#1b1f2a"/>
{dots}
<text x="{width / 2}" y="20" text-anchor="middle" fill-opacity=".6">mooring demo</text>
<svg x="{MARGIN}" y="{TITLE_HEIGHT + MARGIN - 13}" {inner}>
<g transform="translate(0 13)"><g class="s">
{rows}
</g></g></svg>
</svg>
"""


def shown_commands(picture: str) -> list[str]:
    """The commands on a picture, with their lines joined again."""
    texts = [html.unescape(each) for each in re.findall(r"<text class=[^>]*\bk\"[^>]*>(.*?)</text>", picture)]
    found: list[str] = []
    continues = False
    for text in texts:
        part = text.removesuffix("\\") if (more := len(text) == COLUMNS and text.endswith("\\")) else text
        if continues:
            found[-1] += part
        else:
            found.append(part.removeprefix("$ "))
        continues = more
    return found


def main() -> None:
    PICTURE.write_text(drawn(*timed(transcript())))
    print(f"wrote {PICTURE.name}, {PICTURE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
