"""List the benchmarks and what each of them measures.

python -m benchmarks
"""

from __future__ import annotations

import ast
from pathlib import Path

_FOLDER = Path(__file__).parent


def benchmarks() -> dict[str, str]:
    """Return what each benchmark measures by its name: the first sentence of its docstring."""
    files = {path.stem: path for path in _FOLDER.glob("*.py") if not path.stem.startswith("__")}
    files |= {path.parent.name: path for path in _FOLDER.glob("*/__main__.py")}
    purposes = {}
    for name, path in sorted(files.items()):
        text = path.read_text(encoding="utf-8")
        if path.stem == "__main__" or '\nif __name__ == "__main__":' in text:
            purposes[name] = (ast.get_docstring(ast.parse(text)) or "").splitlines()[0]
    return purposes


def main() -> None:
    """Print the list."""
    print("Run from the checkout; `--help` after a command lists its options.\n")
    for name, purpose in benchmarks().items():
        print(f"python -m benchmarks.{name}\n    {purpose}")


if __name__ == "__main__":
    main()
