"""Effects: what an attempt does outside, and the event it comes to. One module per kind of step."""

from agentrun.harness.effects.perform import perform

__all__ = ["perform"]
