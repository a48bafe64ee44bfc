"""The table at the end of a run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from agentflow.episode import DEFAULT_ROLE, Outcome
from agentflow.metrics import PASS_HAT, AtK, ItemMean, KindCount, OwnMetrics, Percentiles, RoleUse, Summary, WorkerUse
from agentflow.report.output import Output
from agentflow.report.rows import columns, interval_text, mean_text, named_rows, row
from agentflow.report.text import clock, count, first_line, number, percent, plain, plural, seconds

GROUP_ROWS = 20  # of a breakdown column; where there is more, the table says so, and summary.json has it all
WARNING_ROWS = 5
WARNING_CHARACTERS = 300
ERROR_CHARACTERS = 300  # of what failed episodes say
OWN_ROWS = 40  # numbers of the user's own functions, of items and of the run each
STYLES = {
    Outcome.SCORED: "green",
    Outcome.FAILED: "yellow",
    Outcome.LOST: "red",
    Outcome.REJECTED: "cyan",
    Outcome.CANCELLED: "magenta",
}


def final_table(summary: Summary, run_dir: Path, *, title: str = "", console: Console | None = None) -> None:
    """Print what a run came to: headline, outcomes, pass@k, tokens, latency, workers, and what to do next.

    Args:
        title: what was evaluated, in a few words.
    """
    console = console or Output()
    console.print(render(summary, title=title))
    for line in next_steps(summary, run_dir):
        # Not wrapped by us: a path or a command that is cut into lines cannot be copied.
        console.print(Text("  ").append_text(line), soft_wrap=True)
    console.print()


def render(summary: Summary, *, title: str = "") -> RenderableType:
    """The numbers of :func:`final_table`."""
    rows = named_rows()
    _headline(rows, summary)
    _outcomes(rows, summary)
    _at_k(rows, summary)
    for name, metric in summary.metrics.items():
        over = f"over {plural(metric.episodes, 'scored episode')}"
        row(rows, first_line(name, 60), mean_text(metric.mean, metric.ci95, over))
    if summary.metrics:
        rows.add_row()
    _own(rows, summary.own)
    for role, use in summary.roles.items():
        _usage(rows, "" if role == DEFAULT_ROLE else role, use)
    if summary.elapsed_s is not None:
        row(rows, "time", Text(clock(summary.elapsed_s)))
    rows.add_row()
    parts: list[RenderableType] = [_title(summary, title), Text(), rows]
    parts += [_group_table(column, values, summary.reward.items) for column, values in summary.groups.items()]
    if len(summary.workers) > 1:
        parts.append(_worker_table(summary.workers, summary.reward))
    return Padding(Group(*parts), (1, 1, 0, 2))


def next_steps(s: Summary, run_dir: Path) -> list[Text]:
    """Where the run lies and which commands come next, a line each."""
    where = shlex.quote(str(run_dir))
    steps = [("Everything lies in:", plain(str(run_dir)))]
    if s.owed:
        resume = plain(f"agentflow resume {where}", "bold")
        steps.append((f"Play the {plural(s.owed, 'episode')} still owed:", resume))
    look = (f"one of the {s.kinds[0].outcome} episodes", s.kinds[0].example) if s.kinds else ("an episode", s.lowest)
    if look[1] is not None:
        example = plain(f"agentflow show {where} --episode {shlex.quote(look[1])}", "bold")
        steps.append((f"Look at {look[0]}, turn by turn:", example))
    return [line for what, how in steps for line in (Text(what, "dim"), Text("  ").append_text(how))]


def _title(s: Summary, title: str) -> Text:
    text = plain(title or "Results", "bold")
    if s.partial:
        text.append("\n").append("PARTIAL", "bold yellow")
        text.append(f": {plural(s.missing + s.counts[Outcome.CANCELLED], 'episode')} not played yet", "yellow")
    return text


def _headline(rows: Table, s: Summary) -> None:
    over = f"over {plural(s.reward.items, 'item')}" + (f" × {s.n_samples} samples" if s.n_samples > 1 else "")
    hats = s.pass_hat if s.headline == PASS_HAT and s.reward.mean is not None else []
    for one in hats:
        row(rows, f"pass^{one.k}", mean_text(one.value, one.ci95, over if one.k == 1 else _over(one), "bold"))
    if s.reward.mean is None:
        row(rows, "reward", Text("– no episode was scored or failed", "yellow"))
    elif not hats or s.reward.mean != hats[0].value:  # a failed episode may count something else than 0
        row(rows, "reward", mean_text(s.reward.mean, s.reward.ci95, over, "" if hats else "bold"))
    covered = Text(percent(s.coverage).ljust(8))
    verb = "is" if 1 in (s.reward.episodes, s.expected) else "are"
    covered.append(f"{count(s.reward.episodes)} of {plural(s.expected, 'episode')} {verb} in the mean", "dim")
    row(rows, "coverage", covered)
    if s.bounds is not None:
        bounds = Text(f"{number(s.bounds.low)} to {number(s.bounds.high)}", "red")
        bounds.append(f"   if the {count(s.counts[Outcome.LOST])} lost got the lowest or highest", "dim")
        row(rows, "bounds", bounds)
    rows.add_row()


def _over(one: AtK) -> str:
    return f"over {plural(one.items, 'item')}"


def _outcomes(rows: Table, s: Summary) -> None:
    parts = [Text(f"{count(n)} {name}", STYLES[Outcome(name)]) for name, n in s.counts.items() if n]
    row(rows, "episodes", Text("   ").join(parts) if parts else Text("none has ended", "dim"))
    names = [_kind_name(kind) for kind in s.kinds]
    widths = max(map(len, names), default=0), max((len(count(kind.episodes)) for kind in s.kinds), default=0)
    if s.counts[Outcome.FAILED] and not s.counts[Outcome.SCORED]:
        row(rows, "", Text("No episode was scored: is it the agent, or what it was given?", "bold yellow"))
    for name, kind in zip(names, s.kinds, strict=True):
        text = Text(f"{count(kind.episodes):>{widths[1]}} ").append(name.ljust(widths[0]), STYLES[kind.outcome])
        row(rows, "", text.append("   such as ", "dim").append_text(plain(kind.example, "dim")))
        of = f"   ({count(kind.alike)} of them)" if kind.alike < kind.episodes else ""
        said = plain(f"{first_line(kind.error, ERROR_CHARACTERS) or 'No message.'}{of}")
        row(rows, "", Padding(said, (0, 0, 0, 2), expand=False))
    if s.timeout_share:
        hint = "   depends on the hardware and on rollout.episode_timeout"
        row(rows, "timeouts", Text(percent(s.timeout_share)).append(hint, "dim"))
    if s.retried:
        row(rows, "retried", Text(plural(s.retried, "attempt")))
    for note in s.notes:
        row(rows, "warning", plain(note, "yellow"))
    for warning in s.warnings[:WARNING_ROWS]:
        text = plain(first_line(warning.text, WARNING_CHARACTERS), "yellow")
        text.append(f"   {plural(warning.episodes, 'episode')}, such as ", "dim")
        row(rows, "warning", text.append_text(plain(warning.example, "dim")))
    if len(s.warnings) > WARNING_ROWS:
        row(rows, "", Text(f"{plural(len(s.warnings) - WARNING_ROWS, 'more kind')} of warnings in summary.json", "dim"))
    rows.add_row()


def _kind_name(kind: KindCount) -> str:
    if kind.outcome is Outcome.REJECTED:
        return kind.outcome.value
    return f"{kind.outcome}: {kind.kind.value if kind.kind else 'no reason given'}"


def _at_k(rows: Table, s: Summary) -> None:
    if s.n_samples < 2:
        return
    hats = [] if s.headline == PASS_HAT else s.pass_hat
    for name, estimates in (("pass@k", s.pass_at), ("pass^k", hats), ("best of k", s.best_of)):
        if estimates:
            row(rows, name, Text("   ").join(_estimate(one, s.reward.items) for one in estimates))
    rows.add_row()


def _estimate(one: AtK, items: int) -> Text:
    text = Text(f"{one.k}: ", "dim").append(number(one.value), "" if one.value is not None else "dim")
    return text if one.items == items else text.append(f" ({plural(one.items, 'item')})", "dim")


def _own(rows: Table, own: OwnMetrics) -> None:
    for name, mean in islice(own.of_item.items(), OWN_ROWS):
        row(rows, first_line(name, 60), mean_text(mean.mean, mean.ci95, f"over {plural(mean.items, 'item')}"))
    for name, value in islice(own.of_run.items(), OWN_ROWS):
        row(rows, first_line(name, 60), mean_text(value, None, "of the run"))
    more = sum(max(0, len(of) - OWN_ROWS) for of in (own.of_item, own.of_run))
    if more:
        where = "in summary.json, where the run was begun with the function"
        row(rows, "", Text(f"{plural(more, 'more number')} of your own: {where}", "dim"))
    for name, why in own.missing.items():
        row(rows, first_line(name, 60), plain(f"– {first_line(why, 300)}", "yellow"))
    if own != OwnMetrics():
        rows.add_row()


def _usage(rows: Table, role: str, use: RoleUse) -> None:
    prefix = f"{role} " if role else ""
    cached = f" ({percent(use.cached_share)} cached)" if use.cached_tokens else ""
    row(
        rows,
        f"{prefix}tokens",
        Text(f"{count(use.prompt_tokens)} prompt{cached}   {count(use.completion_tokens)} completion"),
    )
    calls = Text(count(use.calls))
    if use.calls_per_episode is not None:
        calls.append(f"   {use.calls_per_episode:.1f} an episode")
    calls.append(f"   {plural(use.tool_calls, 'tool call')}")
    if use.truncated:
        calls.append(f"   {percent(use.truncation_rate)} cut off", "yellow")
    row(rows, f"{prefix}calls", calls)
    if use.latency is not None:
        row(rows, f"{prefix}latency", _percentiles(use.latency))
        if use.ttft is not None:
            row(rows, f"{prefix}first token", _percentiles(use.ttft))


def _percentiles(p: Percentiles) -> Text:
    shown = (("p50 ", p.p50), ("p90 ", p.p90), ("p99 ", p.p99))
    return Text("   ").join(Text(name, "dim").append(seconds(value), "default") for name, value in shown)


def _group_table(column: str, values: dict[str, ItemMean], items: int) -> RenderableType:
    table = columns(column, ("items", "reward", "95 % CI"))
    shown = (
        sorted(values.items(), key=lambda pair: -pair[1].items)[:GROUP_ROWS]
        if len(values) > GROUP_ROWS
        else values.items()
    )
    for value, mean in shown:
        interval = interval_text(mean.ci95) if mean.ci95 else "–"
        table.add_row(plain(first_line(value, 40)), count(mean.items), number(mean.mean), interval)
    if len(values) > GROUP_ROWS:
        table.add_row(Text(f"and {len(values) - GROUP_ROWS:,} more in summary.json", "dim"))
    without = items - sum(mean.items for mean in values.values())
    if without > 0:
        table.add_row(Text("(without)", "dim"), count(without), "", "")
    return Group(table, Text())


def _worker_table(workers: Iterable[WorkerUse], all_of_them: ItemMean) -> RenderableType:
    table = columns("worker", ("episodes", "reward", "95 % CI", "calls", "errors", "p50", "tok/s", "cached"))
    behind = False
    for w in workers:
        low = _is_below(w.reward, all_of_them)
        behind = behind or low
        table.add_row(
            plain(f"{w.name} !" if low else w.name, "yellow" if low else ""),
            count(w.episodes),
            Text(number(w.reward.mean), "yellow" if low else ""),
            interval_text(w.reward.ci95) if w.reward.ci95 else "–",
            count(w.calls),
            Text(percent(w.error_share), "red" if w.error_share else ""),
            seconds(w.latency_p50),
            f"{w.tokens_per_s:,.0f}" if w.tokens_per_s is not None else "–",
            percent(w.cached_share) if w.cached_share is not None else "–",
        )
    if not behind:
        return Group(table, Text())
    note = "!  lies below the run as a whole: compare this worker's engine, flags and log with the others'."
    return Group(table, Text(note, "yellow"), Text())


def _is_below(worker: ItemMean, all_of_them: ItemMean) -> bool:
    return worker.ci95 is not None and all_of_them.ci95 is not None and worker.ci95.high < all_of_them.ci95.low
