"""A run's ledger: reserve the worst case before a call, settle after it (R22). Overshoot is impossible."""

import operator

import msgspec
from msgspec.structs import astuple

from agentrun.core.plan import BudgetPlan

LIMITED = ("model_calls", "input_tokens", "output_tokens", "cost_micro_usd", "tool_calls", "mutations", "output_bytes")


class Amounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """One amount per limit; tokens, micro-USD, bytes and counts, never negative."""

    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_micro_usd: int = 0
    tool_calls: int = 0
    mutations: int = 0
    output_bytes: int = 0

    def plus(self, other: "Amounts") -> "Amounts":
        """Sum, limit by limit."""
        return Amounts(*map(operator.add, astuple(self), astuple(other)))

    def minus(self, other: "Amounts") -> "Amounts":
        """Difference, limit by limit, floored at 0."""
        return Amounts(*(max(0, mine - its) for mine, its in zip(astuple(self), astuple(other), strict=True)))

    def at_most(self, bound: "Amounts") -> "Amounts":
        """Each amount cut at the bound's."""
        return Amounts(*map(min, astuple(self), astuple(bound)))


ZERO = Amounts()


class Ledger(msgspec.Struct, frozen=True, omit_defaults=True):
    """`used + reserved <= limit` for every limit, always. `excess` is what a call used beyond its reservation."""

    used: Amounts = ZERO
    reserved: Amounts = ZERO
    excess: Amounts = ZERO
    holds: dict[str, Amounts] = {}

    def lacks(self, ask: Amounts, limits: BudgetPlan) -> str | None:
        """Name of the first limit that cannot take the ask, or None."""
        for name in LIMITED:
            limit = getattr(limits, name)
            asked = getattr(ask, name)
            if limit is not None and asked and getattr(self.used, name) + getattr(self.reserved, name) + asked > limit:
                return name
        return None

    def reserve(self, holder: str, ask: Amounts) -> "Ledger":
        """Hold the worst case for one step attempt. The caller has asked `lacks`."""
        return msgspec.structs.replace(
            self, reserved=self.reserved.plus(ask), holds={**self.holds, holder: ask}
        )  # fmt: skip

    def settle(self, holder: str, actual: Amounts | None) -> "Ledger":
        """Turn a hold into use; None means unknown, which costs the whole hold (never 0)."""
        hold = self.holds.get(holder)
        if hold is None:
            return self
        actual = hold if actual is None else actual
        return msgspec.structs.replace(
            self,
            used=self.used.plus(actual.at_most(hold)),
            reserved=self.reserved.minus(hold),
            excess=self.excess.plus(actual.minus(hold)),
            holds={key: value for key, value in self.holds.items() if key != holder},
        )
