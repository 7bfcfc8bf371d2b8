"""The page on the webhook: its commands are the program's, its kinds are those that are registered."""

from pathlib import Path

from atoll.adapters.kube import manifests_webhook
from atoll.core.asking import RULED
from tests.docs.test_readme import FENCE, must_be_taken

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "webhook.md").read_text()


def test_its_commands_are_taken_by_the_program() -> None:
    bodies = [body.replace("\\\n", " ") for language, body in FENCE.findall(PAGE) if language == "console"]
    lines = [line[2:].split("#")[0].split("|")[0] for body in bodies for line in body.splitlines()]
    calls = [line.split()[1:] for line in lines if line.startswith("atoll ")]

    registered = [["serve", "--cert-dir"], ["manifests", "webhook"]]
    assert [words[:2] for words in calls] == [["manifests", "rbac"], *registered, *registered]
    for words in calls:
        must_be_taken(words)


def test_the_kinds_that_it_names_are_registered_and_the_other_way_round() -> None:
    told = PAGE.partition("wherever these lie:")[2].partition(".")[0].lower().replace("\n", " ")

    for group, kinds in manifests_webhook.TEMPLATES.items():
        if group in {"apps", "batch", "jobset.x-k8s.io", "leaderworkerset.x-k8s.io"}:
            assert all(kind.removesuffix("s") in told for kind in kinds), group
        else:
            assert any(name in told for name in group.split(".")), group


def test_the_annotation_and_the_names_that_it_speaks_of_are_the_code_s() -> None:
    assert RULED in PAGE
    assert manifests_webhook.INJECT_FROM in PAGE
    assert f"called\n`{manifests_webhook.NAME}`" in PAGE
