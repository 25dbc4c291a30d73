"""Cost from disjoint buckets, and three wire formats that say the same (C43, R22)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrun.api.agentclass import ModelPrice
from agentrun.core.events import Usage
from agentrun.models import usage
from agentrun.models.port import Message, ModelRequest
from agentrun.models.pricing import cost_micro_usd

PRICE = ModelPrice(
    input_micro_usd_per_mtok=3_000_000, cached_input_micro_usd_per_mtok=300_000, output_micro_usd_per_mtok=15_000_000
)
COUNT = st.integers(0, 10**9)


@given(uncached=COUNT, cached=COUNT, text=COUNT, thought=COUNT)
def test_one_usage_in_three_wire_formats_costs_the_same_C43(
    uncached: int, cached: int, text: int, thought: int
) -> None:
    sent, made = uncached + cached, text + thought
    chat = usage.openai_chat(
        {
            "prompt_tokens": sent,
            "completion_tokens": made,
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens_details": {"reasoning_tokens": thought},
        }
    )
    responses = usage.openai_responses(
        {
            "input_tokens": sent,
            "output_tokens": made,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens_details": {"reasoning_tokens": thought},
        }
    )
    messages = usage.anthropic({"input_tokens": uncached, "cache_read_input_tokens": cached, "output_tokens": made})
    if sent + made == 0:
        assert chat is responses is messages is None
        return
    assert chat == responses == Usage(uncached, cached, text, thought)
    assert messages is not None
    assert chat is not None
    assert cost_micro_usd(chat, PRICE) == cost_micro_usd(messages, PRICE)


@given(st.builds(Usage, COUNT, COUNT, COUNT, COUNT))
def test_cost_is_the_exact_price_rounded_up_once_C43(spent: Usage) -> None:
    exact = (
        spent.input_tokens * 3_000_000
        + spent.cached_input_tokens * 300_000
        + (spent.output_tokens + spent.reasoning_tokens) * 15_000_000
    )
    assert 0 <= cost_micro_usd(spent, PRICE) * 1_000_000 - exact < 1_000_000


def test_one_token_of_a_cheap_model_is_not_free_C43() -> None:
    cheap = ModelPrice(input_micro_usd_per_mtok=1, output_micro_usd_per_mtok=1)
    assert cost_micro_usd(Usage(input_tokens=1), cheap) == 1


def test_cached_input_without_a_price_costs_as_input_C43() -> None:
    price = ModelPrice(input_micro_usd_per_mtok=1_000_000, output_micro_usd_per_mtok=0)
    assert cost_micro_usd(Usage(cached_input_tokens=7), price) == 7


@pytest.mark.parametrize(
    "report",
    [
        None,
        {},
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": -5, "completion_tokens": 3},
        {"prompt_tokens": 5, "completion_tokens": "3"},
        {"prompt_tokens": 5, "completion_tokens": True},
        {"prompt_tokens": 5, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 6}},
        {"prompt_tokens": 5, "completion_tokens": 3, "completion_tokens_details": {"reasoning_tokens": 4}},
    ],
)
def test_a_report_that_cannot_be_true_is_no_report_C24(report: dict[str, object] | None) -> None:
    assert usage.openai_chat(report) is None


def test_unknown_usage_is_an_upper_bound_and_says_so_R22() -> None:
    text = "¿qué?" * 100
    bound = usage.upper_bound(ModelRequest((Message("user", text),), (), 77, 0))
    assert bound.estimated
    assert bound.output_tokens == 77
    assert bound.input_tokens > len(text.encode())
