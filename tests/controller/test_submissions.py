from agentflow.controller.submissions import Submissions


def test_ids_are_unique_also_where_an_item_is_called_as_a_copy_of_another_would_be() -> None:
    submissions = Submissions()
    ids = [submissions.open(name, 1)[1] for name in ("a", "a#2", "a", "a", "a#2")]
    assert len(set(ids)) == 5
    assert ids[:2] == ["a", "a#2"]
