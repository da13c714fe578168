"""What a terminal would obey never leaves the command line: not in answers, errors, pipes or the progress line."""

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.cli import terminal
from mooring.cli.main import main
from mooring.cli.runtime import FIRST_SHOWN_AFTER_SECONDS, ProgressLine
from support.builders import Body, claim_body, class_body, node_body, pod_body, volume_body

#: Sets the clipboard, erases the screen, renames the window, and the one-byte form of CSI.
EVIL = "a\x1b]52;c;cm0gLXJm\x07\x1b[2J\rb\x9b31m\x7f"
OBEYED = [chr(code) for code in (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0))]


def event(name: str) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.1", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "apiVersion": "v1", "namespace": "default", "name": name},
        "reason": f"Failed{EVIL}",
        "message": EVIL,
        "source": {"component": EVIL},
        "firstTimestamp": "2026-01-02T03:04:05Z",
    }


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    bodies: list[Body] = [
        class_body(name=EVIL),
        node_body(name=EVIL, labels={EVIL: EVIL}),
        claim_body(name="data", storage_class=EVIL),
        volume_body(name=EVIL, node=EVIL, storage_class=EVIL),
        volume_body(name="lost", node="gone", storage_class=EVIL),
        pod_body(name="web", claims=["data", EVIL], requests={"cpu": "100"}),
        event("web"),
    ]
    file = tmp_path / "dump.yaml"
    file.write_text(yaml.safe_dump_all(bodies))
    return file


COMMANDS = [
    ["explain", "pod/web"],
    ["explain", "pod/web", "-o", "wide"],
    ["explain", "pvc/data"],
    ["explain", f"node/{EVIL}"],
    ["explain", f"pod/{EVIL}"],
    ["explain"],
    ["story", "pod/web"],
    ["story", f"pod/{EVIL}"],
    ["orphans"],
    ["doctor"],
    ["simulate", "--remove-node", EVIL],
    ["simulate", "--drain", EVIL],
]


def run(arguments: list[str], dump: Path) -> Result:
    return CliRunner().invoke(main, [*arguments, "-f", str(dump)])


@pytest.mark.parametrize(
    "arguments", COMMANDS, ids=lambda arguments: " ".join(arguments).encode("unicode_escape").decode()
)
def test_no_answer_and_no_error_carries_controls(arguments: list[str], dump: Path) -> None:
    done = run(arguments, dump)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.output
    assert not [char for char in OBEYED if char in done.stdout + done.stderr]


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_programs_get_every_character_escaped(output: str, dump: Path) -> None:
    done = run(["story", "pod/web", "-o", output], dump)
    told = json.loads(done.stdout) if output == "json" else yaml.safe_load(done.stdout)
    assert EVIL in told["happenings"][0]["text"]
    assert not [char for char in OBEYED if char in done.stdout]


def test_errors_of_the_command_line_itself_are_clean() -> None:
    for arguments in ([EVIL], ["explain", f"--{EVIL}"], ["explain", "-f", EVIL, "pod/web"], ["up", "--port", EVIL]):
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code
        assert not [char for char in OBEYED if char in done.output]


def test_pipes_are_as_clean_as_terminals(dump: Path) -> None:
    command = [sys.executable, "-m", "mooring", "story", "pod/web", "-f", str(dump)]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert "FailedScheduling".removesuffix("Scheduling") in done.stdout.decode()
    assert not [char for char in OBEYED if char in (done.stdout + done.stderr).decode()]


def test_a_terminal_gets_colours_of_ours_and_nothing_else(dump: Path) -> None:
    """On a terminal the first line is coloured; the names in it are not obeyed."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "mooring", "explain", "pod/web", "-f", str(dump)]
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": ""}
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    seen = b""
    while chunk := _read(ours):
        seen += chunk
    process.wait(timeout=60)
    os.close(ours)
    text = seen.decode().replace("\r\n", "\n")
    for style in ("\x1b[31m", "\x1b[1m", "\x1b[0m"):
        assert style in text
        text = text.replace(style, "")
    assert not [char for char in OBEYED if char in text]


def _read(terminal_side: int) -> bytes:
    try:
        return os.read(terminal_side, 65536)
    except OSError:  # the other side is closed
        return b""


def test_the_progress_line_redraws_itself_and_obeys_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Watched(io.StringIO):
        def isatty(self) -> bool:
            return True

    class Ticking:
        moment = 0.0

        def now(self) -> float:
            return self.moment

        def monotonic(self) -> float:
            return self.moment

        async def sleep(self, seconds: float) -> None:
            self.moment += seconds

    raw, clock = Watched(), Ticking()
    monkeypatch.setattr(sys, "stderr", raw)
    terminal.install()
    with ProgressLine(clock) as line:
        clock.moment += FIRST_SHOWN_AFTER_SECONDS
        line(EVIL, 1, 2)
    drawn, erased = raw.getvalue().split("\r\x1b[K")[1:]
    assert not [char for char in OBEYED if char in drawn]
    assert erased == ""


def test_text_that_cannot_be_encoded_is_shown_as_well_as_can_be() -> None:
    raw = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    stream = terminal.CleanStream(raw)
    stream.write("5 µs \ud800\n")
    raw.flush()
    assert raw.buffer.getvalue() == b"5 ?s ?\n"
