"""From a run directory to its measurement: table, ``serving.json`` and ``serving.svg``, whenever they are wanted."""

from __future__ import annotations

from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from agentflow.errors import StoreError
from agentflow.report.output import Output
from agentflow.store import Manifest, read_manifest, read_results
from agentflow.store.files import write_atomically
from benchmarks.multi_turn.measure import Played, measure
from benchmarks.multi_turn.measurement import Measurement
from benchmarks.multi_turn.plot import picture
from benchmarks.multi_turn.reading import read_requests
from benchmarks.multi_turn.table import render

OWN_AGENT = "benchmarks.multi_turn.agent:MultiTurn"
JSON, PICTURE = "serving.json", "serving.svg"


def measurement_of(run_dir: Path) -> Measurement:
    """The numbers of a run, as far as it has come.

    Raises:
        StoreError: there is no run, or its files are broken.
    """
    manifest = read_manifest(run_dir)
    played = [Played(result, requests) for result, requests in read_requests(run_dir, read_results(run_dir))]
    return measure(played, manifest.data.n_items * manifest.rules.n_samples, _title(manifest))


def report(run_dir: Path, console: Console | None = None) -> Measurement:
    """Print the table, and write numbers and picture beside the run's other files.

    Raises:
        StoreError: as :func:`measurement_of`; or a file cannot be written.
    """
    console = console or Output()
    measurement = measurement_of(run_dir)
    encoded = msgspec.json.format(msgspec.json.encode(measurement), indent=1)
    console.print(render(measurement))  # first: it is there also where nothing can be written
    try:
        write_atomically(run_dir / JSON, encoded + b"\n")
        write_atomically(run_dir / PICTURE, picture(measurement).encode())
    except StoreError as e:
        why = getattr(e.__cause__, "strerror", None) or e
        raise StoreError(
            f"The table is all there is: {JSON} and {PICTURE} cannot be written into {run_dir} ({why}). Make it "
            f"writable, or copy it, and report again."
        ) from e
    for name in (JSON, PICTURE):
        console.print(Text("  ").append(str(run_dir / name)), soft_wrap=True)
    return measurement


def _title(manifest: Manifest) -> str:
    """Agent (where it is another), model and data in a few words."""
    agent = "" if manifest.agent.name == OWN_AGENT else manifest.agent.name
    parts = (agent, Path(manifest.rules.model).name, Path(manifest.data.source).stem)
    return "   ".join(part for part in parts if part)
