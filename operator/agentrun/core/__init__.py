"""The pure heart: events, commands, state and the versioned reducer. No I/O, no clock, no randomness, no asyncio."""
