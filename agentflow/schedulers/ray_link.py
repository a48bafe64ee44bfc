"""This process's connection to Ray: one thread that talks to it, and what can go wrong there in words."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import queue
import signal
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio

from agentflow.config.cluster import RayConfig
from agentflow.errors import AgentflowError, MissingExtraError, SchedulerError
from agentflow.processes import logtail
from agentflow.schedulers import ray_host

T = TypeVar("T")

REACH_S = 10.0  # for a connection to the head's port; Ray itself tries for minutes
CONNECT_S = 120.0  # to join a cluster or start one, on a busy machine and from a cold disk
CLOSE_S = 30.0  # to leave it
OWN_CPUS = 1024  # of a Ray started here: as with the local scheduler, CPUs of one machine of ours are not counted
STARTING_HERE = "local"  # Ray's own word


class ActorGoneError(Exception):
    """The actor or its node is gone; Ray's reason."""


class ActorFailedError(Exception):
    """The actor could not do it; the reason."""


class RayLink:
    """Entered once. Leaving it ends a Ray that was started here, and only leaves one that runs elsewhere.

    Ray's calls block, so they go to a thread. There is one, and it lasts as long as the process needs it: the processes
    of a Ray that is started here die with the thread that started them.

    Args:
        n_gpus: of a Ray that is started here; None: Ray counts them.
    """

    def __init__(self, settings: RayConfig, n_gpus: int | None) -> None:
        self._runtime_env = settings.runtime_env
        self._by_setting = settings.address is not None
        self._target = settings.address or os.environ.get("RAY_ADDRESS") or STARTING_HERE
        self._n_gpus = n_gpus
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]] | None]
        self._joined = False  # by us; a notebook may have joined before
        self._actor: Any = None
        self.address = ""  # of the node that this process is on

    async def __aenter__(self) -> Self:
        if importlib.util.find_spec("ray") is None:
            raise MissingExtraError("scheduler.type=ray", "ray")
        await self._reach()
        self._calls = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="ray", daemon=True).start()
        try:
            with anyio.fail_after(CONNECT_S):
                await self.call(self._connect)
        except BaseException as e:
            self._calls.put((Future(), self._disconnect, ()))  # once it has connected after all
            self._calls.put(None)
            if isinstance(e, TimeoutError):
                raise SchedulerError(f"{self._where} did not answer within {CONNECT_S:.0f} s: see its logs.") from e
            raise
        _take_signals_back()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.move_on_after(CLOSE_S, shield=True):
            await self.call(self._disconnect)
        _take_signals_back()
        self._calls.put(None)

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call something of Ray's in its thread. Raises SchedulerError when Ray does not do it."""
        future: Future[T] = Future()
        self._calls.put((future, function, args))
        try:
            return await asyncio.wrap_future(future)
        except AgentflowError:
            raise
        except Exception as e:  # what Ray raises has no common base
            raise SchedulerError(f"{self._where} fails: {_last_words(str(e))}.") from e

    async def ask(self, method: Any, *args: Any, **more: Any) -> Any:
        """Call a method of an actor and await what it returns.

        Raises:
            ActorGoneError: it is dead, or never came to live.
            ActorFailedError: the method failed, or the actor's environment cannot be had.
        """
        from ray import exceptions

        while True:
            reply = await self.call(lambda: method.remote(*args, **more).future())
            try:
                return await asyncio.wrap_future(reply)
            except exceptions.ActorUnavailableError:
                await anyio.sleep(1.0)  # a broken connection; it is asked again until Ray knows that it is dead
            except exceptions.RayTaskError as e:
                raise ActorFailedError(str(e.cause)) from e
            except exceptions.RuntimeEnvSetupError as e:
                raise ActorFailedError(f"scheduler.ray.runtime_env cannot be set up: {e.error_message}") from e
            except exceptions.RayError as e:
                raise ActorGoneError(_last_words(str(e))) from e

    def create_actor(self, needs: Mapping[str, float]) -> tuple[Any, Any]:
        """In Ray's thread: queue an actor; returns its placement group and its handle."""
        from ray.util import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        group = placement_group([dict(needs)])
        actor = self._actor.options(
            num_cpus=needs.get("CPU", 0),
            num_gpus=needs.get("GPU", 0),
            memory=needs.get("memory"),
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0),
        ).remote()
        return group, actor

    def release(self, group: Any, actor: Any) -> None:
        """In Ray's thread: end an actor, if it lives or waits, and give back its place."""
        import ray
        from ray.util import remove_placement_group

        ray.kill(actor)
        remove_placement_group(group)

    def places(self, groups: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, float], dict[str, float]]:
        """In Ray's thread: the nodes' addresses of placement groups (empty: none yet), what is free, all there is."""
        import ray
        from ray.util import placement_group_table

        addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
        ids = {
            name: placement_group_table(group).get("bundles_to_node_id", {}).get(0) for name, group in groups.items()
        }
        found = {name: addresses.get(node_id, "") for name, node_id in ids.items()}
        return found, ray.available_resources(), ray.cluster_resources()

    def nodes(self) -> list[dict[str, Any]]:
        """In Ray's thread: ``ray.nodes()``."""
        import ray

        return ray.nodes()  # type: ignore[no-any-return]

    # --- in Ray's thread ---

    def _serve(self) -> None:
        while (item := self._calls.get()) is not None:
            future, function, args = item
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function(*args))
                except BaseException as e:  # noqa: BLE001 - raised where the result is awaited
                    future.set_exception(e)

    def _connect(self) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        logging.getLogger("ray").setLevel(logging.ERROR)
        options: dict[str, Any] = {}
        if not ray.is_initialized():
            if self._target == STARTING_HERE:
                options = {"num_cpus": OWN_CPUS, "num_gpus": self._n_gpus, "include_dashboard": False}
            try:
                ray.init(
                    self._target,
                    runtime_env=self._runtime_env or None,
                    log_to_driver=False,
                    configure_logging=False,
                    **options,
                )
            except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as e:
                raise SchedulerError(f"{self._where} cannot be used: {_last_words(str(e))}") from e
            self._joined = True
            # No setting keeps Ray from printing a raylet's last lines to our terminal whenever a node or an actor ends.
            ray._private.worker._worker_logs_enabled = False
        self.address = ray.util.get_node_ip_address()
        for module in (ray_host, logtail):
            ray.cloudpickle.register_pickle_by_value(module)
        options = {} if self._joined else {"runtime_env": self._runtime_env}
        lasting = {"max_restarts": 0, "max_task_retries": 0}  # the controller replaces what dies, under another name
        self._actor = ray.remote(**lasting, max_concurrency=2, **options)(ray_host.Host)

    def _disconnect(self) -> None:
        import ray

        if self._joined:
            ray.shutdown()

    # --- before Ray ---

    async def _reach(self) -> None:
        """Raises SchedulerError when nobody listens where Ray should be."""
        if "://" in self._target:
            raise SchedulerError(
                f"{self._where} is the address of a Ray client, which cannot own what it starts: run agentflow on a "
                "node of the cluster and give scheduler.ray.address=HOST:PORT of its head."
            )
        host, colon, port = self._target.rpartition(":")
        if not colon:
            return  # "local", "auto"
        try:
            with anyio.fail_after(REACH_S):
                stream = await anyio.connect_tcp(host.strip("[]"), int(port))
                await stream.aclose()
        except (OSError, ValueError) as e:
            how = f"within {REACH_S:.0f} s" if isinstance(e, TimeoutError) else f"({e})"
            raise SchedulerError(
                f"{self._where} cannot be reached {how}: is it the HOST:PORT of the head of a cluster that runs?"
            ) from e

    @property
    def _where(self) -> str:
        if self._target == STARTING_HERE:
            return "A Ray of this machine"
        return f"Ray at {self._target}" + ("" if self._by_setting else " (from RAY_ADDRESS)")


def _last_words(text: str) -> str:
    """The line of a Ray error that says why, without Ray's advice."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("The actor is dead", "The actor died because"))] or lines
    return (telling or ["it does not say why"])[-1].partition(" Some common causes")[0].rstrip(".")


def _take_signals_back() -> None:
    """Ray's core takes SIGTERM for itself when it connects, and leaves it to the system when it disconnects."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))
