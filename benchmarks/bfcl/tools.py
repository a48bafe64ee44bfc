"""The package's function docs as the ``tools`` of a request. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from benchmarks.bfcl.package import function_docs, schema_types
from benchmarks.bfcl.task import Task


class Toolbox:
    """The functions that a model is offered: all of a task's APIs, but for those that are missing at first."""

    def __init__(self, task: Task) -> None:
        docs = [doc for api in task.involved_classes for doc in function_docs(api)]
        self._missed = task.missed_function
        missing = {name for names in task.missed_function.values() for name in names}
        self._withheld = {doc["name"]: tool(doc) for doc in docs if doc["name"] in missing}
        self.offered = [tool(doc) for doc in docs if doc["name"] not in missing]

    def hand_over(self, turn: int) -> bool:
        """Offer what was missing until this turn as well; whether there was any."""
        names: Collection[str] = self._missed.get(str(turn), ())
        self.offered += [self._withheld[name] for name in names]
        return bool(names)


def tool(doc: Mapping[str, Any]) -> dict[str, Any]:
    """One entry of ``tools``. What the function returns is left out: there is no place for it in the protocol."""
    return {
        "type": "function",
        "function": {
            "name": doc["name"],
            "description": doc["description"],
            "parameters": json_schema(doc["parameters"]),
        },
    }


def json_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The package's schema with JSON Schema's names of types: ``dict`` is an object, ``float`` a number."""
    result = dict(schema)
    if "type" in result:
        result["type"] = schema_types()[result["type"]]
    if "properties" in result:
        result["properties"] = {name: json_schema(value) for name, value in result["properties"].items()}
    if "items" in result:
        result["items"] = json_schema(result["items"])
    return result
