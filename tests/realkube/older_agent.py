"""`atoll agent` as a version before it wrote it: no versions of the pods, no boot, no staleness, no capabilities.

Run as a program, in the place of `atoll`.
"""

from typing import Any

import msgspec

from atoll.adapters.kube.own import api
from atoll.cli.app import main
from atoll.core.agent.effects import ApiEffect, RenewLease
from atoll.core.agent.events import NotWritten, Renewed, Written

NEWER = ("podsVersion", "bootID", "stale", "capabilities")
_status_of, _perform = vars(api)["status_of"], api.KubeNodeApi.perform


def status_of(*words: Any) -> dict[str, object]:
    return {name: value for name, value in msgspec.to_builtins(_status_of(*words)).items() if name not in NEWER}


async def perform(self: api.KubeNodeApi, effect: ApiEffect) -> Written | NotWritten | Renewed:
    return await _perform(self, RenewLease(effect.node) if isinstance(effect, RenewLease) else effect)


if __name__ == "__main__":
    vars(api)["status_of"] = status_of
    api.KubeNodeApi.perform = perform  # type: ignore[method-assign]
    main()
