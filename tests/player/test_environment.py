"""What user code sees in os.environ."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading

import pytest

import agentflow
from agentflow.runner.environment import EpisodeScope, clean, current_scope, looks_secret

GATEWAY = "http://127.0.0.1:21000"
TRIPWIRE = f"{GATEWAY}/use-your-episode-url/v1"


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SESSION_TOKEN",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "PGPASSWORD",
        "MYSQL_PWD",
        "wandb_api_key",
        "GITHUB_PAT",
        "SSH_AUTH_SOCK",
        "CLIENTSECRET",
    ],
)
def test_names_that_look_secret(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name", ["PATH", "PWD", "OLDPWD", "HOME", "TOKENIZERS_PARALLELISM", "MAX_TOKENS", "KEYBOARD", "AUTHOR", "PATIENCE"]
)
def test_names_that_do_not(name: str) -> None:
    assert not looks_secret(name)


def test_sdks_are_pointed_at_the_tripwire_and_real_keys_are_gone() -> None:
    environ = {"OPENAI_API_KEY": "sk-real-key", "HF_TOKEN": "hf_real", "WANDB_API_KEY": "w", "HOME": "/home/me"}
    cleaned = clean(environ, passed=["WANDB_API_KEY"], tripwire_url=TRIPWIRE)
    assert environ["OPENAI_BASE_URL"] == environ["OPENAI_API_BASE"] == TRIPWIRE
    assert environ["ANTHROPIC_BASE_URL"] == f"{GATEWAY}/use-your-episode-url"
    assert environ["OPENAI_API_KEY"] == environ["ANTHROPIC_API_KEY"] == "use-your-episode-url"
    assert "HF_TOKEN" not in environ
    assert environ["WANDB_API_KEY"] == "w"
    assert environ["HOME"] == "/home/me"
    assert environ["OPENAI_AGENTS_DISABLE_TRACING"] == "1"
    assert cleaned.removed == ("HF_TOKEN", "OPENAI_API_KEY")
    assert cleaned.values == {"sk-real-key", "hf_real", "w"}


def test_what_is_passed_on_by_name_keeps_the_users_value() -> None:
    environ = {"OPENAI_API_KEY": "sk-real-key", "OPENAI_BASE_URL": "https://judge.example/v1"}
    clean(environ, passed=["OPENAI_API_KEY", "OPENAI_BASE_URL"], tripwire_url=TRIPWIRE)
    assert environ["OPENAI_API_KEY"] == "sk-real-key"
    assert environ["OPENAI_BASE_URL"] == "https://judge.example/v1"


def test_the_controllers_address_is_taken_out() -> None:
    environ = {"AGENTFLOW_TOKEN": "t", "AGENTFLOW_TOKEN_FILE": "f", "AGENTFLOW_CONTROL_URL": "u", "AGENTFLOW_NAME": "n"}
    clean(environ, passed=[], tripwire_url=TRIPWIRE)
    assert not [name for name in environ if name.startswith("AGENTFLOW_")]


def test_a_proxy_of_the_environment_is_not_asked_for_the_gateway() -> None:
    environ = {"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "corp.example"}
    clean(environ, passed=[], tripwire_url=TRIPWIRE)
    assert environ["NO_PROXY"] == "corp.example,127.0.0.1,localhost"
    assert environ["no_proxy"] == "127.0.0.1,localhost"


def test_episode_env_outside_an_episode_says_where_to_call_it() -> None:
    with pytest.raises(RuntimeError, match="outside an episode"):
        agentflow.episode_env()


@pytest.mark.asyncio
async def test_episode_env_is_that_of_the_episode_in_tasks_and_threads() -> None:
    async def episode(name: str) -> list[str]:
        current_scope.set(EpisodeScope(name, f"{GATEWAY}/{name}/v1", name))
        seen = [agentflow.episode_env(), await asyncio.to_thread(agentflow.episode_env)]
        found: list[dict[str, str]] = []
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(lambda: found.append(agentflow.episode_env()),))
        thread.start()
        await asyncio.to_thread(thread.join)
        return [env["AGENTFLOW_EPISODE_ID"] + env["ANTHROPIC_BASE_URL"] for env in [*seen, *found]]

    a, b = await asyncio.gather(asyncio.create_task(episode("a")), asyncio.create_task(episode("b")))
    assert set(a) == {f"a{GATEWAY}/a"}
    assert set(b) == {f"b{GATEWAY}/b"}


def test_importing_agentflow_imports_nothing_heavy() -> None:
    script = (
        "import sys, agentflow; print([m for m in ('aiohttp', 'msgspec', 'pydantic', 'anyio') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "[]"
