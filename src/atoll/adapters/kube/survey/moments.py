"""Times of the API as one form, so that they sort as texts: RFC 3339 in UTC, in whole seconds."""

import re
from datetime import UTC, datetime

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)
_WHOLE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_FRACTION = re.compile(r"[.,]\d+")
_FORM = "%Y-%m-%dT%H:%M:%SZ"
NO_YEAR = "0001-"
"""Go's zero time, which is no time."""


def moment(text: str | None) -> str:
    """The time, "" for none and for what is no time. One in the future stays: clocks are skewed."""
    if not text or text.startswith(NO_YEAR):
        return ""
    plain = _WHOLE.fullmatch(text)  # the API's own form, which is only checked
    if not plain and not _RFC3339.fullmatch(text):
        return ""
    try:
        parsed = datetime.fromisoformat(text if plain else _FRACTION.sub("", text).upper())
        return text if plain else parsed.astimezone(UTC).strftime(_FORM).rjust(20, "0")
    except (ValueError, OverflowError):
        return ""
