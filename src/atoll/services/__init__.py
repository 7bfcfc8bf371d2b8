"""Loops that turn events into steps and effects; no rule of placement lives here."""
