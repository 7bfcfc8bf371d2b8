"""The program `atoll`, one file per verb."""
