"""The node side as values: what an agent hears of its node, what it knows of it, and what it wants done."""
