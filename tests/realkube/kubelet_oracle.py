"""The kubelet's real device manager and Topology Manager as a program that answers one question a line.

It writes where a kubelet would, so it runs in a mount namespace of its own with an empty /var/lib.
"""

import json
import subprocess
from types import TracebackType
from typing import Any, Self

from tests.realkube.binaries import binary

Json = dict[str, Any]
_APART = "mount -t tmpfs none /var/lib && mkdir /var/lib/kubelet && exec {}"


class KubeletOracle:
    """One process; questions are answered in order."""

    def __enter__(self) -> Self:
        program = ["unshare", "--map-root-user", "--mount", "sh", "-c", _APART.format(binary("kubelet-oracle"))]
        self._process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def ask(self, **question: object) -> Json:
        """The answer.

        Raises:
            AssertionError: the program ended, or refuses the question.
        """
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(f"the oracle ended: {self._process.communicate()[1][-2000:]}")
        answer: Json = json.loads(line)
        if answer.get("error"):
            raise AssertionError(f"the oracle refuses {question}: {answer['error']}")
        return answer
