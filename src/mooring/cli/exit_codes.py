"""What the exit code of a command means: one table for all commands, printed on the page of commands.

The same cause has the same code in every command that reads a cluster. Commands that run until they are told to stop
(`up`, `scheduler`, `controller` and the like) end with PROBLEM whatever keeps them from running.
"""

import enum
from typing import Final


class ExitCode(enum.IntEnum):
    OK = 0
    PROBLEM = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_FOUND = 4


MEANINGS: Final = {
    ExitCode.OK: "done, and nothing is wrong with what was asked about",
    ExitCode.PROBLEM: "done, and something is stuck, pending or lost; or a component cannot run or lost its lease",
    ExitCode.USAGE: "flags, files or kubeconfig are wrong: one sentence on standard error",
    ExitCode.UNREACHABLE: "the cluster cannot be asked, or does not let this reader see what the answer rests on",
    ExitCode.NOT_FOUND: "there is nothing of that name",
}
