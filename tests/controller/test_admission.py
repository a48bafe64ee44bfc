from agentflow.channel.messages import EngineLoad
from agentflow.controller.admission import MAX_A_WORKER, START_A_WORKER, STEP_S, UNSEEN_A_WORKER, Admission

ROOM = EngineLoad(running=8, waiting=0, kv_usage=0.2, preemptions=0)
QUEUE = EngineLoad(running=64, waiting=32, kv_usage=0.5, preemptions=0)


def test_a_fixed_cap_is_that_number_whatever_the_workers_say() -> None:
    admission = Admission(7)
    admission.set_workers(4)
    for step in range(20):
        admission.observe({"w": QUEUE}, in_flight=7, now=step * STEP_S)
    admission.backpressure(None, now=200)
    assert admission.cap(now=200) == 7


def test_auto_starts_in_proportion_to_the_workers() -> None:
    admission = Admission(None)
    admission.set_workers(3)
    assert admission.cap(now=0) == 3 * START_A_WORKER


def test_auto_grows_while_a_used_cap_leaves_room_and_never_past_its_ceiling() -> None:
    admission = Admission(None)
    admission.set_workers(1)
    caps = []
    for step in range(1, 20):
        admission.observe({"w": ROOM}, in_flight=admission.cap(now=0), now=step * STEP_S)
        caps.append(admission.cap(now=step * STEP_S))
    assert caps == sorted(caps)
    assert caps[-1] == MAX_A_WORKER


def test_auto_does_not_grow_while_its_cap_is_not_used() -> None:
    admission = Admission(None)
    admission.set_workers(1)
    admission.observe({"w": ROOM}, in_flight=1, now=STEP_S)
    assert admission.cap(now=STEP_S) == START_A_WORKER


def test_auto_backs_off_when_workers_queue_and_then_grows_by_steps() -> None:
    admission = Admission(None)
    admission.set_workers(1)
    for step in range(1, 4):
        admission.observe({"w": ROOM}, in_flight=admission.cap(0), now=step * STEP_S)
    high = admission.cap(0)
    admission.observe({"w": QUEUE}, in_flight=high, now=5 * STEP_S)
    backed_off = admission.cap(0)
    assert backed_off < high
    admission.observe({"w": ROOM}, in_flight=backed_off, now=7 * STEP_S)
    assert admission.cap(0) == backed_off + 1


def test_auto_backs_off_on_new_preemptions_only() -> None:
    admission = Admission(None)
    admission.set_workers(1)
    admission.observe({"w": EngineLoad(running=8, preemptions=5)}, in_flight=1, now=STEP_S)
    assert admission.cap(0) == START_A_WORKER
    admission.observe({"w": EngineLoad(running=8, preemptions=6)}, in_flight=1, now=3 * STEP_S)
    assert admission.cap(0) < START_A_WORKER


def test_auto_grows_also_on_endpoints_that_tell_nothing_of_their_load_but_not_as_far() -> None:
    admission = Admission(None)
    admission.set_workers(2)
    caps = []
    for i in range(20):
        admission.observe({}, in_flight=admission.cap(i * STEP_S), now=i * STEP_S)
        caps.append(admission.cap(i * STEP_S))
    assert caps[0] == 2 * 2 * START_A_WORKER
    assert caps[-1] == 2 * UNSEEN_A_WORKER


def test_a_429_of_such_an_endpoint_takes_back_some_and_it_then_grows_by_steps() -> None:
    admission = Admission(None)
    admission.set_workers(1)
    admission.observe({}, in_flight=START_A_WORKER, now=0.0)
    admission.backpressure(None, now=STEP_S)
    smaller = admission.cap(STEP_S)
    assert smaller == int(2 * START_A_WORKER * 0.75)
    admission.observe({}, in_flight=smaller, now=2 * STEP_S)
    assert admission.cap(2 * STEP_S) == smaller + 1


def test_a_429_pauses_for_as_long_as_the_worker_asked() -> None:
    admission = Admission(10)
    admission.backpressure(30.0, now=100.0)
    assert admission.cap(now=129.9) == 0
    assert admission.cap(now=130.0) == 10


def test_one_burst_of_429s_shrinks_the_cap_once() -> None:
    admission = Admission(None)
    admission.set_workers(1)
    for _ in range(50):
        admission.backpressure(None, now=100.0)
    assert admission.cap(now=100.0) == int(START_A_WORKER * 0.75)
