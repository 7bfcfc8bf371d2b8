"""Reads the source and holds it to the house's bounds, so that no review has to.

Modules stay short enough to read in one sitting, every one is reached from somewhere, names say what a thing
holds, and nothing unfinished or private to one machine is published.
"""

import ast
import re
import statistics
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
SOURCE = PROJECT / "src"
LINES_MAX = 500
LINES_MEDIAN_MAX = 200
FUNCTION_LINES_MAX = 70
# Names that say nothing about what is inside. Written in pieces so that this file does not trip over itself.
EMPTY_WORDS = {"util", "utils", "helper", "helpers", "manager", "managers", "misc", "common"}
# Kubernetes's own names for parts of the kubelet.
KUBELET_PARTS = re.compile(r"(topology|device|memory|cpu)_?manager", re.IGNORECASE)
MARKERS = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3, "HA" + "CK"]) + r")\b")
# What belongs to somebody's machine or workflow, not to the project.
PRIVATE = re.compile("|".join(["/wo" + "rk/", "/ho" + r"me/\w", "/ro" + "ot/", r"/Us" + r"ers/\w", r"\.lib" + "rary/"]))
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
TEXT_SUFFIXES = {".py", ".md", ".toml", ".sh", ".yaml", ".yml", ".go", ".mod", ".html", ".css", ".js", ".txt", ""}
NOT_OURS = {".git", ".venv", ".cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".import_linter_cache", "dist"}


def python_files() -> list[Path]:
    return sorted(path for path in project_files() if path.suffix == ".py")


def project_files() -> Iterator[Path]:
    """Walk the project without asking git, which a source archive does not have."""
    folders = [PROJECT]
    while folders:
        for path in sorted(folders.pop().iterdir()):
            if path.is_dir():
                if path.name not in NOT_OURS | {"__pycache__", "shared"} and not path.is_symlink():
                    folders.append(path)
            elif path.suffix in TEXT_SUFFIXES:
                yield path


def named(path: Path) -> str:
    return str(path.relative_to(PROJECT))


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imported_modules(path: Path) -> Iterator[str]:
    """Yield every module that a file may load: `from a import b` counts for both a and a.b."""
    package = module_name(path).split(".") if path.is_relative_to(SOURCE) else []
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def entry_points() -> set[str]:
    scripts: dict[str, str] = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["scripts"]
    return {target.partition(":")[0] for target in scripts.values()}


def reached_from(names: set[str], modules: dict[str, Path]) -> set[str]:
    reached: set[str] = set()
    ahead = set(names)
    while ahead:
        name = ahead.pop()
        reached.add(name)
        ahead |= {used for used in imported_modules(modules[name]) if used in modules} - reached
    return reached


def test_no_module_is_longer_than_one_sitting() -> None:
    long = {named(path): lines for path in python_files() if (lines := line_count(path)) > LINES_MAX}

    assert not long


def test_most_modules_are_short() -> None:
    sizes = [line_count(path) for path in python_files() if path.name != "__init__.py"]

    assert statistics.median(sizes) <= LINES_MEDIAN_MAX


def test_functions_fit_on_a_screen() -> None:
    long = [
        f"{named(path)}:{node.lineno} {node.name}: {lines} lines"
        for path in python_files()
        for node in functions(path)
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]

    assert not long


def test_every_module_opens_with_its_idea() -> None:
    silent = [named(path) for path in python_files() if not ast.get_docstring(parsed(path))]

    assert not silent


def test_every_module_is_reached_from_a_program() -> None:
    modules = {module_name(path): path for path in SOURCE.rglob("*.py")}
    run_as_such = (name for name, path in modules.items() if '__name__ == "__main__"' in path.read_text())
    reached = reached_from({*entry_points(), *run_as_such, "atoll.__main__"}, modules)

    # A package's __init__ is reached with any of its modules.
    dead = [named(path) for name, path in modules.items() if name not in reached and path.name != "__init__.py"]

    assert not dead


def test_names_say_what_a_thing_holds() -> None:
    vague = []
    for path in python_files():
        if EMPTY_WORDS & set(KUBELET_PARTS.sub("", path.stem.lower()).split("_")):
            vague.append(named(path))
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+", KUBELET_PARTS.sub("", node.name))}
                if EMPTY_WORDS & words:
                    vague.append(f"{named(path)}:{node.lineno} {node.name}")

    assert not vague


def test_nothing_is_left_for_later() -> None:
    assert not list(lines_with(MARKERS))


def test_nothing_names_a_private_machine() -> None:
    assert not list(lines_with(PRIVATE))


def test_links_in_the_documents_lead_somewhere() -> None:
    broken = [
        f"{named(path)}: {target}"
        for path in project_files()
        if path.suffix == ".md"
        for target in LINK.findall(path.read_text())
        if not re.match(r"[a-z]+:", target) and not (path.parent / target).exists()
    ]

    assert not broken


def test_the_map_of_folders_is_the_tree() -> None:
    mapped = re.findall(r"^\| `([\w.]+)` \|", (PROJECT / "ARCHITECTURE.md").read_text(), re.MULTILINE)

    package = SOURCE / "atoll"
    files = {path.name for path in package.glob("*.py") if not path.name.startswith("__")}
    inside = [path.relative_to(package).parts for path in package.rglob("*.*") if path.parent != package]
    folders = {parts[0] for parts in inside if "__pycache__" not in parts}
    assert sorted(mapped) == sorted(files | folders)


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE"])
def test_the_first_pages_are_there(page: str) -> None:
    assert (PROJECT / page).is_file()


def test_every_decision_record_has_its_own_number() -> None:
    numbers = [path.name[:4] for path in (PROJECT / "docs" / "adr").glob("*.md")]

    assert len(numbers) == len(set(numbers))
    assert all(number.isdigit() for number in numbers)


def line_count(path: Path) -> int:
    return len(path.read_text().splitlines())


def lines_with(pattern: re.Pattern[str]) -> Iterator[str]:
    for path in project_files():
        if path.name in {"uv.lock", "go.sum"}:
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if pattern.search(line):
                yield f"{named(path)}:{number}: {line.strip()[:120]}"
