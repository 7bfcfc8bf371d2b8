"""The order of resourceVersions of one kind: decimal and growing."""

DIGITS_MAX = 20
"""etcd counts in 64 bits."""


def trusted(told: str) -> str:
    """A version that somebody else wrote down; "" where it is none."""
    return told if told.isascii() and told.isdecimal() and len(told) <= DIGITS_MAX else ""


def newest(*versions: str) -> str:
    """The last of them; "" where there is none."""
    last = ""
    for version in versions:
        last = version if version and (not last or is_newer(version, last)) else last
    return last


def just_before(version: str) -> str:
    """The version than which that one and all later ones are newer."""
    return str(int(version) - 1) if version.isdecimal() and int(version) else version


def is_newer(version: str, than: str) -> bool:
    """Whether `version` came later. "" is the version of what does not exist yet."""
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return version != than
