"""A key that no header can hold is refused without being shown (C31)."""

import pytest

from agentrun.models.credentials import header_safe, redact
from agentrun.models.errors import ModelError
from agentrun.models.port import Target


@pytest.mark.parametrize("key", ["CANARY\nX-Evil: 1", "CANARY\r\n", "", " \n", "CANARY\x00", "CANARÝ"])
def test_a_broken_key_is_never_shown_C31(key: str) -> None:
    if key.strip() == "CANARY":
        assert header_safe(key) == "CANARY"
        return
    with pytest.raises(ModelError) as caught:
        header_safe(key)
    assert "CANAR" not in str(caught.value)


def test_a_target_prints_without_its_key_C31() -> None:
    assert "CANARY" not in repr(Target("m", "https://example.org", api_key="CANARY"))


def test_what_a_provider_echoes_is_redacted_and_bounded_C31() -> None:
    said = redact("bad key CANARY " + "x" * 5000, "CANARY", None)
    assert "CANARY" not in said
    assert len(said) < 1100
