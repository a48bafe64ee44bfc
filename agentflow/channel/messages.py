"""Every message of the control channel. One WebSocket frame is one message, MessagePack-encoded and tagged.

Runners and supervisors connect to ``AGENTFLOW_CONTROL_URL`` with the run's token and say :class:`Hello` first.
Frames stay under :data:`MAX_FRAME_BYTES`; a trace travels in chunks that the controller stores without parsing.
"""

from __future__ import annotations

from typing import Any

import msgspec

from agentflow.episode import DEFAULT_ROLE, Episode, EpisodeResult

MAX_FRAME_BYTES = 16 * 1024 * 1024  # both ends of the socket are set to this
MAX_ROW_BYTES = MAX_FRAME_BYTES - 64 * 1024  # what is left of a frame for a row of the data set
MAX_CHUNK_BYTES = 1024 * 1024  # of a trace: small enough that a result never queues long behind it


class Message(msgspec.Struct, frozen=True, tag=True):
    """Base of all messages; the class name is the tag."""


# --- plain data that messages carry ------------------------------------------------------------------------------


class AgentSpec(msgspec.Struct, frozen=True):
    """An agent as the user named it: ``path`` (``file.py[:Class]``, ``pkg.mod:Class``, ``pkg.mod.Class``) or a
    cloudpickled class, instance or function, with its constructor's arguments: ``kwargs`` as they are, ``objects``
    (what is no plain data) cloudpickled."""

    path: str = ""
    pickled: bytes = b""
    kwargs: dict[str, Any] = {}
    objects: dict[str, bytes] = {}


class AgentInfo(msgspec.Struct, frozen=True):
    """What a runner found.

    Args:
        name: qualified name.
        is_async: ``run`` is a coroutine function.
        modules: sha256 by file of the project modules that the agent imports.
        dataset: the data set that the class names as its own (``dataset = "problems.jsonl"``); a path is absolute.
        group_by: columns of it by which the class wants its score broken down (``group_by = ("level",)``).
        headline: ``pass^k`` where that is what the class wants to be quoted by (``headline = "pass^k"``), else empty.
        roles: model roles that the class asks for by name (``roles = ("user",)``); where the configuration does not
            mention one, the default role's workers play it.
    """

    name: str
    is_async: bool
    modules: dict[str, str] = {}
    dataset: str = ""
    group_by: tuple[str, ...] = ()
    headline: str = ""
    roles: tuple[str, ...] = ()


class WorkerInfo(msgspec.Struct, frozen=True):
    """One row of the worker table that runners forward to.

    Args:
        url: root of the endpoint without ``/v1``, for instance ``http://127.0.0.1:21000``.
        model: the served model name that requests are given.
        apis: which of ``chat``, ``responses``, ``completions``, ``messages``, ``embeddings`` the engine serves itself.
        role: the model role that it serves.
        healthy: may be sent new calls.
        generation: grows with every restart of the engine behind the name.
        is_external: an endpoint of somebody else, which may lie behind a proxy of the environment.
    """

    name: str
    url: str
    model: str
    api_key: str = ""
    apis: tuple[str, ...] = ("chat",)
    role: str = DEFAULT_ROLE
    healthy: bool = True
    generation: int = 0
    is_external: bool = False


class RoleSettings(msgspec.Struct, frozen=True):
    """A model role.

    Args:
        names: by which agents ask for it.
        sampling: the values that the user set for it (``gconfig`` names: temperature, top_p, top_k, max_new_tokens,
            min_new_tokens, stop, ...; only those set).
        is_shared: it has no workers of its own; those of the default role play it.
    """

    names: tuple[str, ...] = ()
    sampling: dict[str, Any] = {}
    is_shared: bool = False


class RunnerSettings(msgspec.Struct, frozen=True):
    """All that a runner needs of the configuration."""

    run_seed: int = 1
    roles: dict[str, RoleSettings] = {}
    model_names: tuple[str, ...] = ()  # of the model under test, as its user writes them
    concurrency: int = 64  # most episodes at once in this runner; sizes its pools
    worker_calls: int = 64  # most calls in flight from this runner to one worker
    episode_timeout_s: float | None = 3600.0  # None (inline): no timeout
    cancel_grace_s: float = 10.0
    request_timeout_s: float = 3600.0
    request_retries: int = 3
    retry_window_s: float = 120.0
    seed_requests: bool = True
    http_client: str = "httpx2"  # or "httpx"
    reward_key: str = ""
    passed_env: tuple[str, ...] = ()  # names of secrets of the user's environment that agents may see
    stall_s: float = 1.0  # report a blocked event loop from here on


class EngineLoad(msgspec.Struct, frozen=True):
    """An engine's own counters, as one heartbeat carries them; None where the engine does not say."""

    running: int | None = None
    waiting: int | None = None
    kv_usage: float | None = None  # 0..1
    prompt_tokens: int | None = None  # counters since the engine's start
    cached_tokens: int | None = None
    generated_tokens: int | None = None
    preemptions: int | None = None


# --- runner or supervisor -> controller --------------------------------------------------------------------------


class Hello(Message, frozen=True):
    """First message. ``role`` is ``runner`` or ``supervisor``; ``name`` as given by the scheduler's copy."""

    role: str
    name: str
    pid: int
    host: str
    version: str


class Goodbye(Message, frozen=True):
    """Last message of a process that ends on purpose, with the reason."""

    reason: str = ""


class RunnerReady(Message, frozen=True):
    """The runner has its settings and its gateway is up; ``gateway_url`` is for ``agentflow serve``."""

    gateway_url: str


class AgentLoaded(Message, frozen=True):
    """Answer to :class:`LoadAgent`."""

    key: str
    info: AgentInfo


class AgentRefused(Message, frozen=True):
    """Answer to :class:`LoadAgent`: one sentence for the user; ``traceback`` for ``--debug``."""

    key: str
    error: str
    traceback: str = ""


class DataRows(Message, frozen=True):
    """Rows of a ``module:function`` data set, as JSON lines; ``last`` closes the set. ``error`` ends it early."""

    rows: bytes
    last: bool = False
    error: str = ""


class ToolSchema(Message, frozen=True):
    """A tool list, sent once by a runner before the first trace that names it by hash."""

    hash: str
    data: bytes


class TraceChunk(Message, frozen=True):
    """A piece of an attempt's trace (whole JSON lines once all chunks are joined), sent before its result."""

    episode: Episode
    data: bytes


class EpisodeEnded(Message, frozen=True):
    """An attempt is over. ``fatal``: no episode of this run can have a headline reward (several metrics, none of them
    the headline); the run should stop with ``result.error``."""

    episode: Episode
    result: EpisodeResult
    fatal: bool = False


class NotPlayed(Message, frozen=True):
    """The attempt was never started, because the runner is leaving: give it to another runner, and this one no more."""

    episode: Episode
    reason: str


class Stalled(Message, frozen=True):
    """The runner's main thread was blocked for so long, by the code named."""

    seconds: float
    where: str


class Backpressure(Message, frozen=True):
    """A worker answered 429."""

    worker: str
    retry_after_s: float | None = None


class WorkerSuspect(Message, frozen=True):
    """A call to this worker failed in transport, or by a 502, 503 or 504; the controller may look more closely."""

    worker: str
    generation: int
    error: str


class WorkerUnreachable(Message, frozen=True):
    """A runner's first connection to this worker did not open.

    Args:
        address: host and port that were tried.
        error: a clause that says why.
    """

    worker: str
    address: str
    error: str


class WorkerUp(Message, frozen=True):
    """A supervisor's engine is healthy and serves here."""

    worker: WorkerInfo
    pid: int
    node: str


class WorkerDown(Message, frozen=True):
    """The engine died, hung, or never came up. ``restarting``: the supervisor tries again in place."""

    name: str
    error: str
    log_tail: str = ""
    restarting: bool = False


class Heartbeat(Message, frozen=True):
    """The engine lives; its load."""

    name: str
    load: EngineLoad


# --- controller -> runner ----------------------------------------------------------------------------------------


class SetUpRunner(Message, frozen=True):
    """First message to a runner."""

    settings: RunnerSettings
    workers: tuple[WorkerInfo, ...] = ()


class Workers(Message, frozen=True):
    """The whole worker table, pushed at every change."""

    workers: tuple[WorkerInfo, ...]


class LoadAgent(Message, frozen=True):
    """Load and check an agent; later :class:`Play` name it by ``key``."""

    key: str
    agent: AgentSpec


class LoadData(Message, frozen=True):
    """Call ``module:function`` (or ``file.py:function``) and stream the rows that it returns or yields."""

    path: str
    kwargs: dict[str, Any] = {}


class Play(Message, frozen=True):
    """Play an episode. ``worker`` is the one that placement chose for the default role."""

    episode: Episode
    agent: str
    data: dict[str, Any]
    worker: str


class CancelEpisode(Message, frozen=True):
    """Cancel an attempt; it still ends with an :class:`EpisodeEnded` (outcome ``cancelled``)."""

    episode: Episode


class Drain(Message, frozen=True):
    """Start nothing new; cancel what still plays after ``grace_s``, report, say Goodbye and exit."""

    grace_s: float = 0.0


# --- controller -> supervisor ------------------------------------------------------------------------------------


class StartEngine(Message, frozen=True):
    """First message to a supervisor: which engine to start, with what.

    Args:
        engine: ``llamacpp``, ``vllm`` or ``sglang``.
        options: the engine's own section of the configuration (``vllm.*``, ``sglang.*``, ``llamacpp.*``).
        adapter: the LoRA adapter to ask for, of those that the options load; empty: the only one, or none.
        nodes: over which one replica spreads; ``node_rank`` is this node's, and rank 0 serves.
        dist_init_addr: ``host:port`` of rank 0, on which the nodes of a replica meet.
        api_key: the key that the engine is to require.
        host: address to listen on; empty: one of the engine's node, on ``interface`` or towards the controller.
        log_path: file for the engine's output.
        deadline_s: from the start of the engine to its first healthy answer.
        max_restarts: in place, before the supervisor gives up.
        hang_s: with failing probes and token counters that stand still for so long the engine counts as hung.
        orphan_grace_s: how long to keep the engine alive without a controller.
    """

    engine: str
    model: str
    served_name: str
    api_key: str
    log_path: str
    options: dict[str, Any] = {}
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    adapter: str = ""
    nodes: int = 1
    node_rank: int = 0
    dist_init_addr: str = ""
    seed: int = 1
    host: str = "127.0.0.1"
    interface: str = ""
    deadline_s: float = 1200.0
    heartbeat_s: float = 2.0
    max_restarts: int = 3
    hang_s: float = 60.0
    orphan_grace_s: float = 60.0


class StopEngine(Message, frozen=True):
    """Stop the engine and exit."""

    grace_s: float = 5.0


ToController = (
    Hello | Goodbye | RunnerReady | AgentLoaded | AgentRefused | DataRows | ToolSchema | TraceChunk | EpisodeEnded
    | NotPlayed | Stalled | Backpressure | WorkerSuspect | WorkerUnreachable | WorkerUp | WorkerDown | Heartbeat
)  # fmt: skip
ToProcess = SetUpRunner | Workers | LoadAgent | LoadData | Play | CancelEpisode | Drain | StartEngine | StopEngine

_encoder = msgspec.msgpack.Encoder()
_to_controller: msgspec.msgpack.Decoder[ToController] = msgspec.msgpack.Decoder(ToController)
_to_process: msgspec.msgpack.Decoder[ToProcess] = msgspec.msgpack.Decoder(ToProcess)


def encode(message: Message) -> bytes:
    """One frame."""
    return _encoder.encode(message)


def decode_to_controller(frame: bytes) -> ToController:
    """A frame as the controller reads it; raises ``msgspec.DecodeError`` on anything else."""
    return _to_controller.decode(frame)


def decode_to_process(frame: bytes) -> ToProcess:
    """A frame as a runner or supervisor reads it; raises ``msgspec.DecodeError`` on anything else."""
    return _to_process.decode(frame)
