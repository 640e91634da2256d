"""Take the picture of docs/measure.md from the report of its example.

python docs/measure_picture.py evaluation/report.html
"""
# ruff: noqa: INP001 - a script, not a package

import base64
import re
import sys
from pathlib import Path

from data_prep.files.atomic import atomic_file

PICTURE = Path(__file__).parent / "images" / "measure.svg"


def main() -> None:
    """Write the figure of predicted against true numbers."""
    report = Path(sys.argv[1]).read_text(encoding="utf-8")
    (encoded,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)" alt="Predicted against true', report)
    with atomic_file(PICTURE) as temporary:
        temporary.write_bytes(base64.b64decode(encoded))


if __name__ == "__main__":
    main()
