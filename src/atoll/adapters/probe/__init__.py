"""Asking the machine itself: its kernel and its vendors' tools, in the words that the readers of dumps know."""
