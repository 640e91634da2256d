"""What `classify predict` says besides its predictions."""

from pathlib import Path

from rich.console import Console

from pipelines.classify.predict import say_unsearched


def test_folders_inside_a_folder_are_named_as_not_searched(tmp_path: Path) -> None:
    (tmp_path / "new" / "rose").mkdir(parents=True)
    (tmp_path / "new" / "a.png").touch()
    console = Console(record=True, width=200)
    say_unsearched([tmp_path / "new", tmp_path / "new" / "rose", tmp_path / "new" / "a.png"], console)
    (line,) = console.export_text().splitlines()
    assert f"folders inside {tmp_path / 'new'} are not searched; there are 1." in line
