"""What other deciders would do, as pure functions of values."""
