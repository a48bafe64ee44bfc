from agentflow.controller.stalls import Stalls


def test_every_place_is_named_at_once_and_then_ever_more_seldom() -> None:
    stalls = Stalls()
    said = [stalls.sentence("runner-0", 2.0, "grade.py:7 in verify") for _ in range(1000)]
    sentences = [s for s in said if s is not None]
    assert sentences[0] == "runner-0 was blocked for 2.0 s by grade.py:7 in verify."
    assert sentences[-1].endswith("(512 times so far, 1024 s in all).")
    assert len(sentences) == 10
    assert (
        stalls.sentence("runner-1", 1.5, "agent.py:3 in run") == "runner-1 was blocked for 1.5 s by agent.py:3 in run."
    )
