"""Docstrings begin with a verb or a noun, and sentences of docstrings and comments are short.

`python tests/test_prose.py vkcompute/jit` lists each finding of the folders or files that it names.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.pure

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "vkcompute"

MAX_WORDS = 30  # of a sentence

RELATIVE_WORDS = frozenset(
    "how however such that these those what whatever when whenever where wherever whether which whichever who whoever"
    " whom whose why".split()
)
CODE_SPAN = re.compile(r"(`+)[^`]+\1")
SENTENCE_END = re.compile(r"(?<=[.!?…])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)[\"')\]]*\s+", re.IGNORECASE)
LIST_ITEM = re.compile(r"^(?:[-*•]|\d+[.)])\s")
SECTION = re.compile(r"[A-Z][\w ]*:$")  # "Args:", alone in its line
INDENT = 4  # of a section's items
SECTION_ITEM = re.compile(r"[\w*.`\"' ,()\[\]|/-]+:\s")  # "name: text", in a section
ROW = re.compile(r"^\s*\||\S {3,}\S")  # of a table: begins with "|", or has columns
PROMPT = ">>>"
GLUE = "\0"  # stands for a blank in a code span, which counts as one word


@dataclass(frozen=True)
class Text:
    """A docstring, or a comment of one or more lines."""

    line: int
    text: str
    is_docstring: bool


@dataclass(frozen=True)
class Finding:
    """A docstring or sentence that breaks a rule."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        beginning = " ".join(self.text.replace(GLUE, " ").split())
        beginning = beginning if len(beginning) <= 90 else beginning[:89] + "…"
        path = self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path
        return f"{path}:{self.line}: {beginning}"


@cache
def texts_of(path: Path) -> tuple[Text, ...]:
    """The docstrings of a file, then its comments."""
    return tuple(texts(path.read_text(encoding="utf-8")))


def texts(source: str) -> Iterator[Text]:
    """The docstrings of `source`, then its comments."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield Text(node.lineno, text, is_docstring=True)
    yield from comments(source)


def comments(source: str) -> Iterator[Text]:
    """The comments of `source`. Consecutive lines with nothing but a comment in the same column are one."""
    lines: list[str] = []
    start = end = column = -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        row, indent = token.start
        alone = not token.line[:indent].strip()
        if not (lines and alone and row == end + 1 and indent == column):
            if lines:
                yield Text(start, "\n".join(lines), is_docstring=False)
            lines, start = [], row
        lines.append(token.string.lstrip("#:").removeprefix(" "))
        end, column = row, indent if alone else -1
    if lines:
        yield Text(start, "\n".join(lines), is_docstring=False)


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """The paragraphs and items of `text`, each with the number of its first line. Skips code and tables."""
    lines: list[str] = []
    start, after_blank, after_colon, in_code = 0, False, False, False
    for number, line in enumerate(dedented(text)):
        stripped, indent = line.strip(), len(line) - len(line.lstrip())
        if not stripped:
            after_blank = True
            continue
        in_code = indent > 0 and (in_code or (after_blank and after_colon))
        is_skipped = in_code or stripped.startswith(PROMPT) or ROW.search(line) or SECTION.match(stripped)
        is_item = LIST_ITEM.match(stripped) or (indent == INDENT and SECTION_ITEM.match(stripped))
        if lines and (after_blank or is_skipped or is_item):
            yield start, "\n".join(lines)
            lines = []
        if not is_skipped:
            start = start if lines else number
            lines.append(LIST_ITEM.sub("", stripped, count=1))
        after_blank, after_colon = False, stripped.endswith(":")
    if lines:
        yield start, "\n".join(lines)


def dedented(text: str) -> list[str]:
    """The lines of a docstring or comment without their common indentation, as `inspect.cleandoc` counts it."""
    first, *rest = text.expandtabs().split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in rest if line.strip()), default=0)
    return [first.lstrip(), *(line[margin:] for line in rest)]


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """The sentences of `text`, with the numbers of the lines that they begin in."""
    for start, paragraph in paragraphs(text):
        glued = CODE_SPAN.sub(lambda span: re.sub(r"[ \t]", GLUE, span[0].replace("\n", GLUE)), paragraph)
        begin = 0
        for end in [*(result.start() for result in SENTENCE_END.finditer(glued)), len(glued)]:
            sentence = glued[begin:end]
            lead = len(sentence) - len(sentence.lstrip())
            if sentence.strip():
                yield start + glued.count("\n", 0, begin + lead), sentence.strip()
            begin = end


def relative_openings(path: Path) -> list[Finding]:
    """The docstrings of a file that begin with a relative word."""
    return [
        Finding(path, text.line, text.text)
        for text in texts_of(path)
        if text.is_docstring and re.split(r"\W", text.text.lstrip("\"'*( \n"), maxsplit=1)[0].lower() in RELATIVE_WORDS
    ]


def long_sentences(path: Path) -> list[Finding]:
    """The sentences of a file's docstrings and comments that have more than MAX_WORDS words."""
    return [
        Finding(path, text.line + line, f"[{n_words} words] {sentence}")
        for text in texts_of(path)
        for line, sentence in sentences(text.text)
        if (n_words := len(sentence.split())) > MAX_WORDS
    ]


def files(folder: Path) -> list[Path]:
    return [folder] if folder.is_file() else sorted(folder.rglob("*.py"))


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    findings = [str(finding) for path in files(PACKAGE) for finding in relative_openings(path)]
    assert findings == [], "docstrings that begin with a relative word"


def test_sentences_are_short() -> None:
    findings = [str(finding) for path in files(PACKAGE) for finding in long_sentences(path)]
    assert findings == [], f"sentences of more than {MAX_WORDS} words"


def test_words_are_counted_by_sentence_and_item() -> None:
    text = """Copies `a + b` to `out`. Waits, e.g. for
    a queue.

    Args:
        n: a count. Of two
            lines.
        m (int): another

    - an item
    - one more:

        code that is skipped
    """
    assert [(line, len(sentence.split())) for line, sentence in sentences(text)] == [
        (0, 4), (0, 5), (4, 3), (4, 3), (6, 3), (8, 2), (9, 2)
    ]  # fmt: skip


def test_comments_in_one_column_are_one() -> None:
    source = "# one\n# two\nx = 1  # three\n# four\nif x:\n    # five\n    pass\n"
    assert [text.text for text in comments(source)] == ["one\ntwo", "three", "four", "five"]


if __name__ == "__main__":
    for named in sys.argv[1:] or [str(PACKAGE)]:
        for source_file in files(Path(named).resolve()):
            for finding in [*relative_openings(source_file), *long_sentences(source_file)]:
                print(finding)
