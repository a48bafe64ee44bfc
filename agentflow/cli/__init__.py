"""The command line: one file a verb, imported only when it is used, so that ``--help`` answers at once."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from agentflow import __version__
from agentflow.errors import AgentflowError

VERBS = {
    "run": "Evaluate an agent.",
    "resume": "Play what a run still owes.",
    "show": "Print a run's numbers, or one episode turn by turn.",
    "compare": "Print how one run differs from another, item by item.",
    "status": "Print the workers and runners of a run that is being played, or how it ended.",
    "data": "Show what an agent would receive of a data set.",
    "serve": "Start workers and a gateway, to try an agent by hand.",
}


class Verbs(click.Group):
    """Verbs by name; a verb's module is imported when it is called or asked for help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"agentflow.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from agentflow.agents.importing import near

            ctx.fail(f"No such command '{args[0]}'{near(args[0], VERBS)}.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.command(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="agentflow")
@click.option("--debug", is_flag=True, help="Show tracebacks and debug logs.")
def cli(debug: bool) -> None:
    """How good is this checkpoint as an agent?

    \b
    Example:
      agentflow run examples/math/agent.py --limit 16
    """
    level = logging.DEBUG if debug else logging.WARNING
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point."""
    call(cli, "agentflow", list(sys.argv[1:] if arguments is None else arguments))


def call(command: click.Command, name: str, argv: list[str]) -> NoReturn:
    """Call a command line and leave with its exit code.

    A user's mistake is one sentence on stderr; with ``--debug`` first in ``argv``, where it was raised.
    """
    try:
        code = command.main(argv, prog_name=name, standalone_mode=False)
    except click.ClickException as e:
        e.show()
        sys.exit(e.exit_code)
    except click.Abort:
        sys.exit(130)
    except AgentflowError as e:
        if "--debug" in argv[:1]:
            raise
        click.echo(f"Error: {e}", err=True)
        sys.exit(e.exit_code)
    except BrokenPipeError:  # `agentflow show ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    sys.exit(code if isinstance(code, int) else 0)
