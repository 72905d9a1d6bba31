"""Java properties, compared with what Java itself makes of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.context.layer import Origin, OriginKind
from seamark.context.properties import MalformedEscapeError, parse_properties, read_properties
from seamark.errors import ConfigurationError

JAVA = """\
import java.io.*; import java.nio.file.*; import java.util.*;
public class Load {
  public static void main(String[] files) throws Exception {
    for (String file : files) {
      Properties found = new Properties();
      try (Reader in = Files.newBufferedReader(Path.of(file))) { found.load(in); }
      catch (IllegalArgumentException e) { System.out.println("malformed"); continue; }
      StringBuilder out = new StringBuilder();
      for (String key : new TreeSet<>(found.stringPropertyNames()))
        for (String text : new String[] {key, found.getProperty(key)}) {
          for (char c : text.toCharArray()) out.append((int) c).append(' ');
          out.append(';');
        }
      System.out.println(out);
    }
  }
}
"""

TRICKY = [
    "a=1\nb:2\nc 3\nd\t=\t4\n  e  :  5  \n",
    "# comment\n! comment \\\nkey=value\n",
    "key=one, \\\n    two, \\\n\tthree\n",
    "key=one\\\\\nnext=2\n",
    "key=one\\\n\nnext=2\n",
    "key=\\u0041\\u00e9\\ud83d\\ude00\n",
    "k\\=e\\:y\\ s = v\\=a\\:l\n",
    "empty=\nnothing\n=no key\n",
    "twice=1\ntwice=2\n",
    "tab=a\\tb\\nc\\rd\\fe\\qf\n",
    "cr=1\rcrlf=2\r\nlf=3\n",
    "a=b\\",
    "sep==x\nsep2 = = y\nsep3:=z\n",
    "line=\u2028not a line end\n",
    "bad=\\u00g0\n",
    "bad=\\u12",
    "\\\n# a comment after a lone backslash\nkey=1\n",
    "é=ü\n😀=😀\n",
    "\x0ckey\x0c=\x0cvalue\n",
    "#=1\n\\#=2\n !x=3\n",
]


def escape(text: str, *, is_key: bool) -> str:
    """What java.util.Properties.store writes for a text."""
    out = []
    for position, char in enumerate(text):
        if char == " " and (is_key or position == 0):
            out.append("\\ ")
        elif char in "\t\n\r\f":
            out.append({"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}[char])
        elif char in "=:#!\\":
            out.append("\\" + char)
        elif 0x20 <= ord(char) <= 0x7E:
            out.append(char)
        else:
            units = char.encode("utf-16-be")
            out += [f"\\u{units[i]:02X}{units[i + 1]:02X}" for i in range(0, len(units), 2)]
    return "".join(out)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(st.dictionaries(TEXT.filter(bool), TEXT, max_size=6), st.sampled_from(["\n", "\r", "\r\n"]))
def test_what_java_would_write_is_read_back(entries: dict[str, str], line_end: str) -> None:
    lines = ["#Sun Nov 15 00:00:00 UTC 2026"]
    lines += [f"{escape(key, is_key=True)}={escape(value, is_key=False)}" for key, value in entries.items()]
    found = parse_properties(line_end.join([*lines, ""]))
    assert {entry.key: entry.value for entry in found} == entries
    assert [entry.line for entry in found] == list(range(2, len(entries) + 2))


@given(st.text(st.sampled_from("ab=: \t\f\\\n\r#!u0041é"), max_size=60))
def test_any_text_is_read_or_refused_by_name(text: str) -> None:
    try:
        lines = [entry.line for entry in parse_properties(text)]
    except MalformedEscapeError as error:
        lines = [error.line]
    last = text.count("\n") + text.count("\r") + 1
    assert all(1 <= line <= last for line in lines)
    assert lines == sorted(lines)


def test_java_itself_reads_the_same(tmp_path: Path) -> None:
    (tmp_path / "Load.java").write_text(JAVA)
    files = []
    for number, text in enumerate(TRICKY):
        file = tmp_path / f"{number}.properties"
        file.write_bytes(text.encode())
        files.append(file.name)
    # The cheap compiler only: this program lives for a second.
    command = ["java", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8", "Load.java", *files]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [as_java(text) for text in TRICKY]


def as_java(text: str) -> str:
    try:
        found = {entry.key: entry.value for entry in parse_properties(text)}
    except MalformedEscapeError:
        return "malformed"
    ordered = sorted(found.items(), key=lambda entry: entry[0].encode("utf-16-be"))
    return "".join(_units(part) + ";" for entry in ordered for part in entry)


def _units(text: str) -> str:
    raw = text.encode("utf-16-be")
    return "".join(f"{int.from_bytes(raw[i : i + 2])} " for i in range(0, len(raw), 2))


def test_lines_are_those_where_a_key_starts() -> None:
    found = parse_properties("# one\na=1\n\nb=x\\\n  y\\\n  z\nc=3\n")
    assert [(entry.key, entry.value, entry.line) for entry in found] == [("a", "1", 2), ("b", "xyz", 4), ("c", "3", 7)]


def read(path: Path) -> dict[str, str]:
    found = read_properties(path, origin=Origin(OriginKind.WORKER, path.name, path=path))
    return {key: entry.value for key, entry in found.items()}


def test_utf8_is_tried_first_and_latin1_is_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "w.properties"
    path.write_bytes("name=Zoë\n".encode())
    assert read(path) == {"name": "Zoë"}
    path.write_bytes("name=Zoë\n".encode("latin-1"))
    assert read(path) == {"name": "Zoë"}
    path.write_bytes(b"\xef\xbb\xbfname=1\n")
    assert read(path) == {"name": "1"}


def test_a_malformed_escape_names_file_and_line_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "w.properties"
    path.write_text("a=1\npassword=hunter2\\u00zz\n")
    with pytest.raises(ConfigurationError) as caught:
        read(path)
    assert caught.value.cause.startswith("w.properties:2: ")
    assert "hunter2" not in str(caught.value.as_dict())
    assert caught.value.__context__ is None


def test_a_file_that_is_not_there_or_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"w\.properties can't be read"):
        read(tmp_path / "w.properties")
    (tmp_path / "w.properties").write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(ConfigurationError, match="too large"):
        read(tmp_path / "w.properties")
