"""Aligned columns of untrusted cells."""

from collections.abc import Sequence

from agentrun.render.text import line, width

_GAP = "   "


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Lines as kubectl draws them: no rules, columns as wide as their widest cell. Every cell is one line."""
    cells = [list(header), *([line(cell) for cell in row] for row in rows)]
    widths = [max(width(row[index]) for row in cells) for index in range(len(header))]
    return "\n".join(_row(row, widths) for row in cells)


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell + " " * (wide - width(cell)) for cell, wide in zip(cells, widths, strict=True)]
    return _GAP.join(padded).rstrip(" ")
