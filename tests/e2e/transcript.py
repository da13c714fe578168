"""Transcripts in documentation: the commands of its console blocks, and what they are said to print.

    $ a command, also over several lines up to the end of a here-document
    a line of its output, blanks not counted, `...` standing for anything

Lines that are shown must come in that order; others may come between them. Blocks without an output are run all the
same. Blocks that are indented instead of fenced are for reading only.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

#: A command of a tutorial waits for a minute at most.
SECONDS: Final = 90
#: Commands that change nothing are typed again until they show what they should: readers are slower than tests.
LOOKING: Final = ("kubectl get ", "kubectl describe ", "mooring ")
PATIENCE: Final = 30.0


class Command(NamedTuple):
    text: str
    shown: tuple[str, ...]


def commands(page: str) -> Iterator[Command]:
    for block in re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        lines = iter(block.splitlines())
        text, shown = "", []
        for line in lines:
            if not line.startswith("$ "):
                shown.append(line)
                continue
            if text:
                yield Command(text, tuple(shown))
            text, shown = line[2:], []
            if text.endswith("<<EOF"):
                for part in lines:
                    text += f"\n{part}"
                    if part == "EOF":
                        break
        if text:
            yield Command(text, tuple(shown))


def run(command: Command, *, kubeconfig: Path, folder: Path) -> None:
    """As in a shell in that folder. The command must succeed, and print what is shown: if it only looks, in the end."""
    deadline = time.monotonic() + PATIENCE
    while (wrong := _wrong(command, kubeconfig, folder)) is not None:
        assert command.text.startswith(LOOKING), wrong
        assert time.monotonic() < deadline, wrong
        time.sleep(0.5)


def _wrong(command: Command, kubeconfig: Path, folder: Path) -> str | None:
    """What is not as shown, once."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        ["bash", "-c", command.text],
        cwd=folder,
        env=os.environ | {"KUBECONFIG": str(kubeconfig), "PATH": path},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    printed = f"$ {command.text}\n{done.stdout}{done.stderr}"
    # One is an answer of these, that something does not fit, and no failure.
    if done.returncode not in ((0, 1) if command.text.startswith("mooring ") else (0,)):
        return f"{printed}\nended with {done.returncode}"
    left = iter(printed.splitlines()[1:])
    for line in command.shown:
        pattern = _pattern(line)
        if not any(pattern.search(" ".join(each.split())) for each in left):
            return f"{printed}\nlacks {line}"
    return None


def _pattern(line: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(" ".join(part.split())) for part in line.split("...")))
