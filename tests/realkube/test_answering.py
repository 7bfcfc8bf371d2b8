"""A program that several tests' threads ask at once gives each its own answer."""

import sys
from concurrent.futures import ThreadPoolExecutor

from tests.realkube.answering import Answering

ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"


def test_each_of_several_askers_gets_the_answer_to_its_own_question() -> None:
    with Answering(sys.executable, "-c", ECHO) as program, ThreadPoolExecutor(4) as askers:
        questions = [{"number": number} for number in range(2000)]
        assert list(askers.map(lambda question: program.ask(**question), questions)) == questions
