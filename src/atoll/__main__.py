"""`python -m atoll` is `atoll`."""

from atoll.cli.entry import main

main()
