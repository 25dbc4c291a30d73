"""What a call costs, in whole micro US dollars, from disjoint buckets and the class's prices (R22, C43)."""

from agentrun.api.agentclass import ModelPrice
from agentrun.core.events import Usage

MILLION = 1_000_000


def cost_micro_usd(usage: Usage, price: ModelPrice) -> int:
    """Micro US dollars, rounded up once, at the end: never 0 for something that is not free.

    Reasoning tokens cost as output; cached input costs as input where the class states no price for it.
    """
    cached = price.cached_input_micro_usd_per_mtok
    total = (
        usage.input_tokens * price.input_micro_usd_per_mtok
        + usage.cached_input_tokens * (price.input_micro_usd_per_mtok if cached is None else cached)
        + (usage.output_tokens + usage.reasoning_tokens) * price.output_micro_usd_per_mtok
    )
    return -(-total // MILLION)
