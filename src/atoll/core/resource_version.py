"""The order of resourceVersions of one kind: decimal and growing."""


def just_before(version: str) -> str:
    """The version than which that one and all later ones are newer."""
    return str(int(version) - 1) if version.isdecimal() and int(version) else version


def is_newer(version: str, than: str) -> bool:
    """Whether `version` came later. "" is the version of what does not exist yet."""
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return version != than
