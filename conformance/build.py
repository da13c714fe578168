"""Builds Kubernetes' components for the conformance run, into a cache outside the tree.

    python conformance/build.py            build what is missing, verify everything, print the directory
    python conformance/build.py --check    build nothing; check that all binaries exist
    python conformance/build.py kubectl    only this one

One binary after the other, each from the module pinned in a folder beside this script; Go's own caches make a second
run short. What does not depend on Kubernetes' release is linked from the directory of another. A binary gets its
final name only after it has run and reported the right version, so this may be interrupted at any time and run again.
MOORING_KUBE chooses Kubernetes' minor release; GOFLAGS and GOMAXPROCS are Go's usual way to leave cores to others.

Exit codes: 0 all binaries exist; 1 a build or a binary failed; 2 wrong usage; 3 binaries are missing and not built
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

from binaries import MODULES, Binary, Shelf, shelf

FAILED: Final = 1
MISSING: Final = 3

#: Seconds between two progress lines of one build.
SIGN_OF_LIFE: Final = 30.0
#: Timeout of a binary's version output in seconds; a loaded machine needs a few.
VERSION_SECONDS: Final = 60.0
#: Characters of Go's output in an error.
LAST_WORDS: Final = 40


class Refusal(Exception):
    """A sentence for the user, and the exit code that goes with it."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class Build:
    """One `go build`, which counts compiled packages."""

    def __init__(self, binary: Binary, output: Path) -> None:
        self._binary = binary
        self._output = output
        self._began = time.monotonic()
        self._packages = 0
        self._words: deque[str] = deque(maxlen=LAST_WORDS)

    def run(self) -> None:
        """Raises Refusal with Go's output on failure; stops Go on cancellation."""
        command = ["go", "build", "-v", "-mod=readonly", "-trimpath", "-buildvcs=false"]
        command += ["-tags", self._binary.tags] if self._binary.tags else []
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


def reported_version(binary: Binary, file: Path) -> str:
    """The first line of the binary's version output, or its name. Raises Refusal if it does not run."""
    if not binary.asks_version:
        if not os.access(file, os.X_OK):
            raise Refusal(FAILED, f"{file} does not run: it is not executable")
        return f"{binary.name} {binary.version}"
    try:
        done = subprocess.run(
            [file, *binary.asks_version], capture_output=True, text=True, timeout=VERSION_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Refusal(FAILED, f"{file} does not run: {error}") from error
    return done.stdout.partition("\n")[0].strip()


def as_pinned(binary: Binary, reported: str) -> bool:
    """One word of the version output is the version, for etcd without the v."""
    return not {binary.version, binary.version.removeprefix("v")}.isdisjoint(reported.split())


def build(binary: Binary, directory: Path) -> None:
    """Build one binary, check its version, and only then rename it to its final name."""
    say(binary, f"building {binary.module} {binary.version}")
    partial = directory / f".{binary.name}.partial"
    attempt = Build(binary, partial)
    try:
        attempt.run()
        reported = reported_version(binary, partial)
        if not as_pinned(binary, reported):
            raise Refusal(FAILED, f"{binary.name} was built as {binary.version} but says {reported!r}")
        size = partial.stat().st_size / 1e6
        partial.replace(directory / binary.name)
    finally:
        partial.unlink(missing_ok=True)
    say(binary, f"built in {attempt.elapsed}, {size:.0f} MB")


@contextlib.contextmanager
def only_one_at(directory: Path) -> Iterator[None]:
    """Wait for another run that fills the same directory; the kernel releases the lock of an ended process."""
    with (directory / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another build into the same directory", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def fill(place: Shelf, selected: list[Binary]) -> None:
    """Build what is missing or of another version, and verify the rest."""
    try:
        place.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refusal(FAILED, f"cannot make {place.path}: {error.strerror}; set MOORING_CACHE") from error
    with only_one_at(place.path):
        stale = [
            binary
            for binary in selected
            if not _usable(binary, place.path / binary.name) and not _linked(binary, place)
        ]
        if stale and shutil.which("go") is None:
            raise Refusal(
                MISSING,
                f"{_names(stale)} must be built, and Go is not on the PATH: install Go 1.26 or newer, or name a "
                "directory of ready binaries with MOORING_KUBE_BIN",
            )
        for binary in stale:
            build(binary, place.path)


def _linked(binary: Binary, place: Shelf) -> bool:
    """Take the binary from beside another release, if it reports the pinned version there."""
    for file in place.elsewhere(binary):
        with contextlib.suppress(Refusal, OSError):
            if as_pinned(binary, reported_version(binary, file)):
                (place.path / binary.name).unlink(missing_ok=True)
                (place.path / binary.name).hardlink_to(file)
                say(binary, f"the one of {file.parent.name}")
                return True
    return False


def _usable(binary: Binary, file: Path) -> bool:
    if not file.exists():
        return False
    try:
        reported = reported_version(binary, file)
    except Refusal as refusal:
        say(binary, f"building anew: {refusal}")
        return False
    if not as_pinned(binary, reported):
        say(binary, f"building anew: {reported!r} is not {binary.version}")
        return False
    say(binary, reported)
    return True


def verify_foreign(place: Shelf, selected: list[Binary]) -> None:
    """A provided directory: all binaries must exist and run, in any version."""
    _refuse_gaps(place, selected)
    for binary in selected:
        say(binary, reported_version(binary, place.path / binary.name))


def _refuse_gaps(place: Shelf, selected: list[Binary]) -> None:
    missing = [binary for binary in place.missing() if binary in selected]
    if missing:
        remedy = "correct MOORING_KUBE_BIN" if place.foreign else "make conformance builds them (needs Go)"
        raise Refusal(MISSING, f"{_names(missing)} not in {place.path}: {remedy}")


def _names(binaries: list[Binary]) -> str:
    return ", ".join(binary.name for binary in binaries)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="*", help="names of binaries; all of them if none is named")
    parser.add_argument("--check", action="store_true", help="build nothing, run nothing, only look")
    options = parser.parse_args()
    try:
        place = shelf(os.environ)
    except LookupError as error:
        parser.error(str(error))
    names = [binary.name for binary in place.binaries]
    if strange := [name for name in options.binary if name not in names]:
        parser.error(f"there is no {', '.join(strange)}: choose from {', '.join(names)}")
    signal.signal(signal.SIGTERM, _end)
    selected = [binary for binary in place.binaries if not options.binary or binary.name in options.binary]
    try:
        if options.check:
            _refuse_gaps(place, selected)
        elif place.foreign:
            verify_foreign(place, selected)
        else:
            fill(place, selected)
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
