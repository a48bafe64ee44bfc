"""Prometheus text, as far as engines' load needs it."""

from __future__ import annotations


def samples(text: str) -> dict[str, float]:
    """The value of each metric, by name; values of one name under different labels are added up. Lines that are not
    samples are skipped."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        name, brace, rest = line.partition("{")
        if brace:
            value = rest.rpartition("}")[2].split()
        else:
            name, *value = line.split()
        try:
            found[name.strip()] = found.get(name.strip(), 0.0) + float(value[0])
        except (ValueError, IndexError):
            continue
    return found
