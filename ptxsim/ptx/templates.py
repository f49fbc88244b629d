"""Kernel templates in a CUDA source, for telling why nvcc made no code of one.

explain(Path("mine.cu"), "tiled<128, 8>")
# mine.cu:12: nothing instantiates the template tiled<BM, TM>, so there is no code of it; add ...
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import PtxError

HIDDEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?m:^[ \t]*#(?:\\\n|[^\n])*)', re.S)
ATTRIBUTE = re.compile(
    r"\b(__launch_bounds__|__cluster_dims__|__block_size__|__attribute__|__maxnreg__)\s*\("
)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">\n]+)[">]', re.M)
NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Template:
    """A `template <...> __global__` function as it stands in the source."""

    name: str
    line: int
    parameters: tuple[str, ...]
    # `signature` reaches from what the kernel returns to the closing bracket, on one line.
    signature: str
    defaulted: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.name}<{', '.join(self.parameters)}>"

    def instantiation(self, arguments: str | None) -> str:
        """Return the line that makes code of it, for arguments as the source would have them ("128,
        8"); None: for its parameters' names, to be replaced.
        """
        values = split_list(arguments) if arguments else list(self.parameters)
        signature = self.signature
        if len(values) == len(self.parameters):
            for parameter, value in zip(self.parameters, values, strict=True):
                plain = value.replace("\\", r"\\")
                signature = re.sub(rf"\b{parameter}\b", plain, signature)
        named = f"{self.name}<{', '.join(values)}>("
        return f"template {signature.replace(f'{self.name}(', named, 1)};"


def split_list(text: str) -> list[str]:
    """Split a list at the commas that are outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += letter in "<([{"
        depth -= letter in ">)]}"
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def closing(text: str, start: int, opening: str, end: str) -> int:
    """Return the place after the bracket that closes the one at `start`; the text's end where none
    does.
    """
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == opening) - (text[at] == end)
        if not depth:
            return at + 1
    return len(text)


def kernel_templates(source: str) -> list[Template]:
    """Return the templates of kernels that a source defines, in order."""
    text = HIDDEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source)
    templates = []
    for start in re.finditer(r"\btemplate\s*<", text):
        end = closing(text, start.end() - 1, "<", ">")
        head = re.match(r"\s*(?:[^;{}(]|\((?:[^()]|\([^()]*\))*\))*", text[end:])
        declaration = " ".join((head[0] if head else "").split())
        if "__global__" not in declaration:
            continue
        plain = ATTRIBUTE.sub("<", declaration)
        name = next((m[1] for m in re.finditer(r"([A-Za-z_]\w*)\s*\(", plain)), None)
        if name is None:
            continue
        at = re.search(rf"\b{name}\s*\(", declaration)
        assert at
        signature = declaration[: closing(declaration, at.end() - 1, "(", ")")]
        signature = re.sub(rf"\b{name}\s+\(", f"{name}(", signature)
        signature = re.sub(r"\b(static|inline|extern)\s+", "", signature)
        parameters, defaulted = [], []
        for parameter in split_list(text[start.end() : end - 1]):
            declarator, default, _ = parameter.partition("=")
            pointer = re.search(r"\(\s*[*&]+\s*(\w+)\s*\)", declarator)
            names = [pointer[1], pointer[1]] if pointer else NAME.findall(declarator)
            parameters.append(names[-1] if len(names) > 1 else "")
            defaulted += parameters[-1:] if default else []
        line = text.count("\n", 0, start.start()) + 1
        templates.append(Template(name, line, tuple(parameters), signature, tuple(defaulted)))
    return templates


def sources(path: Path, folders: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Yield a file and what it includes, directly or not, from its own folder or from these, each
    with its text.
    """
    left, seen = [path], set()
    while left:
        file = left.pop(0)
        if file.resolve() in seen:
            continue
        seen.add(file.resolve())
        try:
            text = file.read_text(errors="replace")
        except OSError:
            continue
        yield file, text
        for name in INCLUDE.findall(text):
            candidates = (folder / name for folder in (file.parent, *folders))
            left += [candidate for candidate in candidates if candidate.is_file()][:1]


def explain(path: Path, entry: str | None, folders: Sequence[Path] = ()) -> PtxError | None:
    """Why nvcc made no code of an entry: a template that nothing instantiates, in the file or in
    what it includes from its own folder or from `folders`. None: there is no template of that
    name."""
    templates = [(file, t) for file, text in sources(path, folders) for t in kernel_templates(text)]
    wanted, _, rest = (entry or "").partition("<")
    wanted = wanted.strip().rpartition("::")[2]
    fitting = [(f, t) for f, t in templates if t.name == wanted] or [
        (f, t) for f, t in templates if wanted in t.name
    ]
    if not fitting:
        return None
    file, first = fitting[0]
    arguments = rest.rpartition(">")[0].strip() if ">" in rest else None
    line = first.instantiation(arguments)
    free = "" if arguments else f" (with values for {', '.join(filter(None, first.parameters))})"
    return PtxError(
        f"{file.name}:{first.line}: nothing instantiates the template {first.title}"
        f"{f' as {entry}' if arguments else ''}, so there is no code of it; add to {path.name} the line{free}: {line}"
    )
