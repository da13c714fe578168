"""`mooring completion`: what a shell, or kubectl, needs to complete commands and flags of `mooring`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

PROGRAM: Final = "mooring"
#: The variable by which click is told to complete.
VARIABLE: Final = "_MOORING_COMPLETE"
#: What kubectl asks, on behalf of any shell.
KUBECTL: Final = "kubectl"
#: kubectl's word for: these are all there are, do not offer files.
NO_FILES: Final = ":4"


@click.command(
    short_help="Print what a shell needs to complete commands.", context_settings={"ignore_unknown_options": True}
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish", KUBECTL]))
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def completion(shell: str, words: tuple[str, ...]) -> None:
    """Print what bash, zsh or fish needs to complete `mooring`.

    \b
    bash   source <(mooring completion bash)
    zsh    source <(mooring completion zsh)
    fish   mooring completion fish | source

    With kubectl, the words typed so far are completed instead. An executable file kubectl_complete-mooring on the PATH
    makes `kubectl mooring` complete in every shell; it has two lines:

    \b
    #!/bin/sh
    exec mooring completion kubectl -- "$@"
    """
    if shell == KUBECTL:
        for item in _completions(words):
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
        click.echo(NO_FILES)
    elif words:
        raise click.UsageError(f"{shell} is told once and for all: leave out {' '.join(words)}.")
    else:
        from click.shell_completion import get_completion_class

        script = get_completion_class(shell)
        assert script is not None, "click knows these"
        click.echo(script(_root(), {}, PROGRAM, VARIABLE).source())


def _completions(words: Sequence[str]) -> Sequence["CompletionItem"]:
    """The last word is the one that is being typed."""
    from click.shell_completion import ShellComplete

    *before, unfinished = words or ("",)
    return ShellComplete(_root(), {}, PROGRAM, VARIABLE).get_completions(before, unfinished)


def _root() -> click.Command:
    from mooring.cli.main import main

    return main
