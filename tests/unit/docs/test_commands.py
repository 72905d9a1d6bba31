"""Commands, options, files and Python calls that the documents name exist."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import typing
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import click
import pytest

from seamark.cli.main import root
from seamark.devstack import command as devstack
from seamark.fleet.fleet import Fleet

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "src" / "seamark"
# The changelog describes earlier states, too.
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md")
    for path in sorted(ROOT.glob(pattern))
    if path.name != "CHANGELOG.md"
}
BLOCK = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
OPERATORS = ("|", ">", ">>", "<", "&&", "||", "&", ";", "2>")
PATH = re.compile(r"(?<![\w./$~<-])((?:\.?[a-z][\w-]*/)+[\w.{},*-]*|[a-z_0-9]+\.py)(?![\w/-])")
# Folders of the journal's store, of a source topic and of technologies that the examples of placement would add.
PLACEHOLDERS = re.compile(r"NAME|NOUN|PACKAGE|HASH|/ID\.|/N$|^tables/(mariadb|iceberg)|^server/")


def read_command_lines(text):
    """Yield the command lines in the code blocks of a page. A block with prompts contains output, too."""
    for _, block in BLOCK.findall(text):
        lines = [line.strip() for line in re.sub(r"\\\n\s*", " ", block).splitlines()]
        if any(line.startswith("$ ") for line in lines):
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        yield from (line.removeprefix(".venv/bin/") for line in lines)


def read_spans(text):
    return re.findall(r"`([^`\n]+)`", BLOCK.sub("", text))


def split_words(line):
    """Return the words of one command, without the pipes and redirections after it."""
    words = shlex.split(line, comments=True)
    ends = [number for number, word in enumerate(words) if word in OPERATORS or word.startswith("<<")]
    return words[: min(ends, default=len(words))]


def check_command(words):
    """Parse a command line as Click does, without running it. Raises `click.UsageError` as Click does."""
    command, ctx = root, click.Context(root, info_name="seamark")
    while isinstance(command, click.Group):
        rest = parse_words(command, ctx, words)
        if not rest:
            return
        name, *words = rest
        found = command.get_command(ctx, name)
        if found is None:
            raise click.UsageError(f"no command {name}")
        command, ctx = found, click.Context(found, info_name=name, parent=ctx)
    if rest := parse_words(command, ctx, words):
        raise click.UsageError(f"unexpected {rest}")


def parse_words(command, ctx, words):
    """Check the options and arguments of one command, and return the words that it doesn't take."""
    values, rest, _ = command.make_parser(ctx).parse_args(list(words))
    for param in command.params:
        value = values.get(param.name)
        for one in value if isinstance(value, list | tuple) else [value]:
            if isinstance(param.type, click.Choice) and isinstance(one, str):
                param.type.convert(one, param, ctx)
    return rest


def find_option_names(words):
    """Return the options that the deepest command of these words has."""
    command, ctx = root, click.Context(root)
    names = {"-h", "--help"} | {name for param in root.params for name in (*param.opts, *param.secondary_opts)}
    for word in words:
        if not isinstance(command, click.Group) or word.startswith("-"):
            continue
        command = command.get_command(ctx, word)
        if command is None:
            raise click.UsageError(f"no command {word}")
        names |= {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    return names


@pytest.mark.parametrize("page", PAGES)
def test_command_lines_can_be_parsed(page):
    for line in read_command_lines(PAGES[page]):
        if line.startswith("seamark "):
            try:
                check_command(split_words(line)[1:])
            except click.UsageError as error:
                pytest.fail(f"{line}: {error.message}")


@pytest.mark.parametrize("page", PAGES)
def test_devstack_lines_can_be_parsed(page):
    for line in read_command_lines(PAGES[page]):
        command = re.sub(r'^eval "\$\((.*)\)"$', r"\1", line)
        if command.startswith("python -m seamark.devstack "):
            devstack._parser().parse_args(split_words(command)[3:])


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_the_text_exist_with_their_options(page):
    for span in read_spans(PAGES[page]):
        if re.match(r"seamark [a-z]", span):
            words = span.split()[1:]
            options = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", span))
            assert options - find_option_names(words) == set(), span


COMING = "docs/how-to/coming-from.md"


@pytest.mark.parametrize("span", [span for span in read_spans(PAGES[COMING]) if span.startswith("seamark ")])
def test_commands_for_users_of_other_tools_can_be_parsed(span):
    try:
        check_command(split_words(span)[1:])
    except click.UsageError as error:
        pytest.fail(f"{span}: {error.message}")


def test_enough_command_lines_are_found():
    lines = [line for text in PAGES.values() for line in read_command_lines(text)]
    assert sum(line.startswith("seamark ") for line in lines) > 200
    assert sum("-m seamark.devstack " in line for line in lines) > 10


@pytest.mark.parametrize(
    "line",
    [
        "seamark offsets mover x",
        "seamark offsets show --no-such-option x",
        "seamark -o xlm status",
        "seamark journal show a b",
        "seamark completion powershell",
    ],
)
def test_wrong_command_lines_are_found(line):
    with pytest.raises(click.UsageError):
        check_command(split_words(line)[1:])


def exists(path, page):
    bases = (ROOT, ROOT / "src", PACKAGE, (ROOT / page).parent)
    if "/" not in path and any(next((ROOT / top).rglob(path), None) for top in ("tests", "bench", "examples", "src")):
        return True
    return any((base / path).exists() for base in bases)


@pytest.mark.parametrize("page", PAGES)
def test_files_exist(page):
    known = {path.name for base in (ROOT, PACKAGE) for path in base.iterdir() if path.is_dir()}
    for span in read_spans(PAGES[page]):
        for path in (found.rstrip(".,") for found in PATH.findall(span)):
            if (path.endswith(".py") or path.split("/")[0] in known) and not PLACEHOLDERS.search(path):
                assert exists(path, page), span


def build_anchors(text):
    """Return the anchors of a page's headings, as GitHub builds them."""
    headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_linked_sections_exist(page):
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)#([^)]+)\)", PAGES[page]):
        linked = (ROOT / page).parent / target if target else ROOT / page
        assert anchor in build_anchors(linked.read_text(encoding="utf-8")), f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES)
def test_modules_that_are_run_exist(page):
    for name in re.findall(r"python -m ((?:tests|tools|bench|seamark)\b[\w.]*)", PAGES[page]):
        path = name.rstrip(".").replace(".", "/")
        files = [base / f"{path}{end}" for base in (ROOT, ROOT / "src") for end in (".py", "/__main__.py")]
        assert any(file.exists() for file in files), name


def read_programs():
    for page, text in PAGES.items():
        for language, block in BLOCK.findall(text):
            if language == "python":
                yield pytest.param(ast.parse(dedent(block)), id=f"{page}:{block.strip().splitlines()[0]}")


def find_member(names):
    """Return the member of `Fleet` that a chain of names leads to; None where its type is not annotated."""
    owner = Fleet
    for name in names[:-1]:
        member = inspect.getattr_static(owner, name)
        function = getattr(member, "fget", None) or getattr(member, "func", None)
        if function is None:
            return None
        owner = typing.get_type_hints(function, vars(import_module(function.__module__)) | find_types(function))[
            "return"
        ]
    return getattr(owner, names[-1])


def find_types(function):
    """Return the classes that a module imports for type annotations only."""
    tree = ast.parse(inspect.getsource(import_module(function.__module__)))
    return {
        alias.asname or alias.name: getattr(import_module(node.module), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("seamark.")
        for alias in node.names
    }


def list_names(node):
    """Return the names of `fleet.a.b` without `fleet`; None for other expressions."""
    names = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return names if isinstance(node, ast.Name) and node.id == "fleet" else None


def check_call(call):
    names = list_names(call.func)
    member = find_member(names) if names else None
    if member is not None:
        parameters = inspect.signature(member).parameters
        unknown = {keyword.arg for keyword in call.keywords} - set(parameters) - {None}
        assert unknown == set(), f"fleet.{'.'.join(names)}"


@pytest.mark.parametrize("program", list(read_programs()))
def test_python_imports_and_calls_exist(program):
    for node in ast.walk(program):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("seamark"):
            for alias in node.names:
                assert hasattr(import_module(node.module), alias.name), f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Call):
            check_call(node)


@pytest.mark.parametrize("page", PAGES)
def test_python_calls_in_the_text_exist(page):
    for span in read_spans(PAGES[page]):
        if match := re.fullmatch(r"fleet((?:\.[a-z_]+)+)(?:\((.*)\))?", span):
            member = find_member(match[1].split(".")[1:])
            keywords = set(re.findall(r"(\w+)=", match[2] or ""))
            if keywords:
                assert keywords <= set(inspect.signature(member).parameters), span


@pytest.mark.parametrize("call", ["fleet.topics.every()", "fleet.nothing.all()", "fleet.topics.list(big=True)"])
def test_wrong_python_calls_are_found(call):
    with pytest.raises((AttributeError, AssertionError)):
        check_call(ast.parse(call, mode="eval").body)
