"""What a port promises, one sentence each, which the real adapter and the fake both must make true."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Outside = TypeVar("Outside")
Sentence = Callable[[Outside], Awaitable[None]]


class Sentences(Generic[Outside]):
    """Decorates each of a module's sentences. Attributes: bodies: in their order. names: of these, for test ids."""

    def __init__(self) -> None:
        self.bodies: list[Sentence[Outside]] = []
        self.names: list[str] = []

    def __call__(self, body: Sentence[Outside]) -> Sentence[Outside]:
        self.bodies.append(body)
        self.names.append(body.__name__)  # type: ignore[attr-defined]
        return body
