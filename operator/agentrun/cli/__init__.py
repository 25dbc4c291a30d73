"""Command lines: `agentrun` starts processes, `kubectl agentrun` is people's verbs. Wires every part together."""
