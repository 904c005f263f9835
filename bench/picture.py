"""The picture of a part: a bar for the median of each contender, in groups of what was measured together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from bench.measure import middle

__all__ = ["draw", "file_name"]

_WIDTH, _NAMES, _NUMBERS = 760, 250, 90
_BAR, _GAP = 18, 6
_STYLE = """
  svg { font: 13px ui-sans-serif, system-ui, sans-serif }
  .paper { fill: #ffffff } .title { fill: #14202e; font-weight: 600 } .name, .number { fill: #374151 }
  .name { text-anchor: end } .ours { fill: #2f6db3 } .raw { fill: #9aa1ac } .peer { fill: #d5a253 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #1b1f27 } .title { fill: #f1f5f9 } .name, .number { fill: #d5dae1 }
    .ours { fill: #6ea8e6 } .raw { fill: #5b6472 } .peer { fill: #a97f3d }
  }
"""


def file_name(part: str) -> str:
    return f"benchmarks-{part.replace(' ', '-')}.svg"


def draw(title: str, measures: Mapping[str, Sequence[Mapping[str, Any]]], packages: Sequence[str]) -> str:
    """Draw what is a rate; pick-ups are times, and stand in the text.  ``packages``: the peers, to tell them by colour."""
    groups = {name: _medians(rows) for name, rows in measures.items() if name != "pick-up"}
    groups = {name: medians for name, medians in groups.items() if len(medians) > 1}  # one bar compares nothing
    lines, at = [], 12
    for name, medians in groups.items():
        at += 22
        lines.append(f'<text class="title" x="12" y="{at}">{escape(name)}, per second</text>')
        at += 10
        most = max(medians.values(), default=0.0) or 1.0
        for who, rate in sorted(medians.items(), key=lambda each: -each[1]):
            lines.append(_bar(who, rate, rate / most, at, _kind(who, packages)))
            at += _BAR + _GAP
        at += _GAP
    about = "; ".join(
        f"{name}: " + ", ".join(f"{who} {rate:,.0f}" for who, rate in each.items()) for name, each in groups.items()
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {at + 6}" role="img" aria-labelledby="t d">\n'
        f'<title id="t">{escape(title)}</title>\n<desc id="d">{escape(about)}</desc>\n<style>{_STYLE}</style>\n'
        f'<rect class="paper" width="{_WIDTH}" height="{at + 6}" rx="8"/>\n' + "\n".join(lines) + "\n</svg>\n"
    )


def _medians(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    found = {who: [row[who] for row in rows if row[who] is not None] for who in rows[0]}
    return {who: middle(values) for who, values in found.items() if values}


def _kind(who: str, packages: Sequence[str]) -> str:
    if who.startswith("raw"):
        return "raw"
    return "peer" if any(who == package or package.startswith(f"{who}-") for package in packages) else "ours"


def _bar(who: str, rate: float, share: float, top: int, kind: str) -> str:
    room = _WIDTH - _NAMES - _NUMBERS
    length = max(1.0, share * room)
    base = top + _BAR - 5
    return (
        f'<text class="name" x="{_NAMES - 8}" y="{base}">{escape(who)}</text>'
        f'<rect class="{kind}" x="{_NAMES}" y="{top}" width="{length:.1f}" height="{_BAR}" rx="2"/>'
        f'<text class="number" x="{_NAMES + length + 6:.1f}" y="{base}">{rate:,.0f}</text>'
    )
