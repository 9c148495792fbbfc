"""ZIM files that the tests write: articles, redirects, other kinds, damage."""

import pytest
from libzim.writer import Creator
from source_makers import Entry

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.sources.base import Limits, Reason, Skipped
from sanderling.world.sources.zim import ZimSource


@pytest.fixture
def zim(tmp_path):
    file = tmp_path / "little wiki.zim"
    with Creator(file).config_indexing(False, "en") as creator:
        creator.set_mainpath("Orlo_(town)")
        creator.add_item(Entry("Orlo_(town)", "<h1>Orlo</h1><p>A town.</p><a href='Old_name'>x</a><a href='none'>y</a>"))
        creator.add_item(Entry("Venn", "<title>Venn river</title><p>A river.</p><a href='./Orlo_%28town%29#top'>Orlo</a>"))
        creator.add_item(Entry("empty", "<p> </p>"))
        creator.add_item(Entry("long", "<p>" + "word " * 2_000))
        creator.add_item(Entry("style.css", "p {}", "text/css"))
        creator.add_redirection("Old_name", "Old name", "Venn", {})
    return file


def test_articles_with_links_through_redirects(zim):
    found = list(ZimSource(zim, limits=Limits(document_bytes=5_000)).items())
    pages = {item.url: item for item in found if isinstance(item, Page)}
    base = "local://little%20wiki/"
    assert list(pages) == [base + "Orlo_(town)", base + "Venn"]
    assert pages[base + "Orlo_(town)"].links == (base + "Venn", base + "none")
    assert pages[base + "Venn"].links == (base + "Orlo_(town)",)
    assert [page.title for page in pages.values()] == ["Orlo", "Venn river"]
    assert {item.where: item.reason for item in found if isinstance(item, Skipped)} == {
        "Old_name": Reason.REDIRECT,
        "empty": Reason.EMPTY,
        "long": Reason.TOO_LARGE,
        "style.css": Reason.OTHER_KIND,
    }


def test_the_base_is_the_callers(zim):
    found = [item.url for item in ZimSource(zim, "https://en.example/wiki").items() if isinstance(item, Page)]
    assert found[0] == "https://en.example/wiki/Orlo_(town)"


def test_paths_that_climb_lead_nowhere(tmp_path):
    with Creator(tmp_path / "t.zim").config_indexing(False, "en") as creator:
        creator.set_mainpath("../../etc/passwd")
        creator.add_item(Entry("../../etc/passwd", "<p>Words.<a href='../../../etc/shadow'>x</a><a href='a%00b'>y</a>"))
        creator.add_item(Entry("x\ny", "<p>More words."))
    pages = [item for item in ZimSource(tmp_path / "t.zim").items() if isinstance(item, Page)]
    assert [page.text for page in pages] == ["Words.[x](local://t/etc/shadow)[y](local://t/etc/a%00b)", "More words."]
    assert pages[1].url == "local://t/x%0Ay"


@pytest.mark.parametrize("share", [0.0, 0.2, 0.9])
def test_a_cut_file_is_one_sentence(zim, share):
    data = zim.read_bytes()
    zim.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(UserError, match="no ZIM file, or not a whole one"):
        ZimSource(zim)
    with pytest.raises(UserError, match="There is no file"):
        ZimSource(zim.with_name("none.zim"))
