"""Programs run to their end, or ended."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mooring.client.exec_plugin import MAX_OUTPUT_BYTES, ProcessResult, run

#: Generous; only a broken test waits for it.
TIMEOUT_SECONDS = 10.0


async def sh(command: str, *, timeout: float = TIMEOUT_SECONDS, interactive: bool = False, **env: str) -> ProcessResult:
    return await run(("/bin/sh", "-c", command), env=os.environ | env, interactive=interactive, timeout=timeout)


@pytest.mark.parametrize(
    ("command", "want"),
    [
        pytest.param("echo out; echo err >&2", ProcessResult(0, b"out\n", b"err\n"), id="both streams"),
        pytest.param("exit 3", ProcessResult(3, b"", b""), id="a code"),
        pytest.param("kill -TERM $$", ProcessResult(-signal.SIGTERM, b"", b""), id="a signal"),
        pytest.param("echo $GREETING", ProcessResult(0, b"hello\n", b""), id="the environment"),
        pytest.param("cat; echo done", ProcessResult(0, b"done\n", b""), id="nothing to read"),
    ],
)
async def test_process_results(command: str, want: ProcessResult) -> None:
    assert await sh(command, GREETING="hello") == want


async def test_output_is_bounded() -> None:
    ended = await sh(f"head -c {MAX_OUTPUT_BYTES + 1} /dev/zero")
    assert len(ended.stdout) == MAX_OUTPUT_BYTES


@pytest.mark.parametrize(
    ("command", "error"),
    [
        pytest.param("/nowhere/at-all", FileNotFoundError, id="missing"),
        pytest.param("no-such-program-anywhere", FileNotFoundError, id="not on the path"),
        pytest.param("/etc/passwd", PermissionError, id="not a program"),
    ],
)
async def test_what_cannot_be_started(command: str, error: type[OSError]) -> None:
    with pytest.raises(error):
        await run((command,), env={}, interactive=False, timeout=TIMEOUT_SECONDS)


def is_running(pid: int) -> bool:
    """Whether the process is there and not only waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def pids_in(file: Path) -> list[int]:
    return [int(each) for each in file.read_text().split()] if file.exists() else []


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(round(TIMEOUT_SECONDS / 0.005)):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise TimeoutError


#: Hangs together with a child of its own that holds the streams open.
HANGS = 'sleep 600 & echo $$ $! > "$FILE"; wait'


async def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    with pytest.raises(TimeoutError):
        await sh(HANGS, timeout=0.2, FILE=str(file))
    assert len(pids_in(file)) == 2
    await until(lambda: not any(map(is_running, pids_in(file))))


async def test_a_run_that_is_cancelled_leaves_nothing_behind(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    running = asyncio.create_task(sh(HANGS, FILE=str(file)))
    await until(lambda: len(pids_in(file)) == 2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: not any(map(is_running, pids_in(file))))


@pytest.mark.parametrize("steps", range(12))
async def test_a_run_may_be_cancelled_while_it_starts(tmp_path: Path, steps: int) -> None:
    file = tmp_path / "pids"
    running = asyncio.create_task(sh(HANGS, FILE=str(file)))
    for _ in range(steps):
        await asyncio.sleep(0)
    # The loop stands still while the program gets going, as on a machine that is busy with others.
    if steps:
        time.sleep(0.02)  # noqa: ASYNC251
    running.cancel()
    async with asyncio.timeout(TIMEOUT_SECONDS):
        with pytest.raises(asyncio.CancelledError):
            await running
    await until(lambda: not any(map(is_running, pids_in(file))))


async def test_an_interactive_program_has_our_input_and_shows_its_questions(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    answers = tmp_path / "answers"
    answers.write_text("blue\n")
    saved = os.dup(0)
    with answers.open() as file:
        os.dup2(file.fileno(), 0)
    try:
        ended = await sh("echo color? >&2; read color; echo $color", interactive=True)
    finally:
        os.dup2(saved, 0)
        os.close(saved)
    assert ended == ProcessResult(0, b"blue\n", b"color?\n")
    assert capsys.readouterr().err == "color?\n"


async def test_an_interactive_program_that_hangs_is_ended_too() -> None:
    with pytest.raises(TimeoutError):
        await run((sys.executable, "-c", "import time; time.sleep(600)"), env=os.environ, interactive=True, timeout=0.1)
