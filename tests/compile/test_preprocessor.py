"""Includes and defines: the oracle is a reader of #line directives that knows nothing of includes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkcompute.compilers.preprocessor import MAIN, SourceFile, TranslationUnit, preprocess, read
from vkcompute.errors import CompileError

pytestmark = pytest.mark.pure


def unit_of(text: str, folder: Path | None = None, **options: object) -> TranslationUnit:
    return preprocess(SourceFile("main", text), None if folder is None else str(folder), **options)  # type: ignore[arg-type]


def places(unit: TranslationUnit) -> dict[str, list[tuple[str, int]]]:
    """File and line of each line for a compiler: `#line N F` sets those of the next line (GLSL 4.60, section 3.4)."""
    results: dict[str, list[tuple[str, int]]] = {}
    number, line = MAIN, 1
    for text in unit.text.split("\n"):
        directive = re.fullmatch(r"#line (\d+) (\d+)", text)
        if directive:
            line, number = int(directive[1]), int(directive[2])
            continue
        if text.startswith("mark"):
            results.setdefault(text, []).append((Path(unit.files[number].name).name, line))
        line += 1
    return results


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@st.composite
def trees(draw: st.DrawFn) -> dict[str, str]:
    """Files f0 to fn, each of which includes only later ones, with every line unique."""
    count = draw(st.integers(1, 5))
    files = {}
    for i in range(count):
        lines = []
        for j in range(draw(st.integers(0, 6))):
            kind = draw(st.sampled_from(["mark", "mark", "blank", "include"]))
            if kind == "include" and i + 1 < count:
                opened, closed = draw(st.sampled_from([('"', '"'), ("<", ">")]))
                comment = draw(st.sampled_from(["", " // why", " /* why */"]))
                lines.append(f"  # include {opened}f{draw(st.integers(i + 1, count - 1))}{closed}{comment}")
            elif kind == "blank":
                lines.append(
                    draw(st.sampled_from(["", "/* a */", "// /*", '// #include "f0"', '/*\n#include "f0"\n*/', '"/*"']))
                )
            else:
                lines.append(f"mark {i} {j}")
        if draw(st.booleans()):
            lines.insert(0, "#pragma once")
        files[f"f{i}"] = "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n"]))
    return files


@given(files=trees(), version=st.sampled_from(["", "#version 450\n", "// c\n\n#version 460 core // c\n"]))
def test_every_line_keeps_its_place(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, str], version: str
) -> None:
    folder = tmp_path_factory.mktemp("tree")
    files["f0"] = version + files["f0"]
    write(folder, files)
    unit = preprocess(SourceFile("f0", files["f0"]), str(folder), {"A": 1, "B": "x y"})
    expected = {
        line: (name, i)
        for name, text in files.items()
        for i, line in enumerate(text.split("\n"), 1)
        if line.startswith("mark")
    }
    for line, result in places(unit).items():
        assert set(result) == {expected[line]}
    assert {line for line in expected if line.startswith("mark 0")} <= set(places(unit))
    assert not unit.failures


def test_a_text_without_version_gets_one_and_keeps_its_line_numbers() -> None:
    assert unit_of("mark\nmark b").text == "#version 460\n#line 1 0\nmark\nmark b\n"


@pytest.mark.parametrize("before", ["", "// #version 100\n", "/* #version 100\n*/\n\n", " "])
def test_an_own_version_stays_first_and_defines_follow_it(before: str) -> None:
    unit = unit_of(f"{before}#version 450 core /* long\ncomment */\nmark\n", defines={"A": 1})
    assert [line for line in unit.text.split("\n") if "#version 4" in line] == [
        f"{before.split(chr(10))[-1]}#version 450 core "
    ]
    assert unit.text.index("#version 450") < unit.text.index("#define A 1") < unit.text.index("/* long")
    assert places(unit) == {"mark": [("main", before.count("\n") + 3)]}


@pytest.mark.parametrize(
    "text",
    [
        '// #include "x"',
        '/*\n#include "x"\n*/',
        'int a; // c \\\n#include "x"',
        '"a\\"" // #include "x"',
        '#includes "x"',
        "#include x",
    ],
)
def test_what_is_no_include_is_left_alone(text: str) -> None:
    unit = unit_of(text)
    assert unit.text.endswith(text + "\n")
    assert unit.failures == {}


def test_a_comment_that_only_looks_open_hides_nothing(tmp_path: Path) -> None:
    write(tmp_path, {"x": "mark x\n"})
    text = '// /*\n#include "x"\n"/*"\n#include "x"\n/* // */\n#include <x>\n'
    assert places(unit_of(text, tmp_path)) == {"mark x": [("x", 1)] * 3}


def test_where_includes_are_looked_for(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "own/a.glsl": '#include "b.glsl"\n#include "c.glsl"\n#include <d.glsl>\n',
            "own/b.glsl": "mark own\n",
            "first/b.glsl": "mark first b\n",
            "first/c.glsl": "mark first c\n",
            "second/c.glsl": "mark second c\n",
            "second/d.glsl": "mark second d\n#include <sub/../e.glsl>\n",
            "second/e.glsl": "mark second e\n",
        },
    )
    dirs = [tmp_path / "first", str(tmp_path / "second")]
    unit = unit_of('#include "own/a.glsl"', tmp_path, include_dirs=dirs)
    assert list(places(unit)) == ["mark own", "mark first c", "mark second d", "mark second e"]
    absolute = unit_of(f'#include "{tmp_path / "own" / "b.glsl"}"')
    assert list(places(absolute)) == ["mark own"]


def test_an_include_that_is_missing_is_an_error_only_where_it_stands(tmp_path: Path) -> None:
    write(tmp_path, {"folder.glsl/x": ""})
    unit = unit_of(
        '#ifdef NEVER\n#include "a.glsl"\n#endif\n#include <folder.glsl>\n', tmp_path, include_dirs=["/no/such"]
    )
    assert [*unit.failures.values()] == [
        f"cannot find the include 'a.glsl'; searched {tmp_path}, /no/such",
        f"cannot find the include 'folder.glsl'; searched {tmp_path}, /no/such",
    ]
    first, second = unit.failures
    assert unit.text.index("NEVER") < unit.text.index(f"#error {first}") < unit.text.index("#endif")
    assert f"#endif\n#error {second}\n" in unit.text


def test_a_text_has_no_folder_of_its_own() -> None:
    (message,) = unit_of('#include "a.glsl"').failures.values()
    assert "include_dirs" in message
    (message,) = unit_of('#include "/no/such.glsl"').failures.values()
    assert message == "cannot find the include '/no/such.glsl'"


@pytest.mark.parametrize("guard", ["#pragma once\n", "// c\n/* c\n*/\n#ifndef A_H\n#define A_H\n#endif\n"])
def test_a_guarded_circle_ends(tmp_path: Path, guard: str) -> None:
    write(
        tmp_path, {"a": f'{guard}#include "b"\nmark a\n', "b": f'{guard.replace("A_H", "B_H")}#include "a"\nmark b\n'}
    )
    unit = unit_of('#include "a"', tmp_path)
    assert unit.failures == {}
    assert list(places(unit)) == ["mark b", "mark a"]


@pytest.mark.parametrize("banner", ["/" * 80, "// " * 400, "/* a */ " * 300, "//\n" * 300, " \n" * 300])
def test_a_banner_before_a_circle_costs_no_time(tmp_path: Path, banner: str) -> None:
    write(tmp_path, {"a": f'{banner}\n#include "a"\n', "b": f'{banner}\n#ifndef B\n#define B\n#include "b"\n#endif\n'})
    (circle,) = unit_of('#include "a"', tmp_path).failures.values()
    assert "circular include" in circle
    assert unit_of('#include "b"', tmp_path).failures == {}


def test_an_unguarded_circle_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"a": '#include "b"\n', "b": '#include "a"\n', "self": '#include "self"\n'})
    (circle,) = unit_of('#include "a"', tmp_path).failures.values()
    assert f"{tmp_path / 'a'} -> {tmp_path / 'b'} -> {tmp_path / 'a'}" in circle
    assert "#pragma once" in circle
    (circle,) = unit_of('#include "self"', tmp_path).failures.values()
    assert f"{tmp_path / 'self'} -> {tmp_path / 'self'}" in circle


def test_includes_that_grow_without_end_are_stopped(tmp_path: Path) -> None:
    write(tmp_path, {f"f{i}": f'#include "f{i + 1}"\n#include "f{i + 1}"\n' for i in range(30)})
    write(tmp_path, {"f30": "x" * 1000})
    with pytest.raises(CompileError, match="16 MiB"):
        unit_of('#include "f0"', tmp_path)
    write(tmp_path, {f"g{i}": f'#include "g{i + 1}"\n' for i in range(2000)})
    (message,) = unit_of('#include "g0"', tmp_path).failures.values()
    assert "deep" in message


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_and_byte_order_marks(tmp_path: Path, end: str) -> None:
    path = tmp_path / "x.comp"
    path.write_bytes(b"\xef\xbb\xbf" + f"#version 450{end}mark{end}".encode())
    unit = preprocess(read(path), str(tmp_path))
    assert unit.text.startswith("#version 450\n")
    assert places(unit) == {"mark": [("x.comp", 2)]}
    assert places(unit_of(f"#version 450{end}mark{end}")) == {"mark": [("main", 2)]}


def test_what_is_not_text_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="main:2: a NUL"):
        unit_of("a\n\0")
    with pytest.raises(CompileError, match=r"main:3: .*a lone surrogate"):
        unit_of("a\n\n\ud800")
    (tmp_path / "latin").write_bytes("mark é".encode("latin-1"))
    with pytest.raises(CompileError, match="latin is not UTF-8 text: byte 5 is 0xe9"):
        unit_of('#include "latin"', tmp_path)
    (tmp_path / "nul").write_bytes(b"\0")
    with pytest.raises(CompileError, match="nul:1: a NUL"):
        unit_of('#include "nul"', tmp_path)


@pytest.mark.parametrize(
    ("value", "written"),
    [(None, "1"), (True, "1"), (False, "0"), (3, "3"), (-2, "-2"), (1.5, "1.5"), ("float", "float"), ("", "")],
)
def test_values_of_defines(value: str | int | float | bool | None, written: str) -> None:
    assert f"#define NAME {written}\n" in unit_of("", defines={"NAME": value}).text


@pytest.mark.parametrize("name", ["", "1A", "A B", "A(x)", "A\n#error", "A=1", "é", "A\n"])
def test_names_of_defines(name: str) -> None:
    with pytest.raises(ValueError, match="define's name is"):
        unit_of("", defines={name: 1})


@pytest.mark.parametrize("value", ["a\n#error", "a\rb", "a\\", "\0"])
def test_a_define_is_one_line(value: str) -> None:
    with pytest.raises(ValueError, match="one line"):
        unit_of("", defines={"A": value})


def test_the_text_does_not_depend_on_where_the_files_lie(tmp_path: Path) -> None:
    """The hashes in the manifest are of the text: they have to agree between machines."""
    files = {
        "m.comp": '#include "a"\n#include "b"\n',
        "a": "#pragma once\nmark a\n",
        "b": '#include "a"\n#include "no"\n',
    }
    texts = set()
    for place in ("here", "there/deeper"):
        write(tmp_path / place, files)
        texts.add(preprocess(read(tmp_path / place / "m.comp"), str(tmp_path / place)).text)
    assert len(texts) == 1
