"""The program `atoll`: one file per verb, a folder where a verb has more to it."""
