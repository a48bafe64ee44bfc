"""What the engines that are command lines share: their command, their flags, their adapters, their environment."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agentflow.channel.messages import StartEngine
from agentflow.errors import ConfigError, UsageError

# An engine lives in an environment of its own: nothing of ours may be imported there, and no folder of the user's
# project may stand in for a package (`python -m` puts the working directory first). OpenMP threads that spin while they
# wait starve the runners beside the engine: on two cores they made it twenty times slower.
ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {"PYTHONPATH": "", "PYTHONSAFEPATH": "1", "OMP_WAIT_POLICY": "passive", "DO_NOT_TRACK": "1"}
)


def flags(options: Mapping[str, Any], *, negatable: bool = False) -> list[str]:
    """Each option as a flag of the same name: ``max_model_len`` is ``--max-model-len``; True is the flag alone, a list
    is the flag with several values, an object is JSON.

    Args:
        negatable: False is ``--no-<name>`` (``--<name>`` of ``no_<name>``); else False is left out.
    """
    argv: list[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value in ("", (), [], {}):
            continue
        if value is True:
            argv.append(flag)
        elif value is False:
            if negatable:
                argv.append("--" + flag.removeprefix("--no-") if flag.startswith("--no-") else "--no-" + flag[2:])
        elif isinstance(value, list | tuple):
            argv += [flag, *map(str, value)]
        elif isinstance(value, Mapping):
            argv += [flag, json.dumps(value)]
        else:
            argv += [flag, str(value)]
    return argv


def check_command(engine: str, command: Sequence[str]) -> None:
    """Raises UsageError when the first word of ``<engine>.command`` is no program here."""
    if command and shutil.which(command[0]) is None:
        raise UsageError(
            f"{engine}.command {command[0]!r} is not a program on this machine: give the path of one, or a prefix such "
            "as 'apptainer exec --nv image.sif'."
        )


def importable(package: str) -> bool:
    """Whether the package lies beside agentflow."""
    return importlib.util.find_spec(package) is not None


def check_model(engine: str, model: str) -> None:
    """Raises UsageError for a path without a checkpoint; a name is the Hugging Face hub's, and the engine's to find."""
    path = Path(model)
    if model.endswith(".gguf"):
        raise UsageError(
            f"The model {model} is a GGUF file, which {engine} is not started with: use --backend llamacpp:d1."
        )
    if path.is_absolute() or model.startswith(("./", "../", "~")):
        if not path.is_dir():
            raise UsageError(f"The model {model} is not a folder: {engine} needs a Hugging Face checkpoint.")
        if not (path / "config.json").is_file():
            raise UsageError(f"The model {model} has no config.json: {engine} needs a Hugging Face checkpoint.")


def check_template(engine: str, spec: StartEngine) -> None:
    """Raises ConfigError when the chat template that is named does not exist."""
    template: str = spec.options.get("chat_template") or ""
    is_path = "{" not in template and ("/" in template or template.endswith(".jinja"))
    if is_path and not Path(template).is_file():
        raise ConfigError(f"{engine}.chat_template {template} is not a file.")


def check_extra(engine: str, spec: StartEngine, ours: Mapping[str, str]) -> None:
    """Raises ConfigError for a further flag that is agentflow's to set.

    Args:
        ours: by flag, what to do instead.
    """
    for argument in spec.options.get("extra_args") or ():
        flag = argument.partition("=")[0].replace("_", "-")
        if flag in ours:
            raise ConfigError(f"{engine}.extra_args must not hold {flag}: {ours[flag]}.")


def adapter(engine: str, key: str, spec: StartEngine) -> str | None:
    """The name of the LoRA adapter to evaluate; None where none is loaded.

    Args:
        key: the option that lists them, as ``name=path``, a path, or a JSON object with a name.

    Raises:
        ConfigError: several are loaded and none is chosen, or the chosen one is not among them.
    """
    loaded = [_adapter_name(text) for text in spec.options.get(key) or ()]
    if spec.adapter and spec.adapter not in loaded:
        raise ConfigError(f"rollout.lora_name is {spec.adapter}, but {engine}.{key} has {', '.join(loaded) or 'none'}.")
    if len(loaded) > 1 and not spec.adapter:
        raise ConfigError(f"{engine}.{key} has {', '.join(loaded)}: choose the one to evaluate by rollout.lora_name.")
    return spec.adapter or next(iter(loaded), None)


def _adapter_name(text: str) -> str:
    if text.startswith("{"):
        try:
            return str(json.loads(text)["name"])
        except (ValueError, KeyError) as e:
            raise ConfigError(f"The adapter {text} is no JSON object with a name and a path.") from e
    return text.partition("=")[0]
