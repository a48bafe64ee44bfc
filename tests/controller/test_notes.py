from agentflow.channel.messages import Stalled, WorkerUnreachable
from agentflow.controller.notes import Notes


def test_every_place_that_blocks_is_named_at_once_and_then_ever_more_seldom() -> None:
    notes = Notes()
    said = [notes.stalled("runner-0", Stalled(2.0, "grade.py:7 in verify")) for _ in range(1000)]
    sentences = [s for s in said if s is not None]
    assert sentences[0] == "runner-0 was blocked for 2.0 s by grade.py:7 in verify."
    assert sentences[-1].endswith("(512 times so far, 1024 s in all).")
    assert len(sentences) == 10
    other = notes.stalled("runner-1", Stalled(1.5, "agent.py:3 in run"))
    assert other == "runner-1 was blocked for 1.5 s by agent.py:3 in run."


def test_a_worker_that_a_node_cannot_reach_is_named_with_both_ends_once_a_node() -> None:
    notes = Notes()
    closed = WorkerUnreachable("vllm-3", "10.0.0.7:9003", "no answer within 10 s")
    sentence = notes.unreachable("runner-0", "node1", closed)
    assert sentence is not None
    assert sentence.startswith("runner-0 on node1 cannot reach vllm-3 at 10.0.0.7:9003 (no answer within 10 s): ")
    assert notes.unreachable("runner-1", "node1", closed) is None
    assert notes.unreachable("runner-2", "node2", closed) is not None
