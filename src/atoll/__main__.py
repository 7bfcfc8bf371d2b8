"""`python -m atoll` is `atoll`."""

from atoll.cli.app import main

main()
