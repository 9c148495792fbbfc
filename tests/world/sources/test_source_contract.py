"""What a person reads when a reader is not installed."""

import sys

import pytest

from sanderling.errors import UserError
from sanderling.world.sources.registry import open_source


@pytest.mark.parametrize(
    ("name", "package"), [("a.warc", "fastwarc"), ("a.zim", "libzim"), ("pages-articles.xml", "mwparserfromhell")]
)
def test_a_missing_reader_is_one_sentence(tmp_path, monkeypatch, name, package):
    (tmp_path / name).write_bytes(b"<mediawiki")
    for module in list(sys.modules):
        if module.partition(".")[0] == package:
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"needs {package}.*pip install '\.\[world\]'"):
        open_source(tmp_path / name)
