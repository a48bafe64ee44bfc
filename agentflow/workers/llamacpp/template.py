"""Which chat template a model is given."""

from __future__ import annotations

from pathlib import Path

BUILT_IN = Path(__file__).with_name("chatml_tools.jinja")
OWN = "own"


def choose_template(asked: str | None, own: str | None) -> tuple[str, str]:
    """The template's text ("" for the model's own), and one sentence that says which it is.

    Args:
        asked: the option: a path of a Jinja file, ``own``, or None to decide by the model.
        own: the template in the model's file, if any.

    A ChatML template that never looks at ``tools`` drops them without a word: it is replaced by ours, which is the same
    but renders tools and ``<tool_call>``. Templates of other formats are left alone.

    Raises OSError when the file cannot be read.
    """
    if asked == OWN:
        return "", "chat template: the model's own, as asked for"
    if asked is not None:
        return Path(asked).read_text(encoding="utf-8"), f"chat template: {asked}"
    if own is None or ("<|im_start|>" in own and "tools" not in own):
        why = "has none" if own is None else "drops tools"
        return BUILT_IN.read_text(encoding="utf-8"), f"chat template: ChatML with tools, because the model's own {why}"
    if "tools" not in own:
        return "", "chat template: the model's own, which drops tools: agents with tools need another (chat_template)"
    return "", "chat template: the model's own"
