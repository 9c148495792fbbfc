import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.chat import unwrap
from sanderling.core.observations import read_link, read_observation


def wrapped(body: str) -> str:
    return f"<tool_response>\n{body}\n</tool_response>"


@pytest.mark.parametrize(
    ("line", "title", "url"),
    [
        ("[Alien](https://en.wikipedia.org/wiki/Alien_(film))", "Alien", "https://en.wikipedia.org/wiki/Alien_(film)"),
        ("[DDT](https://x.org/Titan_(DDT)_(b))", "DDT", "https://x.org/Titan_(DDT)_(b)"),
        ("[a](https://x.org/S0031-6997(24)00721-X/fulltext)", "a", "https://x.org/S0031-6997(24)00721-X/fulltext"),
        ("[[PDF] Manual](https://x.org/m.pdf)", "[PDF] Manual", "https://x.org/m.pdf"),
        ("[[Discussion][Breed] Is it ...](https://x.org/a)", "[Discussion][Breed] Is it ...", "https://x.org/a"),
        ("[Final [HD Remaster]](https://x.org/v?a=1)", "Final [HD Remaster]", "https://x.org/v?a=1"),
        ("[cut off [PDF ...](https://x.org/a)", "cut off [PDF ...", "https://x.org/a"),
        ("[odd ] title](https://x.org/a)", "odd ] title", "https://x.org/a"),
        ("[smile :)](https://x.org/:))", "smile :)", "https://x.org/:)"),
        ("[a](https://x.org/a_(b)", "a", "https://x.org/a_(b"),
        ("[](https://x.org/a)", "", "https://x.org/a"),
        ("[T](https://x.org/Health_ Estimates)", "T", "https://x.org/Health_ Estimates"),
        ("[T](https://x.org/a) trailing words", "T", "https://x.org/a"),
    ],
)
def test_links_keep_brackets_and_parentheses(line, title, url):
    assert read_link(line) == (title, url)


@given(st.text())
def test_unwrap_undoes_the_wrapper_exactly(text):
    assert unwrap(wrapped(text)) == text


PIECES = ["[", "]", "(", ")", "](", "1. [", "\n", "\n=======\n", "x", '"', ",", '{"query": ', '"web_page_info_list": [']
PIECES += ["A Google search for '", "' found 1 results:\n\n## Web Results\n"]
PIECES += ["The useful information in ", " for user goal ", " as follows: \n"]


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_reading_never_raises(text):
    read_observation(text)
    read_observation("[" + text)


def test_a_truncated_list_yields_every_whole_entry():
    lists = [
        {"query": f'q{i} "x"', "web_page_info_list": [{"title": "t", "url": f"https://x.org/{i}{j}"} for j in range(3)]}
        for i in range(2)
    ]
    body = json.dumps(lists)
    for cut in range(2, len(body) - 1):
        part = body[:cut]
        reading = read_observation(wrapped(part))
        assert reading.problems[0] == "truncated_results"
        found = [hit.url for block in reading.blocks for hit in block.hits]
        assert found == [f"https://x.org/{i}{j}" for i in range(2) for j in range(3)][: part.count('"}')]


@pytest.mark.parametrize("line", ["[no link]", "[empty]()", "no bracket", "[", "", "[a](unclosed"])
def test_what_is_no_link_is_none(line):
    assert read_link(line) is None
