"""From a name that a user writes to the module it is in.

``file.py:Name``, ``pkg.mod:Name``, ``pkg.mod.Name``, or the short name of a benchmark.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from agentflow.agents.benchmarks import benchmark
from agentflow.agents.benchmarks import names as benchmark_names
from agentflow.agents.sources import where
from agentflow.errors import UsageError

SHOWN_NAMES = 8


class ImportRefusedError(UsageError):
    """A file or module cannot be found or imported; one sentence."""


@dataclass(frozen=True)
class Found:
    """An imported module and the name in it that was asked for ("" when none was given).

    ``source`` is what the user wrote before the name; ``folder`` is where the file lies, for a path to a file or a
    benchmark.
    """

    module: ModuleType
    name: str
    source: str
    folder: Path | None


def find(path: str) -> Found:
    """Import what ``path`` names. The file's folder and the working directory come first on ``sys.path``.

    Raises:
        ImportRefusedError: no such file or module, a syntax error, or an exception while importing.
    """
    source, _, name = path.rpartition(":") if ":" in path else (path, "", "")
    _put_on_path(Path.cwd())
    short = benchmark(path)
    if short is not None:
        return Found(_import_module(short.module, path), short.attribute, source, short.folder)
    if source.endswith(".py"):
        file = Path(source).expanduser()
        if not file.is_file():
            hint = _short_of_file(source) or _near_file(file)
            raise ImportRefusedError(f"There is no file {source} in {Path.cwd()}{hint}.")
        return Found(_import_file(file.resolve()), name, source, file.resolve().parent)
    if ":" in path:
        return Found(_import_module(source, path), name, source, None)
    return _import_longest(path)


def attribute(found: Found, what: str) -> object:
    """The object that ``found.name`` names; dots go into nested ones. Raises ImportRefusedError if it is not there."""
    value: object = found.module
    for part in found.name.split("."):
        if not hasattr(value, part):
            names = [n for n in vars(value) if not n.startswith("_")] if hasattr(value, "__dict__") else []
            raise ImportRefusedError(
                f"{found.source} has no {what} '{found.name}'{near(part, names) or _own_names(value, names)}."
            )
        value = getattr(value, part)
    return value


def near(name: str, known: Iterable[str]) -> str:
    """`` (did you mean 'MathAgent'?)`` or nothing."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


def _own_names(module: object, names: Iterable[str]) -> str:
    """``: it has base, long_context`` or nothing: functions and classes that it does not import."""
    home = getattr(module, "__name__", None)
    own = [n for n in names if getattr(getattr(module, n), "__module__", None) == home and callable(getattr(module, n))]
    return f": it has {', '.join(own)}" if 0 < len(own) <= SHOWN_NAMES else ""


def _near_file(file: Path) -> str:
    parent = file.parent
    return near(file.name, (f.name for f in parent.glob("*.py"))) if parent.is_dir() else ""


def _short_of_file(source: str) -> str:
    """A hint where a short name was written as if it were a file."""
    name = source.removesuffix(".py")
    kind = _short_names().get(name)
    return f"; the {kind} is '{name}', without .py" if kind else ""


def _short_names() -> dict[str, str]:
    """What each is short for, in words."""
    from agentflow.workflows.ready_made import NAMES  # its package's agents import this module

    return {**dict.fromkeys(NAMES, "ready-made agent"), **dict.fromkeys(benchmark_names(), "benchmark")}


def _put_on_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _import_file(file: Path) -> ModuleType:
    """Import a file under the name that ``import`` would give it, so that pickle and dataclasses find it again.

    Inside a package (a folder with ``__init__.py``) that is its dotted name. A name that is taken already, as
    ``agents.py`` is by openai-agents, gets a suffix made of the path.
    """
    name, root = file.stem, file.parent
    while (root / "__init__.py").is_file():
        name, root = f"{root.name}.{name}", root.parent
    _put_on_path(root)
    _put_on_path(file.parent)
    known = sys.modules.get(name)
    if known is not None and _is_from(known, file):
        return known
    if _is_taken(name, root):
        stem = "".join(c if c.isalnum() else "_" for c in file.stem)
        name = f"{stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
        return sys.modules[name] if name in sys.modules else _execute(name, file)
    return _import_module(name, str(file)) if "." in name else _execute(name, file)


def _is_taken(name: str, root: Path) -> bool:
    """``import name`` would not, or could not, give the file under ``root``."""
    top = name.partition(".")[0]
    loaded = sys.modules.get(top)
    ours = loaded is None or str(root / top) in getattr(loaded, "__path__", ())
    return not ours or top in sys.builtin_module_names or not all(part.isidentifier() for part in name.split("."))


def _is_from(module: ModuleType, file: Path) -> bool:
    origin = getattr(module, "__file__", None)
    return origin is not None and Path(origin).resolve() == file


def _execute(name: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportRefusedError(f"{file} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as e:
        sys.modules.pop(name, None)
        raise _refusal(file.name, e) from e
    return module


def _import_module(name: str, path: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        if e.name is not None and (name == e.name or name.startswith(f"{e.name}.")):
            hint = near(e.name, _short_names())
            raise ImportRefusedError(
                f"There is no module '{e.name}' for '{path}' on the import path{hint}; for a file write its path, "
                f"as in agent.py:MathAgent."
            ) from e
        raise _refusal(name, e) from e
    except BaseException as e:
        raise _refusal(name, e) from e


def _import_longest(path: str) -> Found:
    """``pkg.mod.Outer.Inner``: the longest prefix that is a module; the rest is a name in it."""
    parts = path.split(".")
    missing: ImportRefusedError | None = None
    for end in range(len(parts), 0, -1):
        name = ".".join(parts[:end])
        try:
            return Found(_import_module(name, path), ".".join(parts[end:]), name, None)
        except ImportRefusedError as e:
            if not isinstance(e.__cause__, ModuleNotFoundError) or e.__cause__.name not in _prefixes(name):
                raise
            missing = missing or e
    raise missing or ImportRefusedError("An empty name was given.")


def _prefixes(name: str) -> set[str]:
    parts = name.split(".")
    return {".".join(parts[:i]) for i in range(1, len(parts) + 1)}


def _refusal(what: str, error: BaseException) -> ImportRefusedError:
    if isinstance(error, SyntaxError):
        return ImportRefusedError(f"{what} has a syntax error at {error.filename}:{error.lineno}: {error.msg}.")
    at = where(error)
    raised = type(error).__name__ + (f": {error}" if str(error) else "")
    return ImportRefusedError(f"{what} cannot be imported{f' (at {at})' if at else ''}: {raised}.")
