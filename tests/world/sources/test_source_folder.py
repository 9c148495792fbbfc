"""Folders: order, addresses, links between files, and what is kept out."""

import os

import pytest

from sanderling.world.contract import Page
from sanderling.world.sources.base import Reason, Skipped
from sanderling.world.sources.folder import FolderSource

WORDS = "Some words about herring and the harbour of Orlo."


@pytest.fixture
def docs(tmp_path):
    root = tmp_path / "my docs"
    (root / "b").mkdir(parents=True)
    (root / "c.html").write_text(f'<title>C</title><p>{WORDS}<a href="b/">b</a> <a href="a%20(1).md#x">a</a>')
    (root / "a (1).md").write_text(f"# A\n\n{WORDS} [up](./b/index.html) [out](../../../etc/passwd)")
    (root / "b" / "index.html").write_text(f"<p>{WORDS}<a href='../c.html'>c</a>")
    (root / "b" / "n.TXT").write_text("# text")
    (root / "style.css").write_text("p {}")
    return root


def split(source: FolderSource) -> tuple[list[Page], dict[str, Reason]]:
    found = list(source.items())
    return [item for item in found if isinstance(item, Page)], {
        item.where: item.reason for item in found if isinstance(item, Skipped)
    }


def test_nothing_outside_is_read_and_nothing_hangs(docs, tmp_path):
    secret = tmp_path / "secret.md"
    secret.write_text("secret words")
    (tmp_path / "other").mkdir()
    (docs / "out.md").symlink_to(secret)
    (docs / "inside.md").symlink_to(docs / "c.html")
    (docs / "loop.md").symlink_to(docs / "loop.md")
    (docs / "broken.md").symlink_to(docs / "none.md")
    (docs / "around").symlink_to(docs)
    (docs / "elsewhere").symlink_to(tmp_path / "other")
    os.mkfifo(docs / "pipe.md")
    pages, skipped = split(FolderSource(docs))
    assert not any("secret" in page.text for page in pages)
    assert any(page.url.endswith("/inside.md") for page in pages)
    assert {name: skipped[name] for name in ("out.md", "around", "elsewhere", "pipe.md")} == {
        "out.md": Reason.LINK,
        "around": Reason.LINK,
        "elsewhere": Reason.LINK,
        "pipe.md": Reason.OTHER_KIND,
    }
    assert skipped["loop.md"] is skipped["broken.md"] is Reason.UNREADABLE
