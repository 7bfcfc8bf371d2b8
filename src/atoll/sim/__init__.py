"""A whole cluster in one process: virtual clock, fake ports, faults and checkers, from one seed."""
