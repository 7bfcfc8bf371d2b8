"""The order of resourceVersions of one kind: decimal and growing."""


def is_newer(version: str, than: str) -> bool:
    """Whether `version` came later. "" is the version of what does not exist yet."""
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return version != than
