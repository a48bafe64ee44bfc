"""The process of the embedded engine: ``python -m agentflow.workers.llamacpp.server``.

The key comes in the environment (``AGENTFLOW_ENGINE_KEY``), all else in argv. It stops at once on SIGTERM: closing
llama.cpp with requests in flight takes minutes, so it is left to the end of the process.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import anyio
from aiohttp import web

from agentflow.workers.llamacpp.front import Front
from agentflow.workers.llamacpp.gguf import GgufError, read_metadata
from agentflow.workers.llamacpp.template import choose_template

KEY_VARIABLE = "AGENTFLOW_ENGINE_KEY"
CLOSE_S = 1.0  # to tell open connections that we go


def arguments(argv: list[str]) -> argparse.Namespace:
    """What :mod:`agentflow.workers.engines.llamacpp` renders."""
    parser = argparse.ArgumentParser(prog="agentflow.workers.llamacpp.server")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--served-name", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--n-parallel", type=int, required=True)
    parser.add_argument("--n-ctx", type=int, required=True, help="tokens a slot")
    parser.add_argument("--n-threads", type=int)
    parser.add_argument("--cache-mib", type=int, required=True)
    parser.add_argument("--chat-template")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Load the model, then serve until SIGTERM."""
    asked = arguments(argv)
    key = os.environ.pop(KEY_VARIABLE)
    # Before the model is loaded: a port that was lost is known at once.
    listener = socket.socket(socket.AF_INET6 if ":" in asked.host else socket.AF_INET)
    try:
        listener.bind((asked.host, asked.port))
    except OSError as e:
        print(f"{asked.host}:{asked.port} cannot be bound: {e.strerror}.", file=sys.stderr)
        return 1
    try:
        metadata = read_metadata(asked.model, ("tokenizer.chat_template", "*.pooling_type"))
        own = metadata.get("tokenizer.chat_template")
        template, which = choose_template(asked.chat_template, None if own is None else str(own))
    except (GgufError, OSError) as e:
        print(e, file=sys.stderr)
        return 1
    print(which, flush=True)
    embeds = bool(metadata.get("*.pooling_type"))
    inner_key = secrets.token_hex(16)
    try:
        inner = load(asked, template, inner_key, embeds=embeds)
    except RuntimeError as e:
        print(f"llama.cpp cannot serve {asked.model}: {e}; its own words are above.", file=sys.stderr)
        return 1
    front = Front(inner.listening_address, inner_key, key, embeds=embeds)
    anyio.run(serve, front, listener)
    return 0


def load(asked: argparse.Namespace, template: str, inner_key: str, *, embeds: bool) -> Any:
    """llama.cpp's own server on a free loopback port; returns when it is ready."""
    # Spinning OpenMP threads take the cores from every other process: 1.7 instead of 32 tokens/s beside them.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(asked.model)
    params.model_alias = {asked.served_name}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [inner_key]
    params.n_parallel = asked.n_parallel
    params.n_ctx = asked.n_parallel * asked.n_ctx  # llama.cpp divides it among the slots
    params.fit_params = False  # it would shrink the context in silence
    params.cache_ram_mib = asked.cache_mib
    params.chat_template = template
    params.embedding = embeds
    params.endpoint_metrics = True
    params.ui = False
    params.verbosity = 2  # warnings; at 3 it writes six lines a request
    if asked.n_threads is not None:
        params.cpuparams.n_threads = asked.n_threads
    return xllamacpp.Server(params)


async def serve(front: Front, listener: socket.socket) -> None:
    """Serve until SIGTERM."""
    runner = web.AppRunner(front.application(), handler_cancellation=True, access_log=None, shutdown_timeout=CLOSE_S)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    print("ready", flush=True)
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            break
    with anyio.move_on_after(2 * CLOSE_S):
        await runner.cleanup()


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
