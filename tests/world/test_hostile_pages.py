"""Pages and addresses made to take long: these took minutes where work grew with the square of a length."""

import pytest

from sanderling.tools.quotes import PageText
from sanderling.world.addresses import asked_part, canonical_url, part_address
from sanderling.world.cutting import as_read, find_links, split_page
from sanderling.world.filters import without_links
from sanderling.world.passages import extract

MANY = 100_000
BEGIN = "The first paragraph. " * 40 + "\n\n"


def nothing(key: str) -> bool:
    return False


@pytest.mark.parametrize(
    "body",
    [
        "a|b\n" + " " * MANY + "x|\nc|d\n",
        "a | b\n" + "-" + " " * MANY + "x|\nc | d\n",
        "".join("a | b\n" if number % 2 else "a | b | c\n" for number in range(MANY // 2)),
        "# " + "head " * 20_000 + "\n\n" + "b\n\n" * 20_000,
        "head | " * 20_000 + "\n|-|\n" + "a | b\n" * 20_000,
        "[](a) " * 20_000 + "\n".join("word " * 70 for _ in range(2_000)),
        "[ http://b.example " * 20_000 + "a" + "](c)" * 20_000,
    ],
    ids=["rule", "rule's end", "uneven cells", "long heading", "long head", "links and long lines", "nested links"],
)
def test_extracts_and_parts_of_hostile_pages(body: str) -> None:
    found = extract(BEGIN + body, "paragraph", 100)
    assert found.text.startswith("The first paragraph.") and found.parts > 1
    parts = split_page((BEGIN + body).strip(), 100)
    assert len(parts) > 1 and parts[0].startswith("The first paragraph.")


@pytest.mark.parametrize(
    "text",
    [
        "[a](" + " " * MANY + "x",
        "[\n" * MANY + "http://b.example",
        "[a](b 'c" * MANY,
        "http://b.example/(" * MANY,
        "![" * MANY + "](b)",
        "a" + " " * MANY + "b/",
    ],
    ids=["blanks", "labels", "titles", "brackets", "images", "attributes"],
)
def test_masks_over_hostile_texts(text: str) -> None:
    assert without_links(text, "https://a.example/", nothing) == text


def test_hostile_addresses() -> None:
    assert canonical_url("https://a.example" + ".:" * MANY + "x/") == "https://a.example" + ".:" * MANY + "x"
    assert canonical_url("https://a.example" + ".:" * MANY + "/b") == "https://a.example/b"
    assert asked_part("https://a.example/#" + "page=1&" * MANY + "#") == 0
    assert asked_part("https://a.example/#" + "page=1&" * MANY + "page=3") == 3


def test_a_quote_in_one_long_word() -> None:
    assert PageText("a" * 1_000_000 + " aa.").stretches("a" * 20_000) == ([], 1)
    assert PageText("xab漢ab").stretches("ab") == ([(4, 6)], 0)


@pytest.mark.parametrize("part", [1, 2, 999_999_999])
def test_the_last_number_of_an_address_counts(part: int) -> None:
    assert asked_part(part_address("https://a.example/x#y", part)) == part
    assert asked_part(f"https://a.example/#a&page=7&page={part}&b=1 ") == part
    assert asked_part(f"https://a.example/#page={part}#b") == asked_part(f"https://a.example/#xpage={part}") == 0


def test_a_link_within_an_address_is_no_link() -> None:
    text = "see [a](x[b](y)z) and [c [d](e) ![f](g)](h)."
    assert [text[link.start : link.end] for link in find_links(text)] == ["[a](x[b](y)z)", "[c [d](e) ![f](g)](h)"]
    assert as_read(text) == "see a and c d f."
