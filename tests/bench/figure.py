"""One figure: a ratio, its target, and the line and file that say so (design 10)."""

import json
import math
import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Figure:
    """`ratio` against `target`; `raw` holds the numbers it was made from, as JSON, with units in their names."""

    id: str
    ratio: float
    relation: Literal["<=", ">="]
    target: float
    raw: dict[str, Any]

    @property
    def holds(self) -> bool:
        """Whether the ratio, as it is, meets the target."""
        return self.ratio <= self.target if self.relation == "<=" else self.ratio >= self.target

    def line(self) -> str:
        """`P4 ratio=1.08 target<=1.15 ok`; rounded to the worse side, so that no rounding makes a figure hold."""
        verdict = "ok" if self.holds else "short"
        return f"{self.id} ratio={self._shown(self.ratio)} target{self.relation}{self._shown(self.target)} {verdict}"

    def keep(self, folder: Path = RESULTS) -> Path:
        """Write the raw numbers, with the machine they were measured on."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.id}.json"
        path.write_text(json.dumps(self._document(), indent=2, sort_keys=True) + "\n")
        return path

    def _document(self) -> dict[str, Any]:
        machine = {"cpus": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()}
        measured = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return {
            "id": self.id, "ratio": self.ratio, "relation": self.relation, "target": self.target,
            "holds": self.holds, "measured": measured, "machine": machine, "raw": self.raw,
        }  # fmt: skip

    def _shown(self, value: float) -> str:
        worse = math.ceil if self.relation == "<=" else math.floor
        return f"{worse(round(value * 100, 6)) / 100:.2f}"


def say(text: str) -> None:
    """Progress and numbers for a person, above the figure's own line."""
    print(text, flush=True)
