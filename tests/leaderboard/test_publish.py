"""A site replaces only a former site, and nothing is lost when something goes wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmark.errors import UserError
from leaderboard.render.publish import MARKER, check_target, publish

PAGES = {"index.html": "new", "tasks/a.html": "a"}


@pytest.fixture
def former(tmp_path: Path) -> Path:
    """A site with a page that no longer exists and a file that no site writes."""
    out = tmp_path / "site"
    publish({"index.html": "old", "tasks/gone.html": "gone"}, out)
    (out / ".nojekyll").write_text("")
    (out / ".git").mkdir()
    (out / ".git" / "HEAD").write_text("ref")
    return out


def test_a_new_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    publish(PAGES, tmp_path / "deep" / "site")
    assert (tmp_path / "deep" / "site" / "tasks" / "a.html").read_text() == "a"
    assert (tmp_path / "deep" / "site" / MARKER).is_file()
    assert (tmp_path / "deep" / "site").stat().st_mode & 0o055 == 0o055  # a web server may read it


def test_a_former_site_is_replaced_and_foreign_files_stay(former: Path) -> None:
    check_target(former, former.parent / "results")
    publish(PAGES, former)
    assert (former / "index.html").read_text() == "new"
    assert not (former / "tasks" / "gone.html").exists()
    assert (former / ".nojekyll").exists()
    assert (former / ".git" / "HEAD").read_text() == "ref"
    assert [entry.name for entry in former.parent.iterdir()] == ["site"]


def test_an_empty_folder_is_fine(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    check_target(tmp_path / "site", tmp_path / "results")
    publish(PAGES, tmp_path / "site")
    assert (tmp_path / "site" / "index.html").is_file()


def test_a_foreign_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="not a former site"):
        check_target(tmp_path, tmp_path.parent / "results")
    assert (tmp_path / "thesis.tex").exists()


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "site").write_text("")
    with pytest.raises(UserError, match="is a file"):
        check_target(tmp_path / "site", tmp_path / "results")


def test_a_folder_that_holds_the_results_is_refused(former: Path) -> None:
    for results in (former, former / "results"):
        with pytest.raises(UserError, match="holds the results"):
            check_target(former, results)


def test_a_failed_write_leaves_everything(former: Path) -> None:
    with pytest.raises(UserError, match="Cannot write"):
        publish({"index.html": "new", "index.html/below.html": "impossible"}, former)
    assert (former / "index.html").read_text() == "old"
    assert [entry.name for entry in former.parent.iterdir()] == ["site"]


def test_a_failed_swap_puts_the_former_site_back(
    former: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def refuse_fresh(self: Path, target: Path) -> Path:
        if self.name == "fresh":
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse_fresh)
    with pytest.raises(KeyboardInterrupt):
        publish(PAGES, former)
    assert (former / "index.html").read_text() == "old"
    assert (former / ".git" / "HEAD").exists()
    assert [entry.name for entry in former.parent.iterdir()] == ["site"]
