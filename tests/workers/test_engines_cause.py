"""Why an engine died is read off its log."""

from __future__ import annotations

from agentflow.workers.engines.cause import LONGEST, cause

VLLM = """\
(APIServer pid=1) WARNING 11-29 [a.py:1] ImportError: no module named triton
(VllmWorker-0 pid=3) ERROR 11-29 17:31:56 [multiproc_executor.py:953] Traceback (most recent call last):
(VllmWorker-0 pid=3) ERROR 11-29 17:31:56 [multiproc_executor.py:953]     raise ValueError(
(VllmWorker-0 pid=3) ERROR 11-29 17:31:56 [multiproc_executor.py:953] ValueError: Available memory on node 0 is less
Traceback (most recent call last):
    raise RuntimeError(
RuntimeError: Engine core initialization failed. See root cause above.
"""
SGLANG = """\
[2026-11-29 17:00:00] Scheduler hit an exception: Traceback (most recent call last):
  File "x.py", line 1, in f
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
"""


def test_the_first_error_is_the_cause_and_warnings_are_none() -> None:
    assert cause(VLLM) == "ValueError: Available memory on node 0 is less"
    assert cause(SGLANG) == "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def test_an_unknown_flag_is_a_cause() -> None:
    text = "usage: vllm serve [-h]\nvllm serve: error: unrecognized arguments: --foo\n"
    assert cause(text) == "error: unrecognized arguments: --foo"


def test_a_log_without_an_error_has_no_cause() -> None:
    assert cause("") is None
    assert cause("all is well\nINFO: 3 errors so far\n") is None


def test_a_very_long_error_is_cut() -> None:
    assert len(cause("ValueError: " + "x" * 9000) or "") == LONGEST + 3
