"""Transcripts in documentation: the commands of console blocks, and their expected output.

    $ a command, also over several lines up to the end of a here-document
    a line of its output, whitespace ignored, `...` matching anything

Shown lines must occur in that order; others may occur between them. Blocks without an output are run too. Indented
blocks are not run.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

#: Maximum duration of a command in a tutorial.
SECONDS: Final = 90
#: Read-only commands are repeated until they print the expected output: readers are slower than tests.
READ_ONLY: Final = ("kubectl get ", "kubectl describe ", "mooring ")
TIMEOUT_SECONDS: Final = 30.0


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
    """Run in a shell in that folder. The command must succeed and print what is shown; commands that only read are
    retried.
    """
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while (wrong := _mismatch(command, kubeconfig, folder)) is not None:
        assert command.text.startswith(READ_ONLY), wrong
        assert time.monotonic() < deadline, wrong
        time.sleep(0.5)


def _mismatch(command: Command, kubeconfig: Path, folder: Path) -> str | None:
    """The difference between one output and the transcript."""
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
    # Exit code 1 of these commands is a result ("does not fit"), not a failure.
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
