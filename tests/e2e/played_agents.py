"""Agents that the end-to-end tests evaluate: no SDK, so that a runner starts fast."""

import asyncio
import os
import signal
import time
from pathlib import Path


async def ask(data, base_url, api_key, http_client, **body):
    request = {"model": "default", "messages": [{"role": "user", "content": str(data["question"])}], **body}
    headers = {"Authorization": f"Bearer {api_key}"}
    reply = await http_client.post(f"{base_url}/chat/completions", json=request, headers=headers)
    reply.raise_for_status()
    return reply.json()


def touch(name):
    Path(name).touch()


class Quick:
    """One call; scores what the row says."""

    async def run(self, data, base_url, api_key, http_client):
        await ask(data, base_url, api_key, http_client)
        return float(data.get("reward", 1.0))


class Slow:
    """Three calls with pauses between them: something to be interrupted."""

    def __init__(self, pause=0.2):
        self.pause = pause

    async def run(self, data, base_url, api_key, http_client):
        for _ in range(3):
            await ask(data, base_url, api_key, http_client)
            await asyncio.sleep(self.pause)
        return 1.0


class Waits:
    """One call; on rows that say so it then says by a file's name who plays it, and waits for a file called ``go``."""

    async def run(self, data, base_url, api_key, http_client):
        await ask(data, base_url, api_key, http_client)
        if data.get("waits"):
            touch(f"{data['id']}.played-by-{os.getpid()}")
            while not os.path.exists("go"):  # noqa: ASYNC110, ASYNC240 - the test makes it
                await asyncio.sleep(0.02)
        return 1.0


class Poison(Slow):
    """Kills its runner on the row that says so."""

    async def run(self, data, base_url, api_key, http_client):
        if data.get("poison"):
            await asyncio.sleep(0.1)
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().run(data, base_url, api_key, http_client)


class Metrics:
    """Two named metrics and no headline among them."""

    async def run(self, data, base_url, api_key, http_client):
        await ask(data, base_url, api_key, http_client)
        return {"accuracy": 1.0, "style": 0.5}


class Deaf:
    """Does not end when it is cancelled."""

    async def run(self, data):
        while True:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                continue


class Holds:
    """Does not give the event loop back."""

    async def run(self, data):
        print("holding", flush=True)
        time.sleep(1000)  # noqa: ASYNC251 - that is what it is for


class Exit:
    """Ends the process that plays it, on every row."""

    async def run(self, data, base_url, api_key, http_client):
        await ask(data, base_url, api_key, http_client)
        os._exit(3)


class Keyed(Quick):
    """Is given secrets."""

    def __init__(self, api_key, password):
        assert (api_key, password) == ("hunter2hunter2", "hunter2hunter2")


class Plain:
    """A synchronous run(): one at a time in its runner, its calls through the gateway."""

    def run(self, data, base_url, api_key, http_client):
        request = {"model": "default", "messages": [{"role": "user", "content": "hello"}]}
        reply = http_client.post(
            f"{base_url}/chat/completions", json=request, headers={"Authorization": f"Bearer {api_key}"}
        )
        reply.raise_for_status()
        return 1


class NoRun:
    """Not an agent."""


class WithUser:
    """Asks the model under test and, by the name of its role, a simulated user."""

    roles = ("user",)

    async def run(self, data, base_url, api_key, http_client):
        await ask(data, base_url, api_key, http_client)
        for _ in range(2):
            await ask(data, base_url, api_key, http_client, model="user")
        return 1.0
