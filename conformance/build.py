"""Builds the real Kubernetes for the conformance run, into a cache outside the tree.

    python conformance/build.py            build what is missing, verify everything, print the directory
    python conformance/build.py --check    build nothing; say whether all of it is there
    python conformance/build.py kubectl    only this one

One binary after the other, each from the module pinned in the folder beside this script; Go's own caches make a second
run short. A binary appears under its name only once it has run and said the right version, so this may be
interrupted at any time and run again. GOFLAGS and GOMAXPROCS are Go's usual way to leave cores to others.

Exit codes: 0 all is there; 1 a build or a binary failed; 2 wrong usage; 3 binaries are missing and cannot be had
here (no Go, or `MOORING_KUBE_BIN` names a directory without them), and with --check whenever some are missing;
130 and 143 interrupted.
"""

import argparse
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from binaries import BINARIES, BY_NAME, MODULES, Binary, Shelf, shelf

FAILED: Final = 1
MISSING: Final = 3

#: Seconds between two signs of life of one build.
SIGN_OF_LIFE: Final = 30.0
#: Seconds a binary may take to say its version; a loaded machine needs a few.
VERSION_SECONDS: Final = 60.0
#: How much of what Go said is shown when it failed.
LAST_WORDS: Final = 40


class Refusal(Exception):
    """A sentence for the user, and the exit code that goes with it."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class Build:
    """One `go build`, counting the packages it gets through."""

    def __init__(self, binary: Binary, output: Path) -> None:
        self._binary = binary
        self._output = output
        self._began = time.monotonic()
        self._packages = 0
        self._words: deque[str] = deque(maxlen=LAST_WORDS)

    def run(self) -> None:
        """Raises Refusal with what Go said when it fails; ends Go when it is left early."""
        command = ["go", "build", "-v", "-mod=readonly", "-trimpath", "-buildvcs=false"]
        command += ["-ldflags", self._binary.linker_flags, "-o", str(self._output), self._binary.package]
        process = subprocess.Popen(
            command,
            cwd=MODULES / self._binary.folder,
            env=os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        reading = threading.Thread(target=self._read, args=(process,))
        reading.start()
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(SIGN_OF_LIFE)
                    break
                say(self._binary, f"{self._packages} packages compiled, {self.elapsed}")
        finally:
            # Go cleans up behind itself on this one; for a process that has ended it does nothing.
            process.send_signal(signal.SIGINT)
            process.wait()
            reading.join()
        if process.returncode != 0:
            raise Refusal(FAILED, "\n".join([*self._words, f"go could not build {self._binary.name}: see above"]))

    @property
    def elapsed(self) -> str:
        minutes, seconds = divmod(round(time.monotonic() - self._began), 60)
        return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            # `-v` prints the path of each package, one per line; everything else has a space in it.
            if " " in line.rstrip():
                self._words.append(line.rstrip())
            else:
                self._packages += 1


def say(binary: Binary, text: str) -> None:
    print(f"{binary.name:<24}{text}", file=sys.stderr, flush=True)


def version_said(binary: Binary, file: Path) -> str:
    """The first line of what the file says about its version. Raises Refusal when it does not run."""
    try:
        done = subprocess.run(
            [file, *binary.asks_version], capture_output=True, text=True, timeout=VERSION_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Refusal(FAILED, f"{file} does not run: {error}") from error
    return done.stdout.partition("\n")[0].strip()


def as_pinned(binary: Binary, said: str) -> bool:
    """Every one of them ends the line with its version, etcd without the v."""
    return said.split()[-1:] in ([binary.version], [binary.version.removeprefix("v")])


def build(binary: Binary, directory: Path) -> None:
    """Build one binary, try it, and only then give it its name."""
    say(binary, f"building {binary.module} {binary.version}")
    partial = directory / f".{binary.name}.partial"
    attempt = Build(binary, partial)
    try:
        attempt.run()
        said = version_said(binary, partial)
        if not as_pinned(binary, said):
            raise Refusal(FAILED, f"{binary.name} was built as {binary.version} but says {said!r}")
        size = partial.stat().st_size / 1e6
        partial.replace(directory / binary.name)
    finally:
        partial.unlink(missing_ok=True)
    say(binary, f"built in {attempt.elapsed}, {size:.0f} MB")


@contextlib.contextmanager
def only_one_at(directory: Path) -> Iterator[None]:
    """Wait for another run that fills the same directory; the system lifts the lock when a process dies."""
    with (directory / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another build into the same directory", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def fill(place: Shelf, wanted: list[Binary]) -> None:
    """Build what is missing or of another version, and verify the rest."""
    try:
        place.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refusal(FAILED, f"cannot make {place.path}: {error.strerror}; set MOORING_CACHE") from error
    with only_one_at(place.path):
        stale = [binary for binary in wanted if not _usable(binary, place.path / binary.name)]
        if stale and shutil.which("go") is None:
            raise Refusal(
                MISSING,
                f"{_names(stale)} must be built, and Go is not on the PATH: install Go 1.26 or newer, or name a "
                "directory of ready binaries with MOORING_KUBE_BIN",
            )
        for binary in stale:
            build(binary, place.path)


def _usable(binary: Binary, file: Path) -> bool:
    if not file.exists():
        return False
    try:
        said = version_said(binary, file)
    except Refusal as refusal:
        say(binary, f"building anew: {refusal}")
        return False
    if not as_pinned(binary, said):
        say(binary, f"building anew: {said!r} is not {binary.version}")
        return False
    say(binary, said)
    return True


def verify_foreign(place: Shelf, wanted: list[Binary]) -> None:
    """Somebody else's directory: everything must be there and run, whatever its version."""
    _refuse_gaps(place, wanted)
    for binary in wanted:
        say(binary, version_said(binary, place.path / binary.name))


def _refuse_gaps(place: Shelf, wanted: list[Binary]) -> None:
    missing = [binary for binary in place.missing() if binary in wanted]
    if missing:
        remedy = "correct MOORING_KUBE_BIN" if place.foreign else "make conformance builds them (needs Go)"
        raise Refusal(MISSING, f"{_names(missing)} not in {place.path}: {remedy}")


def _names(binaries: list[Binary]) -> str:
    return ", ".join(binary.name for binary in binaries)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="*", help=f"which: {', '.join(BY_NAME)}; all of them if none is named")
    parser.add_argument("--check", action="store_true", help="build nothing, run nothing, only look")
    options = parser.parse_args()
    if strange := [name for name in options.binary if name not in BY_NAME]:
        parser.error(f"there is no {', '.join(strange)}: choose from {', '.join(BY_NAME)}")
    signal.signal(signal.SIGTERM, _end)
    wanted = [binary for binary in BINARIES if not options.binary or binary.name in options.binary]
    place = shelf(os.environ)
    try:
        if options.check:
            _refuse_gaps(place, wanted)
        elif place.foreign:
            verify_foreign(place, wanted)
        else:
            fill(place, wanted)
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return refusal.code
    except KeyboardInterrupt:
        print("interrupted; what was compiled is kept, run it again to go on", file=sys.stderr)
        return 128 + signal.SIGINT
    print(place.path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
