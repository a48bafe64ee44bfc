"""``agentflow data``: what an agent would receive of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from agentflow.cli.selection import selection_options

TEXT_LIMIT = 2000  # characters of one value; --full shows all


@click.command("data", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name")
@click.option("--head", type=click.IntRange(min=0), default=3, show_default=True, metavar="N", help="Items to show.")
@selection_options
@click.option("--seed", type=int, default=1, show_default=True, metavar="N", help="Seed of --shuffle.")
@click.option("--full", is_flag=True, help=f"Show values of more than {TEXT_LIMIT} characters in full.")
def command(name: str, head: int, full: bool, shuffle: bool | None, **options: Any) -> int:
    """Read the data set NAME as a run does and show its first items: a file (.jsonl, .json, .csv, .tsv, .parquet),
    gsm8k, math500, aime24, aime25, org/name[:split] of the Hugging Face hub, or module:function.

    \b
    Examples:
      agentflow data math500 --head 3
      agentflow data test.jsonl --template "{question} Answer with one word." --answer-column label
    """
    from agentflow.datasets import is_function, open_dataset, preview, rows_dataset

    selection = {**options, "shuffle": bool(shuffle)}
    if is_function(name):
        dataset = rows_dataset(_rows_of(name), source=name, **selection)
    else:
        dataset = open_dataset(name, **selection)
    columns = list(dataset.raw(0))
    click.echo(f"source       {dataset.source}")
    click.echo(f"items        {len(dataset):,}")
    click.echo(f"columns      {', '.join(columns)}")
    click.echo(f"recipe       {dataset.recipe}{_made(dataset.raw(0), dataset.item(0).data)}")
    click.echo(f"fingerprint  {dataset.fingerprint}")
    for item in preview(dataset, head):
        click.echo(f"\nitem {item.id}")
        for column in dict.fromkeys(["messages", "answer", *item.data]):
            if column in item.data:
                click.echo(_shown(column, item.data[column], None if full else TEXT_LIMIT))
    return 0


def _rows_of(path: str) -> list[Any]:
    """What ``module:function`` gives, called in this process as a runner calls it."""
    import anyio
    import msgspec

    from agentflow.runner.main_thread import MainThread
    from agentflow.runner.rows import stream_rows

    chunks = bytearray()

    async def keep(chunk: bytes) -> None:
        chunks.extend(chunk)

    async def collect() -> None:
        main_thread = MainThread()
        try:
            await stream_rows(path, {}, main_thread, keep)
        finally:
            main_thread.close()

    anyio.run(collect)
    return [msgspec.json.decode(line) for line in chunks.splitlines()]


def _made(raw: dict[str, Any], data: dict[str, Any]) -> str:
    """Which columns the recipe has written."""
    written = [name for name, value in data.items() if name not in raw or raw[name] != value]
    return f", which makes {', '.join(written)}" if written else ""


def _shown(column: str, value: Any, limit: int | None) -> str:
    from agentflow.report.text import plain

    if _is_messages(value):
        lines = [f"{message['role']}: {message['content']}" for message in value]
        text = "\n".join(lines)
    else:
        text = value if isinstance(value, str) else _json(value)
    if limit is not None and len(text) > limit:
        text = f"{text[:limit]} [... {len(text) - limit:,} more characters]"
    return f"  {column}: " + plain(text).plain.replace("\n", "\n    ")


def _is_messages(value: Any) -> bool:
    return (
        isinstance(value, Sequence)
        and bool(value)
        and all(isinstance(m, dict) and isinstance(m.get("content"), str) and "role" in m for m in value)
    )


def _json(value: Any) -> str:
    import msgspec

    return msgspec.json.encode(value, enc_hook=str).decode()
