"""The command line: hold conversations on any backend and report, or report on a run that there is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from agentflow.cli import call
from benchmarks.multi_turn import conversations as synthetic
from benchmarks.multi_turn.data import CLIENTS, INPUT_TOKENS, OUTPUT_TOKENS, ROUNDS
from benchmarks.multi_turn.options import PassingOn

NAME = "python -m benchmarks.multi_turn"
FEWER_CLIENTS = 32
AT_LEAST = click.IntRange(min=1)


def holding(clients: int, conversations: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Options of every workload; what is left over goes to ``agentflow run``."""
    options = (
        click.option("--clients", type=AT_LEAST, default=clients, show_default=True, help="Conversations at once."),
        click.option("--conversations", type=AT_LEAST, help=f"That are measured; {conversations} if not given."),
        click.option("--warmup", type=click.IntRange(min=0), help="Before them; as many as clients if not given."),
        click.option("--seed", type=int, default=1, show_default=True, help="Of lengths, texts and sampling."),
        click.argument(
            "arguments", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF agentflow run] [KEY=VALUE]..."
        ),
    )

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """How fast a backend serves multi-turn conversations: rates, delays by turn, cache, and where the time goes.

    Every run is one of agentflow: give --base-url for an endpoint that is there, or --backend and --model for workers
    that are started, and any option or key of 'agentflow run'.

    \b
    Examples:
      python -m benchmarks.multi_turn rounds --base-url http://127.0.0.1:8000
      python -m benchmarks.multi_turn rounds --clients 64 --backend vllm:d2 --model CHECKPOINT
      python -m benchmarks.multi_turn vllm generate_multi_turn.json --clients 16 --base-url http://127.0.0.1:8000
      python -m benchmarks.multi_turn bfcl --base-url http://127.0.0.1:8000
      python -m benchmarks.multi_turn report runs/agentflow/20260131-120000-ab12
    """


PASS_ON = {"ignore_unknown_options": True, "help_option_names": ["-h", "--help"]}


@cli.command(cls=PassingOn, context_settings=PASS_ON)
@click.option("--rounds", type=AT_LEAST, default=ROUNDS, show_default=True, help="Turns of a conversation.")
@click.option("--input-tokens", type=AT_LEAST, default=INPUT_TOKENS, show_default=True, help="Of each message.")
@click.option("--output-tokens", type=AT_LEAST, default=OUTPUT_TOKENS, show_default=True, help="Of each reply.")
@click.option(
    "--shared-tokens",
    type=click.IntRange(min=0),
    default=0,
    help="That all conversations begin with.",
    show_default=True,
)
@holding(CLIENTS, "twice as many as clients")
def rounds(
    rounds: int,
    input_tokens: int,
    output_tokens: int,
    shared_tokens: int,
    clients: int,
    conversations: int | None,
    warmup: int | None,
    seed: int,
    arguments: tuple[str, ...],
) -> int:
    """Conversations that are all alike: so many turns, so many tokens in and out in each."""
    warm_up = clients if warmup is None else warmup
    measured = conversations or 2 * clients
    rows = synthetic.rounds(measured, warm_up, rounds, input_tokens, output_tokens, shared_tokens, seed)
    shared = f"-{shared_tokens}shared" if shared_tokens else ""
    name = f"rounds-{warm_up}+{measured}x{rounds}{shared}-{input_tokens}in-{output_tokens}out-seed{seed}"
    return _hold(rows, name, clients, seed, arguments)


@cli.command(cls=PassingOn, context_settings=PASS_ON)
@click.argument("file", type=click.Path(path_type=Path))
@holding(FEWER_CLIENTS, "num_conversations of the file")
def vllm(
    file: Path, clients: int, conversations: int | None, warmup: int | None, seed: int, arguments: tuple[str, ...]
) -> int:
    """Conversations drawn from FILE, in the format of vLLM's generate_multi_turn.json."""
    from benchmarks.multi_turn.distributions import generate, read_generator

    generator = read_generator(file)
    warm_up = clients if warmup is None else warmup
    measured = conversations or generator.num_conversations
    rows = generate(generator, measured, warm_up, seed)
    if generator.text_files:
        click.echo(f"{', '.join(generator.text_files)} of {file} are not read: the text is made of a list of words.")
    return _hold(rows, f"{file.stem}-{warm_up}+{measured}-seed{seed}", clients, seed, arguments)


@cli.command(cls=PassingOn, context_settings=PASS_ON)
@click.option("--category", default="multi_turn_base", show_default=True, help="Of BFCL's conversations.")
@click.option("--output-tokens", type=AT_LEAST, help="Of each reply; about those of the golden one if not given.")
@holding(FEWER_CLIENTS, "all of the category")
def bfcl(
    category: str,
    output_tokens: int | None,
    clients: int,
    conversations: int | None,
    warmup: int | None,
    seed: int,
    arguments: tuple[str, ...],
) -> int:
    """Golden replay of BFCL: its tools, calls and results, the same load whatever the model says."""
    from benchmarks.bfcl.data import CATEGORIES
    from benchmarks.multi_turn.replay import replays

    if category not in CATEGORIES:
        raise click.UsageError(f"There is no category {category!r}: {', '.join(CATEGORIES)}.")
    warm_up = clients if warmup is None else warmup
    rows = replays(category, conversations, warm_up)
    length = () if output_tokens is None else ("--agent-arg", f"output_tokens={output_tokens}")
    return _hold(rows, f"bfcl-{category}-{warm_up}+{len(rows) - warm_up}", clients, seed, (*length, *arguments))


@cli.command()
@click.argument("run_dir", type=click.Path(path_type=Path))
def report(run_dir: Path) -> int:
    """Print the measurement of the run in RUN_DIR, whatever its agent was, and write serving.json and serving.svg."""
    from benchmarks.multi_turn.report import report as print_report

    print_report(run_dir)
    return 0


def _hold(rows: list[dict[str, Any]], name: str, clients: int, seed: int, arguments: tuple[str, ...]) -> int:
    from benchmarks.multi_turn.report import report as print_report
    from benchmarks.multi_turn.running import hold

    if any(one.partition("=")[0] == "--data" for one in arguments):
        raise click.UsageError("--data has no place here: the conversations are made by this command.")
    code, run_dir = hold(rows, name, clients, seed, arguments)
    if run_dir is not None:
        print_report(run_dir)
    return code


if __name__ == "__main__":
    call(cli, NAME, sys.argv[1:])
