"""MediaWiki dumps that the tests write: articles as Markdown, redirects, hostile XML, cuts."""

import bz2
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_makers import HEAD, element

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.sources.base import Limits, Reason, Skipped
from sanderling.world.sources.wikipedia import WikipediaSource, elements, nesting, read_wikitext

DUMP = (
    HEAD
    + "".join(
        [
            element("Orlo (town)", "'''Orlo''' is a [[Town|town]] on the [[river Venn#Course|Venn]].&lt;ref&gt;x&lt;/ref&gt;"),
            element("Orlo", "#REDIRECT [[Orlo (town)]]", extra='<redirect title="Orlo (town)" />'),
            element("Talk:Orlo (town)", "chat", ns=1),
            element("Bare", "{{Infobox|a=b}}"),
            element("Long", "word " * 1_000),
            element("Ærø &amp; co", "An island."),
        ]
    )
    + "</mediawiki>"
)


def items(tmp_path, data: str | bytes, base: str = "", limits: Limits | None = None) -> list[Page | Skipped]:
    file = tmp_path / "pages-articles.xml"
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    return list(WikipediaSource(file, base, limits or Limits()).items())


def test_articles_and_reasons(tmp_path):
    found = items(tmp_path, DUMP, limits=Limits(document_bytes=4_000))
    orlo, *_, island = found
    assert isinstance(orlo, Page) and isinstance(island, Page)
    assert (orlo.url, orlo.title) == ("https://en.example/wiki/Orlo_(town)", "Orlo (town)")
    town, venn = "[town](https://en.example/wiki/Town)", "[Venn](https://en.example/wiki/River_Venn)"
    assert orlo.text == f"Orlo is a {town} on the {venn}."
    assert orlo.links == ("https://en.example/wiki/Town", "https://en.example/wiki/River_Venn")
    assert island.url == "https://en.example/wiki/%C3%86r%C3%B8_%26_co"
    assert found[1:-1] == [
        Skipped("Orlo", Reason.REDIRECT),
        Skipped("Talk:Orlo (town)", Reason.NOT_AN_ARTICLE),
        Skipped("Bare", Reason.EMPTY),
        Skipped("Long", Reason.TOO_LARGE),
    ]
    moved = items(tmp_path, DUMP, "https://mirror.example/")
    assert isinstance(moved[0], Page) and moved[0].url == "https://mirror.example/Orlo_(town)"


def test_compressed_dumps_are_the_same(tmp_path):
    plain = items(tmp_path, DUMP)
    assert items(tmp_path, bz2.compress(DUMP.encode())) == plain
    assert items(tmp_path, gzip.compress(DUMP.encode())) == plain


def test_a_billion_laughs_are_refused_and_what_came_before_is_kept(tmp_path):
    laughs = '<!DOCTYPE m [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>' + DUMP.replace("An island", "&b;")
    assert items(tmp_path, laughs) == [Skipped("after the start", Reason.ENTITIES)]
    outside = '<!DOCTYPE m [<!ENTITY a SYSTEM "file:///etc/hostname">]>' + DUMP.replace("An island", "&a;")
    assert items(tmp_path, outside) == [Skipped("after the start", Reason.ENTITIES)]


@pytest.mark.parametrize("pack", [lambda data: data, bz2.compress, gzip.compress])
def test_a_cut_dump_keeps_what_came_before(tmp_path, pack):
    many = HEAD + "".join(
        element(f"A{i}", f"Words number {i} of {hash(str(i))}.") for i in range(40_000 if pack is bz2.compress else 3_000)
    )
    data = pack(many.encode())
    found = items(tmp_path, data[: len(data) * 3 // 4])
    assert isinstance(found[0], Page) and len(found) > 1_000
    assert isinstance(found[-1], Skipped) and found[-1].reason is Reason.TRUNCATED
    assert all(isinstance(item, Page) for item in found[:-1])


@pytest.mark.parametrize("data", [b"", b"noise", b"<a><b></a>", b"\x00\x01\x02", b"BZh9noise", b"\x1f\x8bnoise"])
def test_noise_is_a_reason(tmp_path, data):
    (found,) = items(tmp_path, data)
    assert isinstance(found, Skipped) and found.reason in (Reason.DAMAGED, Reason.TRUNCATED)


def test_wikitext():
    text, links = read_wikitext(
        "Lead [[a b|''c'']] and [[Self]], [[#part|above]], [[d_(e)]]s, [[x|]], [https://o.example o].\n"
        "== [[H]]istory ==\n# one\n* two {{cite|[[hidden]]}}\n[[File:X.png|thumb|Caption [[inner]]]]\n=== Late ===\n"
        "<ref name=x>gone [[a b]]</ref>End[[Category:Y]].",
        lambda title: "" if title == "Self" else f"https://w.example/{title.replace(' ', '_')}",
    )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    assert lines[0] == "Lead [c](https://w.example/A_b) and Self, above, [d_(e)](https://w.example/D_(e))s, , o."
    assert "## [H](https://w.example/H)istory" in lines and "### Late" in lines and lines[-1] == "End."
    assert "gone" not in text and "Caption" not in text and "cite" not in text
    assert links[:2] == ("https://w.example/A_b", "https://w.example/D_(e)")


@given(st.text(alphabet="[]|{}<>=#'ab:\n \ue001\ue002\ue003\ue0040", max_size=60))
def test_no_mark_is_left_in_any_wikitext(text):
    read, _ = read_wikitext(text, lambda title: "https://w.example/" + title)
    assert not set(read) & set("\ue000\ue001\ue002\ue003\ue004")


@pytest.mark.parametrize(
    "opening", ["{{a|", "[[a|", "{|\n", "&lt;ref>", "&lt;!--", "[http://a ", "{{a|]]", "&lt;b>&lt;/i>", "&lt;b a='&lt;/b>"]
)
def test_openings_without_end_are_refused(tmp_path, opening):
    found = items(tmp_path, HEAD + element("Bad", opening * 100_000) + element("Good", "Words.") + "</mediawiki>")
    assert found[0] == Skipped("Bad", Reason.TOO_NESTED)
    assert isinstance(found[1], Page)


@pytest.mark.parametrize("element_of_many", ["\n:", "#", "''x", "<br>", "|"])
def test_more_elements_than_any_article_has_are_refused(tmp_path, element_of_many):
    many = element_of_many.replace("<", "&lt;") * 250_000
    found = items(tmp_path, HEAD + element("Bad", many) + element("Good", "Words.") + "</mediawiki>")
    assert found[0] == Skipped("Bad", Reason.TOO_LARGE)
    assert isinstance(found[1], Page)


def test_equals_signs_without_end_end_no_process(tmp_path):
    found = items(tmp_path, HEAD + element("Odd", "= " * 200_000) + element("Good", "=a\n b=c= \n= d") + "</mediawiki>")
    assert isinstance(found[0], Page) and found[0].text.startswith("= = =")
    assert isinstance(found[1], Page) and [line.strip() for line in found[1].text.splitlines()] == ["=a", "b=c=", "= d"]


def test_blanks_after_an_equals_sign_cost_nothing():
    text, _ = read_wikitext(f"={' ' * 200_000}\n==   Part\t ==  \nWords.", str)
    assert [line for line in text.splitlines() if line.strip(" =")] == ["## Part", "Words."]


def test_elements_are_counted():
    assert elements("a {{b|c|d}} [[e]] &amp; ''f''\n** g: h\n; i <br> #") == 1 + 2 + 1 + 1 + 2 + 2 + 1 + 1


def test_nesting_counts_what_is_open_at_once():
    assert nesting("{{a}} [[b]] <ref>c</ref> <ref/> <br><br> {| |} [http://a b] <!-- -->" * 9) == 1
    assert nesting("{{a|[[b|<i>{|") == 4
    assert nesting("a <b <i>x</i>") == 12
    assert nesting("}} ]] </i> {{") == 1


def test_no_file(tmp_path):
    with pytest.raises(UserError, match="There is no file"):
        WikipediaSource(tmp_path / "none.xml")
