"""Reducer version 1: `apply` folds an event into the state, `wanted` says what is to be done in a state."""

from agentrun.core.reducer.v1.apply import apply
from agentrun.core.reducer.v1.wanted import wanted

__all__ = ["apply", "wanted"]
