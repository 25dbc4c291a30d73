"""The operations. Each runs in a process of its own and returns the members of its result."""
