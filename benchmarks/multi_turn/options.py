"""A command that takes the options of ``agentflow run`` beside its own, and refuses others as its own mistake."""

from __future__ import annotations

from collections.abc import Sequence

import click

from agentflow.agents.importing import near
from agentflow.cli import run


class PassingOn(click.Command):
    """Leaves options of ``agentflow run`` where they are, and refuses what neither of the two knows."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Before click's own: that takes an option it does not know for the value of an argument."""
        takes_value = {**_options(run.command.params), **_options(self.get_params(ctx))}
        unknown = first_unknown(args, takes_value)
        if unknown is not None:
            raise click.UsageError(f"No such option '{unknown}'{near(unknown, takes_value)}.", ctx)
        return super().parse_args(ctx, args)


def first_unknown(args: Sequence[str], takes_value: dict[str, bool]) -> str | None:
    """The first word that looks like a long option and is none. What follows an option that takes a value is one."""
    is_value = False
    for word in args:
        if word == "--":
            return None
        name, equals, _ = word.partition("=")
        if not is_value and name.startswith("--") and name not in takes_value:
            return name
        is_value = not is_value and not equals and takes_value.get(name, False)
    return None


def _options(params: Sequence[click.Parameter]) -> dict[str, bool]:
    """Long options, and whether each takes a value."""
    return {
        name: not param.is_flag
        for param in params
        if isinstance(param, click.Option)
        for name in (*param.opts, *param.secondary_opts)
    }
