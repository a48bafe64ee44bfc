"""``agentflow serve``: workers and a gateway, to try an agent by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


@click.command("serve", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--backend", metavar="ENGINE:dNtNpN", help="Workers to start.")
@click.option("--model", metavar="MODEL", help="Model of the workers.")
@click.option("--base-url", multiple=True, metavar="URL", help="An existing endpoint instead of workers; repeatable.")
@click.option("--api-key-env", metavar="NAME", help="Environment variable that holds the endpoints' key.")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE.yaml", help="Configuration file.")
def command(overrides: tuple[str, ...], config: Path | None, **options: Any) -> int:
    """Start workers and a gateway as a run does, print its URL and key, and serve until Ctrl-C.

    \b
    Examples:
      agentflow serve
      agentflow serve --backend llamacpp:d2 --model model.gguf
    """
    import anyio

    from agentflow.config import load_config
    from agentflow.controller.options import flags_of, overrides_of

    settings, notes = load_config(config, [*overrides_of(options), *overrides], options=flags_of(options))
    for note in notes:
        click.echo(note)
    return anyio.run(_serve, settings)


async def _serve(config: Any) -> int:
    import anyio

    from agentflow.cli.signals import interrupts
    from agentflow.controller.serve import serving
    from agentflow.errors import EXIT_COMPLETE

    with anyio.CancelScope() as scope, interrupts(scope.cancel):
        async with serving(config) as door:
            click.echo(f"OPENAI_BASE_URL={door.base_url}")
            click.echo(f"OPENAI_API_KEY={door.api_key}")
            click.echo("Model name: default. Ctrl-C ends it.")
            await anyio.sleep_forever()
    return EXIT_COMPLETE
