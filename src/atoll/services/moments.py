"""Moments as the API server writes them."""

from datetime import datetime


def seconds_of(moment: str) -> float:
    """Since 1970, of an RFC 3339 time; 0.0 of what is none."""
    try:
        return datetime.fromisoformat(moment).timestamp()
    except ValueError:
        return 0.0
