"""The page on versions names exactly those that are built, and exactly the tests that run on them."""

import re
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "compatibility.md").read_text()
MODULES = PROJECT / "tests" / "realkube"
KUBERNETES = re.compile(r"^\tk8s\.io/kubernetes (\S+)$", re.MULTILINE)


def built(modules: Path) -> str:
    found = KUBERNETES.search(modules.read_text())
    assert found is not None
    return found[1]


def variable(name: str) -> list[str]:
    """The words of a variable of the Makefile."""
    text = (PROJECT / "Makefile").read_text().replace("\\\n", " ")
    found = re.search(rf"^{name} \S?= (.*)$", text, re.MULTILINE)
    assert found is not None
    return found[1].split()


def versions() -> list[str]:
    return re.findall(r"^\| (v[\d.]+) \|", PAGE, re.MULTILINE)


def test_the_table_has_the_versions_that_are_built() -> None:
    older = sorted((MODULES / "versions").glob("*.mod"), reverse=True)

    assert versions() == [built(each) for each in (MODULES / "go.mod", *older)]
    assert sorted(variable("KUBERNETES_VERSIONS")) == sorted(each.stem for each in older)


def test_the_readme_says_the_same_versions() -> None:
    readme = (PROJECT / "README.md").read_text()

    assert set(re.findall(r"\bv1\.\d\d\.\d+", readme)) == set(versions())


def test_the_page_names_the_tests_that_run_on_them() -> None:
    cells = re.findall(r"^\| (`test_.*?) \|", PAGE, re.MULTILINE)
    named = re.findall(r"`test_(\w+)`", " ".join(cells))

    assert sorted(named) == sorted(variable("VERSIONS_TESTS"))
