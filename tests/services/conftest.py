"""Whatever a test did with the scheduling service, its books must equal a rebuild; and an agent on its stage."""

from collections.abc import Iterator

import pytest

from tests.services import stage
from tests.services.agent_scene import Scene


@pytest.fixture(autouse=True)
def _books_equal_a_rebuild(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    opened: list[stage.Stage] = []
    build = stage.Stage.__init__

    def remember(self: stage.Stage, *args: object, **more: object) -> None:
        opened.append(self)
        build(self, *args, **more)

    monkeypatch.setattr(stage.Stage, "__init__", remember)
    yield
    for one in opened:
        one.close()


@pytest.fixture
def scene() -> Scene:
    return Scene()
