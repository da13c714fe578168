"""Every command with its flags, from the command line's own definitions."""

import inspect
import re
import textwrap

import click
from tools.generate_reference.tables import GENERATED, code, table

from mooring.cli.main import COMMANDS, main
from mooring.cli.terminal import MEANINGS


def commands_page() -> str:
    parts = [
        GENERATED,
        "# Commands and flags\n",
        "All commands of `mooring` with their flags and defaults. Every command also has `--help`, and "
        "`mooring --version` prints the version. Flags that a component of Kubernetes has, have the same name here. "
        "A DURATION is in Go's format: `15s`, `1m30s`, `500ms`. Other pages explain how to choose and combine flags.\n",
    ]
    rows = [(str(each.value), meaning) for each, meaning in MEANINGS.items()]
    parts.append(f"## Exit codes\n\n{table(['code', 'meaning'], rows)}")
    context = click.Context(main, info_name="mooring")
    for name in sorted(COMMANDS):
        command = main.get_command(context, name)
        assert command is not None
        parts.append(_section(name, command, click.Context(command, info_name=name, parent=context)))
    return "\n".join(parts)


def _section(name: str, command: click.Command, context: click.Context) -> str:
    text = inspect.cleandoc(command.help or "").replace("\f", "")
    # Paragraphs that keep their lines, as the terminal shows them.
    text = re.sub(r"\x08\n(.*?)(?=\n\n|$)", lambda found: textwrap.indent(found[1], "    "), text, flags=re.DOTALL)
    usage = " ".join(["mooring", name, *command.collect_usage_pieces(context)])
    rows = [
        _row(option, context) for option in command.params if isinstance(option, click.Option) and not option.hidden
    ]
    return f"## mooring {name}\n\n    {usage}\n\n{text}\n" + (
        f"\n{table(['flag', 'default', 'what it does'], rows)}" if rows else ""
    )


def _row(option: click.Option, context: click.Context) -> tuple[str, str, str]:
    names = [*option.opts, *option.secondary_opts]
    value = "" if option.is_flag or option.count else f" {option.make_metavar(context)}"
    told = option.help or ""
    in_words = re.search(r"\[default: (.*?)\]", told)
    if option.required:
        default = "required"
    elif in_words is not None:
        default = in_words[1]
    elif isinstance(option.default, bool):
        default = str(option.default).lower() if option.secondary_opts else ""
    else:
        default = "" if option.default in (None, "", ()) or option.show_default is False else _spelt(option)
    return ", ".join(code(each + value) for each in names), default, re.sub(r"\s*\[default: .*?\]", "", told)


def _spelt(option: click.Option) -> str:
    if isinstance(option.show_default, str):
        return option.show_default
    return code(str(option.default)) if isinstance(option.default, str | int | float) else ""
