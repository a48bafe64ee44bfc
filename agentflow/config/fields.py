"""What every section of the configuration shares: its base class and the types of its values."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator


class Section(BaseModel):
    """A frozen section. A null anywhere means: not set. Unknown keys are refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        coerce_numbers_to_str=True,  # trial_name: 3 is a name
        defer_build=True,  # agentflow --help must not pay for it
        hide_input_in_errors=True,
        protected_namespaces=(),  # model_path is AReaL's name
    )

    @model_validator(mode="before")
    @classmethod
    def _null_means_not_set(cls, data: Any) -> Any:
        return {k: v for k, v in data.items() if v is not None} if isinstance(data, Mapping) else data


def no_bool(value: Any) -> Any:
    """Refuse true and false, which Python counts as 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str | Mapping) else value


def _as_arguments(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return shlex.split(value)
    except ValueError as error:
        raise ValueError(f"must be arguments as a shell takes them ({str(error).lower()})") from error


def _as_urls(value: Any) -> Any:
    urls = _as_list(value)
    for url in urls if isinstance(urls, list | tuple) else ():
        if not isinstance(url, str) or not re.match(r"https?://[^/\s]", url):
            raise ValueError("must be addresses that begin with http:// or https://")
    return urls


def _of_64_bits(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise ValueError("must be a whole number of 64 bits, as engines take for a seed")
    return value


def _count_or(*words: str) -> BeforeValidator:
    def check(value: Any) -> Any:
        if isinstance(value, str) and value in words:
            return value
        try:
            number = int(no_bool(value))
        except (TypeError, ValueError, OverflowError):
            number = 0
        if number < 1 or number != float(value):
            raise ValueError(f"must be a number of 1 or more, or {' or '.join(words)}")
        return number

    return BeforeValidator(check)


Whole = Annotated[int, BeforeValidator(no_bool), AfterValidator(_of_64_bits)]
Natural = Annotated[int, BeforeValidator(no_bool), Field(ge=0)]
Count = Annotated[int, BeforeValidator(no_bool), Field(ge=1)]
Number = Annotated[float, BeforeValidator(no_bool)]
Seconds = Annotated[float, BeforeValidator(no_bool), Field(gt=0)]
Share = Annotated[float, BeforeValidator(no_bool), Field(gt=0, le=1)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_as_list)]  # one text alone is a list of one
Urls = Annotated[tuple[str, ...], BeforeValidator(_as_urls)]
Arguments = Annotated[tuple[str, ...], BeforeValidator(_as_arguments)]  # one text is split as a shell splits it
CountOrAuto = Annotated[int | Literal["auto"], _count_or("auto")]
RunnerCount = Annotated[int | Literal["auto", "inline"], _count_or("auto", "inline")]
as_list = BeforeValidator(_as_list)
