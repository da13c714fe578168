"""`mooring completion`: completion scripts for shells, and completions for kubectl's plugin protocol."""

from typing import Final

import click

PROGRAM: Final = "mooring"
#: Environment variable that makes click complete instead of run.
VARIABLE: Final = "_MOORING_COMPLETE"
#: Completions in the format of kubectl plugins.
KUBECTL: Final = "kubectl"
#: Cobra's directive ShellCompDirectiveNoFileComp.
NO_FILES: Final = ":4"


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish", KUBECTL]))
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def completion(shell: str, words: tuple[str, ...]) -> None:
    """Print a completion script for bash, zsh or fish.

    \b
    bash   source <(mooring completion bash)
    zsh    source <(mooring completion zsh)
    fish   mooring completion fish | source

    `mooring completion kubectl` prints completions of the given words. An executable file kubectl_complete-mooring on
    the PATH with these two lines enables completion of `kubectl mooring` in every shell:

    \b
    #!/bin/sh
    exec mooring completion kubectl -- "$@"
    """
    from click.shell_completion import ShellComplete, get_completion_class

    if shell == KUBECTL:
        *before, unfinished = words or ("",)
        for item in ShellComplete(_root(), {}, PROGRAM, VARIABLE).get_completions(before, unfinished):
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
        click.echo(NO_FILES)
    elif words:
        raise click.UsageError(f"The script for {shell} takes no words: leave out {' '.join(words)}.")
    else:
        script = get_completion_class(shell)
        assert script is not None, "click knows these"
        click.echo(script(_root(), {}, PROGRAM, VARIABLE).source())


def _root() -> click.Command:
    from mooring.cli.main import main

    return main
