"""A stored run for a reader: the table again with what went wrong, and one episode turn by turn."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from agentflow.episode import DEFAULT_ROLE, Call, EpisodeResult
from agentflow.errors import UsageError
from agentflow.metrics import Scoring, summarize
from agentflow.metrics.functions import Functions, check_functions, own_metrics
from agentflow.report.conversation import Part, new_parts, request_parts, response_parts, settings, tool_names
from agentflow.report.output import Output
from agentflow.report.terminal import STYLES, final_table
from agentflow.report.text import count, first_line, number, plain, plural, seconds
from agentflow.store import Manifest, counted, mixtures, read_attempts, read_calls, read_manifest

SPEAKERS = {
    "system": "dim",
    "user": "cyan",
    "assistant": "green",
    "reasoning": "dim italic",
    "tool call": "magenta",
    "tool result": "blue",
    "error": "red",
    "note": "yellow",
}


def show_run(
    run_dir: Path, console: Console | None = None, *, item_metrics: Sequence[str] = (), run_metrics: Sequence[str] = ()
) -> None:
    """Print the table of a stored run.

    Args:
        item_metrics: functions of the results of an item, beside those that the run was begun with.
        run_metrics: functions of all results, likewise.

    Raises:
        StoreError: the run cannot be read; names file and line.
        UsageError: one of the functions given cannot be used.
    """
    console = console or Output()
    manifest = read_manifest(run_dir)
    attempts = counted(read_attempts(run_dir), manifest.data.ids, manifest.rules.n_samples)
    summary = summarize(attempts, scoring_of(manifest))
    given = Functions(tuple(item_metrics), tuple(run_metrics), os.getcwd())
    anyio.run(check_functions, given)
    begun_with = Functions(
        tuple(manifest.config.get("item_metrics", ())), tuple(manifest.config.get("run_metrics", ())), manifest.cwd
    )
    own = anyio.run(own_metrics, run_dir, begun_with, given)
    summary = msgspec.structs.replace(summary, own=own, notes=mixtures(manifest))
    final_table(summary, run_dir, title=title_of(manifest), console=console)


def show_episode(run_dir: Path, episode_id: str, console: Console | None = None) -> None:
    """Print the last attempt of an episode: every call with what was new in it, and how it ended.

    Args:
        episode_id: ``<item id>/<sample index>``.

    Raises:
        UsageError: there is no such episode; names those with the nearest ids.
        StoreError: the run cannot be read; names file and line.
    """
    console = console or Output()
    attempts = read_attempts(run_dir)
    tries = [r for r in attempts if r.id == episode_id]
    if not tries:
        raise _unknown(run_dir, episode_id, attempts)
    result = tries[-1]
    console.print()
    _print_outcome(console, result, len(tries))
    earlier: list[list[Part]] = []
    tools: list[str] = []
    shown = ""
    for n, line in enumerate(read_calls(run_dir, result), 1):
        call = msgspec.convert(line["call"], Call)
        request, response = line.get("request"), line.get("response")
        asked, replied = request_parts(request), response_parts(response)
        console.print()
        title = f"call {n} · {call.api.removeprefix('/v1/')}" + (f" · {call.role}" if call.role != DEFAULT_ROLE else "")
        console.print(Rule(plain(title), align="left", style="dim"))
        console.print(Padding(_call_facts(call), (0, 0, 0, 2), expand=False))
        offered = tool_names(request)
        if offered != tools:
            console.print(Padding(plain(f"tools: {', '.join(offered) or 'none'}", "dim"), (0, 0, 0, 2), expand=False))
            tools = offered
        values = _settings_line(settings(request))
        if values and values != shown:
            console.print(Padding(plain(values, "dim"), (0, 0, 0, 2), expand=False))
            shown = values
        for part in (*new_parts(asked, earlier), *replied):
            _print_part(console, part)
        if call.error and not any(part.speaker == "error" for part in replied):
            _print_part(console, Part("error", call.error))
        if call.truncated:
            _print_part(console, Part("note", "The reply was cut off at its token limit."))
        earlier.append([*asked, *replied])
    if not result.calls:
        console.print(Padding(Text("This episode made no call.", "yellow"), (1, 0, 0, 2), expand=False))
    _print_end(console, result)


def scoring_of(manifest: Manifest) -> Scoring:
    """How the rewards of a stored run are counted."""
    rules = manifest.rules
    return Scoring(
        rules.failed_reward, rules.reward_range, rules.n_samples, manifest.data.n_items or None, manifest.agent.headline
    )


def title_of(manifest: Manifest) -> str:
    """What was evaluated: agent, model and data in a few words."""
    source = manifest.data.source
    near = os.path.relpath(source) if os.path.isabs(source) else source
    parts = (manifest.agent.name, Path(manifest.rules.model).name, min(source, near, key=len))
    return "   ".join(part for part in parts if part)


def _unknown(run_dir: Path, episode_id: str, attempts: Sequence[EpisodeResult]) -> UsageError:
    ids = list(dict.fromkeys(r.id for r in attempts))
    if not ids:
        return UsageError(f"{run_dir} has no episodes yet.")
    samples = [i for i in ids if i.rpartition("/")[0] == episode_id]
    near = samples[:3] or difflib.get_close_matches(episode_id, ids, n=3, cutoff=0.0)
    return UsageError(f"{run_dir} has no episode {episode_id!r}; the nearest ids are {', '.join(near)}.")


def _print_outcome(console: Console, r: EpisodeResult, tries: int) -> None:
    head = plain(r.id, "bold").append("   ").append(str(r.outcome), STYLES[r.outcome])
    if r.kind:
        head.append(f" ({r.kind})", STYLES[r.outcome])
    if r.reward is not None:
        head.append(f"   reward {number(r.reward)}", "bold")
    console.print(Padding(head, (0, 0, 0, 2), expand=False))
    facts = [seconds(r.wall_s), plural(len(r.calls), "call")]
    for role, usage in r.usage.items():
        facts.append(f"{role}: {count(usage.prompt_tokens)} + {count(usage.completion_tokens)} tokens")
    if r.attempt:
        facts.append(f"attempt {r.attempt}" + (f", {plural(tries, 'attempt')} written" if tries > 1 else ""))
    facts += [where for where in (r.worker, r.runner) if where]
    facts += [f"{column} {value}" for column, value in r.groups.items()]
    console.print(Padding(plain("   ".join(facts), "dim"), (0, 0, 0, 2), expand=False))


def _call_facts(call: Call) -> Text:
    facts = [*([call.worker] if call.worker else []), seconds(call.latency_s)]
    if call.ttft_s is not None and call.ttft_s != call.latency_s:
        facts.append(f"first token {seconds(call.ttft_s)}")
    cached = f" ({count(call.cached_tokens)} cached)" if call.cached_tokens else ""
    facts.append(f"{count(call.prompt_tokens)}{cached} + {count(call.completion_tokens)} tokens")
    if call.tries > 1:
        facts.append(f"{call.tries} tries")
    if call.status != 200:
        facts.append(f"HTTP {call.status}" if call.status else "the agent went away")
    return plain("   ".join(facts), "red" if call.status != 200 else "dim")


def _settings_line(values: dict[str, Any]) -> str:
    shown = (f"{name}={first_line(msgspec.json.encode(value).decode(), 60)}" for name, value in values.items())
    return "  ".join(shown)


def _print_part(console: Console, part: Part) -> None:
    style = SPEAKERS.get(part.speaker, "")
    console.print(Padding(plain(part.speaker, f"bold {style}"), (1, 0, 0, 2), expand=False))
    console.print(Padding(plain(part.text.strip("\n")), (0, 0, 0, 4), expand=False))


def _print_end(console: Console, r: EpisodeResult) -> None:
    console.print()
    console.print(Rule(Text("end", "dim"), align="left", style="dim"))
    for name, value in (*r.metrics.items(), *r.call_rewards.items()):
        console.print(Padding(plain(f"{name} = {number(value)}"), (0, 0, 0, 2), expand=False))
    for warning in r.warnings:
        console.print(Padding(plain(f"Warning: {warning}", "yellow"), (0, 0, 0, 2), expand=False))
    if r.error:
        console.print(Padding(plain(r.error, STYLES[r.outcome]), (0, 0, 0, 2), expand=False))
    if r.traceback:
        console.print(Padding(plain(r.traceback.rstrip(), "dim"), (1, 0, 0, 2), expand=False))
    if not (r.metrics or r.call_rewards or r.warnings or r.error):
        reward = f" with reward {number(r.reward)}" if r.reward is not None else ""
        console.print(Padding(Text(f"{r.outcome}{reward}"), (0, 0, 0, 2), expand=False))
    console.print()
