"""Former names of flags and commands are accepted and not shown."""

import click
import pytest

from mooring.cli.main import ALIASES, main


def command_of(name: str) -> tuple[click.Command, click.Context]:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    # click caches the help option of the first context, which the public surface shows as well.
    return command, click.Context(command, **main.context_settings)


@pytest.mark.parametrize(
    ("command_name", "former", "flag", "value"),
    [
        pytest.param("coordinator", "--grace", "--sibling-timeout", ["3s"], id="grace"),
        pytest.param("coordinator", "--abandon", "--unused-timeout", ["3s"], id="abandon"),
        pytest.param("coordinator", "--max-hold", "--hold-timeout", ["3s"], id="max-hold"),
        pytest.param("extender", "--called-within", "--idle-warning-after", ["3s"], id="called-within"),
        pytest.param("extender", "--ready-only-when-called", "--unready-when-idle", [], id="ready-only-when-called"),
        pytest.param("csi-hostpath", "--serve", "--served-node", ["n:zone=b"], id="serve"),
        pytest.param("csi-hostpath", "--publish", "--publish-mode", ["link"], id="publish"),
        pytest.param("csi-hostpath", "--fail", "--inject-failure", ["Probe=ABORTED"], id="fail"),
        pytest.param("simulate", "--live", "--from-cluster", [], id="live"),
        pytest.param("nodeagent", "--name", "--node-name-prefix", ["edge"], id="name"),
    ],
)
def test_former_flag_is_a_hidden_alias(command_name: str, former: str, flag: str, value: list[str]) -> None:
    command, context = command_of(command_name)
    by_former, by_flag = (command.make_parser(context).parse_args([name, *value])[0] for name in (former, flag))
    assert by_former == by_flag != {}
    shown = command.get_help(context)
    assert flag in shown
    assert f"{former} " not in shown


@pytest.mark.parametrize("former", ALIASES)
def test_former_command_is_a_hidden_alias(former: str) -> None:
    context = click.Context(main)
    assert main.get_command(context, former) is main.get_command(context, ALIASES[former])
    assert former not in main.list_commands(context)
