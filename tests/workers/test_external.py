"""An existing endpoint is asked what it serves, and refused in one sentence when it does not fit."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest
from aiohttp import web

from agentflow.channel.messages import WorkerInfo
from agentflow.errors import UsageError
from agentflow.workers.external import choose_model, probe, root_url
from tests.workers.conftest import Endpoint

pytestmark = pytest.mark.asyncio

TIMEOUT_S = 30


@asynccontextmanager
async def endpoint(
    *, models: Sequence[str] | None, statuses: dict[str, int] | None = None, key: str = "", prefix: str = ""
) -> AsyncIterator[str]:
    """A server that lists models and answers an empty object with the status given, or 404."""

    async def answer(request: web.Request) -> web.Response:
        if key and request.headers.get("Authorization") != f"Bearer {key}":
            return web.Response(status=401)
        path = request.path.removeprefix(prefix)
        if path == "/v1/models" and models is not None:
            return web.json_response({"object": "list", "data": [{"id": m} for m in models]})
        if request.method == "POST":
            assert await request.json() == {}
        return web.Response(status=(statuses or {}).get(path, 404))

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}{prefix}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
async def test_the_only_model_is_taken_with_or_without_v1(suffix: str) -> None:
    async with endpoint(models=["m"], key="k") as url:
        assert await probe(url + suffix, "k", None, TIMEOUT_S) == WorkerInfo(
            "endpoint-0", url, "m", "k", ("chat",), is_external=True
        )


async def test_a_path_before_v1_is_kept() -> None:
    async with endpoint(models=["m"], prefix="/proxy/v1beta") as url:
        assert (await probe(f"{url}/v1", "", None, TIMEOUT_S)).url == url


async def test_apis_are_those_that_complain_about_the_body_and_not_the_path() -> None:
    statuses = {"/v1/responses": 400, "/v1/messages": 405, "/v1/completions": 422, "/v1/embeddings": 501}
    async with endpoint(models=["m"], statuses=statuses) as url:
        assert (await probe(url, "", None, TIMEOUT_S)).apis == ("chat", "responses", "completions")


async def test_several_models_are_listed_and_one_must_be_chosen() -> None:
    async with endpoint(models=["a", "b"]) as url:
        with pytest.raises(UsageError, match=r"serves 2 models, a, b: choose one with --model\."):
            await probe(url, "", None, TIMEOUT_S)
        assert (await probe(url, "", "b", TIMEOUT_S)).model == "b"
        with pytest.raises(UsageError, match="does not serve c, but a, b"):
            await probe(url, "", "c", TIMEOUT_S)
        with pytest.raises(UsageError, match=r"choose one with roles\.judge\.model=NAME\."):
            await probe(url, "", "c", TIMEOUT_S, role="judge")


async def test_without_a_list_of_models_one_must_be_named() -> None:
    async with endpoint(models=None) as url:
        with pytest.raises(UsageError, match="does not say which models it serves: name one with --model"):
            await probe(url, "", None, TIMEOUT_S)
        assert (await probe(url, "", "mine", TIMEOUT_S)).model == "mine"


async def test_a_refused_key_is_one_sentence_without_the_key() -> None:
    async with endpoint(models=["m"], key="right") as url:
        with pytest.raises(UsageError, match=r"refuses the API key \(status 401\)") as raised:
            await probe(url, "wrong-s3cr3t", None, TIMEOUT_S)
        assert "s3cr3t" not in str(raised.value)


async def test_an_endpoint_that_is_not_there_is_one_sentence() -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        with pytest.raises(
            UsageError, match=r"The endpoint http://127\.0\.0\.1:\d+ cannot be reached \(Connection refused\): is it up"
        ) as raised:
            await probe(f"http://127.0.0.1:{s.getsockname()[1]}", "", None, TIMEOUT_S)
        assert "--base-url URL names another" in str(raised.value)
        with pytest.raises(UsageError, match=r"roles\.judge\.base_url=URL names another"):
            await probe(f"http://127.0.0.1:{s.getsockname()[1]}", "", None, TIMEOUT_S, role="judge")


async def test_a_host_whose_name_is_none_is_one_sentence() -> None:
    with pytest.raises(UsageError, match=r"The endpoint http://a\.\.b:80 cannot be reached \(.+\): is it up"):
        await probe("http://a..b:80", "", None, TIMEOUT_S)


async def test_a_proxy_in_the_environment_is_not_used_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with endpoint(models=["m"]) as url:
        assert (await probe(url, "", None, TIMEOUT_S)).model == "m"


async def test_an_endpoint_that_hangs_is_one_sentence() -> None:
    async def hang(stream: anyio.abc.SocketStream) -> None:
        await anyio.sleep_forever()

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, hang)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        with pytest.raises(UsageError, match=r"cannot be reached \(no answer within 0\.2 s\)"):
            await probe(f"http://127.0.0.1:{port}", "", None, 0.2)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://host", "http://", "http://host:port"])
async def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="not"):
        root_url(url)


async def test_a_long_list_of_models_is_cut() -> None:
    with pytest.raises(UsageError, match=r"m19 and 5 more: choose"):
        choose_model("http://x", None, [f"m{i}" for i in range(25)])


@pytest.mark.engine
async def test_the_embedded_engine_itself_can_be_probed(engine: Endpoint) -> None:
    info = await probe(engine.url + "/v1", engine.key, None, TIMEOUT_S)
    assert (info.model, info.apis) == ("smol", ("chat", "completions", "embeddings"))
