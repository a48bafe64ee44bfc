"""``agentflow run --dry-run``: what would be started and run."""

from __future__ import annotations

import shlex

import click
import msgspec

from agentflow.cli.foreground import Request
from agentflow.controller import launch
from agentflow.controller.manifest import configured_source
from agentflow.schedulers import make_scheduler
from agentflow.workers.engines import ENGINES
from agentflow.workers.engines.base import Launch


def print_plan(request: Request) -> None:
    """Print workers, command lines, runners and settings; start nothing."""
    config = request.config
    for note in request.notes:
        click.echo(note)
    run_dir = launch.run_directory(config)
    log_dir = run_dir / "logs"
    scheduler = make_scheduler(config)
    click.echo(f"agent      {request.spec().path}")
    click.echo(f"data       {request.data or configured_source(config) or 'the data set that the agent names'}")
    click.echo(f"run        {run_dir}")
    click.echo(f"samples    {config.n_samples} an item, sampling: {config.sampling() or 'the defaults of the engine'}")
    click.echo(f"at once    {launch.concurrency(config) or 'auto'} episodes")
    workers = config.allocation
    if workers is None:
        for url in config.base_url:
            click.echo(f"endpoint   {url} model {config.model or '(the one it serves)'}")
    else:
        model = config.checkpoint or "the embedded SmolLM2-135M"
        engine = ENGINES[workers.engine]
        spec, notes = engine.complete(launch.engine_spec(config, workers, model, api_key=""))
        job = launch.worker_job(workers, config, log_dir, {})
        gpus = f"{job.resources.gpus} GPUs each" if job.resources.gpus else "on the CPU"
        click.echo(f"workers    {workers.replicas} x {workers.engine}, {gpus}, model {model}")
        for note in notes:
            click.echo(f"           {note}")
        click.echo(_indented(scheduler.render(job)))
        host = spec.host or "ADDRESS_OF_ITS_NODE"
        for rank in range(spec.nodes):
            where = f" on node {rank} of {spec.nodes}" if spec.nodes > 1 else ""
            click.echo(f"           each of them starts{where}, on a port that it finds free,")
            of_node = msgspec.structs.replace(spec, host=host, node_rank=rank, dist_init_addr="NODE_0:PORT")
            click.echo(_indented(_shown(engine.render(of_node, port=0))))
    runners = launch.runner_count(config)
    if runners == 0:
        click.echo("runners    inline")
    else:
        click.echo(f"runners    {runners}")
        click.echo(_indented(scheduler.render(launch.runner_job(config, log_dir, {}))))


def _shown(launch: Launch) -> str:
    """A rendered command as a shell would take it; secrets by name only."""
    secret = [f"{name}=..." for name in launch.secret_env]
    return shlex.join(["env", *(f"{k}={v}" for k, v in sorted(launch.env.items())), *secret, *launch.argv])


def _indented(text: str) -> str:
    return "\n".join(f"           {line}" for line in text.splitlines())
