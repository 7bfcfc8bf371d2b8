"""The kubelet's real device manager and Topology Manager, without a kubelet around them.

They write where a kubelet would, so they run in a mount namespace of their own with an empty /var/lib.
"""

from typing import Any

from tests.realkube.answering import Answering
from tests.realkube.binaries import binary

Json = dict[str, Any]
_APART = "mount -t tmpfs none /var/lib && mkdir /var/lib/kubelet && exec {}"


class KubeletOracle(Answering):
    def __init__(self) -> None:
        program = _APART.format(binary("kubelet-oracle"))
        super().__init__("unshare", "--mount", "sh", "-c", program)

    def ask(self, **question: object) -> Json:
        """The answer.

        Raises:
            AssertionError: the program ended, or refuses the question.
        """
        answer: Json = super().ask(**question)
        if answer.get("error"):
            raise AssertionError(f"the oracle refuses {question}: {answer['error']}")
        return answer
