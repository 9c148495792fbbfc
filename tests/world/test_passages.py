"""What is shown of a page: snippets for a query, extracts for a goal."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.tools.world_tools import paragraphs
from sanderling.world.cutting import Prices, find_links, split_page
from sanderling.world.disk.pages import Listed
from sanderling.world.passages import extract as extract_of
from sanderling.world.snippets import snippet, source
from sanderling.world.text import clean, flow, index_text, query_terms, query_words, sentences, word_count

# Snippets and extracts


def extract(page: str, goal: str, most: int) -> str:
    return extract_of(page, goal, most).text


FILLER = "The old road runs past fields and farms where nothing happens for many miles today. "


WORDS = st.lists(st.sampled_from(["alpha", "beta.", "Gamma", "delta!\n", "東京", "\n\n# Head\n\n", "x", "- "]), max_size=80)


@given(WORDS, st.integers(1, 40), st.sets(st.sampled_from(["alpha", "gamma", "x", "東"])))
def test_snippets_keep_their_length_and_come_from_the_page(parts, most, terms):
    laid_out = flow(" ".join(parts))
    text = snippet(source(Listed("", "", "", " ".join(parts).encode())), dict.fromkeys(terms, 1.0), most)
    assert word_count(text) <= (most * 165 / 60 if laid_out.unspaced else most)
    assert text.removeprefix("… ").removesuffix(" …") in laid_out.text


def test_a_long_line_without_spaces_is_shown_around_its_match_and_a_long_page_from_its_top():
    def of(title: str, text: str, *terms: str) -> str:
        return snippet(source(Listed("", title, "", text.encode())), dict.fromkeys(terms, 1.0), 30)

    chinese = "北京大学是中华人民共和国的一所综合性大学" * 40 + "潮汐" + "在海岸线上形成了滩涂和湿地供候鸟觅食" * 60
    shown = of("", chinese, "潮", "汐")
    assert shown.startswith("… 潮汐在海岸线上形成了滩涂") and len(shown) > 60
    assert of("", "ab" * 5_000 + " ß" + "cd" * 5_000, "nothing").strip("… ")
    assert of("Flats", "# Flats\n\n" + "Mud and sand. " * 300, "nothing").startswith("Mud and sand.")
    assert "Mud" in of("", "Sand. " * 1_400 + "Mud.", "z" + "ab" * 5_000 + "q", "mud")  # a word longer than the page


NOISE = st.lists(
    st.sampled_from(["word ", "!" * 2_000, "x" * 2_000, " " * 2_000, "\n" * 2_000, "\n\n", "| - " * 50, "東京。"]), max_size=12
).map("".join)


@given(NOISE, st.integers(1, 90), st.sampled_from(["", "word", "東京"]))
def test_noise_is_not_free(page, most, goal):
    """A word costs more with its length, and so do signs without a word: budgets hold in characters too."""
    shown = extract(page, goal, most)
    assert len(shown) <= most * 101 + 100
    parts = split_page(page, most)
    assert "".join(parts) == page and all(len(part.strip()) <= most * 101 + 100 for part in parts)


LONG = (
    "# Orlo\n\nOrlo is a town by the sea.\n\n## History\n\n"
    + FILLER * 3
    + "\n\n"
    + "Anna Bel founded the town hall in 1903. "
    + "\n\n"
    "## Sports\n\n" + FILLER * 3 + "\n\n## Food\n\nPeople eat herring. The founder of the herring market was Ivo.\n"
)


def test_extracts_hold_what_the_goal_asks_in_page_order_under_headings():
    text = extract(LONG, "who founded the town hall", 40)
    assert text == "# Orlo\n\nOrlo is a town by the sea.\n\n## History\n\nAnna Bel founded the town hall in 1903."
    both = extract(LONG, "founded hall; founder herring market", 60)
    assert both.index("Anna Bel") < both.index("## Food") < both.index("Ivo")
    assert "Sports" not in both


CODE = "    async def echo(reader):\n        line = await reader.readline()\n\n        print(line)\n        return line"


def test_code_and_lists_in_lists_keep_their_lines_and_what_stands_before_them():
    text = extract(f"# Streams\n\n{FILLER * 20}\n\nAn example of echo:\n\n{CODE}\n\n{FILLER * 20}", "echo: print the line", 60)
    assert f"\n\n{CODE}" in text and "".join(paragraphs(text)).count(CODE) == 1
    items = "".join(
        f"- chapter {n}\n    - on mud {n}\n        - the crab {n} runs on the mud and in the sea\n" for n in range(90)
    )
    for line in extract(f"# Contents\n\n{items}", "crab 12 mud 70", 80).splitlines():
        assert line in ("", "…") or line in f"# Contents\n{items}".splitlines()


@given(
    st.lists(
        st.sampled_from(["| a | b |", "|---|---|", "| [x](https://w.example/a_(b)) | y |", "## H", "", "alpha beta.", "|"]),
        max_size=40,
    ),
    st.integers(1, 80),
)
def test_extracts_of_tables_keep_their_budget(lines, most):
    assert word_count(extract("\n".join(lines), "beta y b", most)) <= most


# -- Where pages are cut and what links cost, of ordinary pages and of hostile ones ----------------------------------------


# Parts


ROUGH = ["alpha", "Beta.", "(gamma)", "東京。", "\n", "\n\n", "\n\n## Head\n\n", "- ", "| a | b |\n", "[", "](", "!", "x y z"]
LINKS = [
    "[one](https://w.example/One_(disambiguation))",
    "[two [2]](https://w.example/a_(b_(c))?q=[1]&r=2)",
    "![three. Three](<i (1).png>)",
    "[Four. Five six seven](https://w.example/four#five)",
    "https://bare.example/a,b;c_(d).",
]
MESSY = st.lists(st.one_of(st.sampled_from(ROUGH), st.sampled_from(LINKS)), max_size=60).map(" ".join)


@given(MESSY, st.integers(1, 60))
def test_parts_hold_every_passage_once_within_the_budget(text: str, most: int) -> None:
    parts = split_page(text, most)
    prices = [Prices(part) for part in parts]
    assert all(price.whole <= most for price in prices)
    dear = [link for link in find_links(text) if Prices(text).of(link.start, link.end) > most]
    if not dear:
        assert "".join(parts) == text
        shown = [price.text[link.start : link.end] for price in prices for link in price.links]
        assert shown == [text[link.start : link.end] for link in find_links(text)]


MANY = 100_000
BEGIN = "The first paragraph. " * 40 + "\n\n"


@pytest.mark.parametrize(
    "body",
    [
        "a|b\n" + " " * MANY + "x|\nc|d\n",
        "head | " * 20_000 + "\n|-|\n" + "a | b\n" * 20_000,
        "[ http://b.example " * 20_000 + "a" + "](c)" * 20_000,
    ],
    ids=["rule", "long head", "nested links"],
)
def test_extracts_and_parts_of_hostile_pages(body: str) -> None:
    found = extract_of(BEGIN + body, "paragraph", 100)
    assert found.text.startswith("The first paragraph.") and found.parts > 1
    parts = split_page((BEGIN + body).strip(), 100)
    assert len(parts) > 1 and parts[0].startswith("The first paragraph.")


# -- Words of texts: terms, the fast way to them, sentences and what is text at all ----------------------------------------


# Terms


@given(st.text(max_size=80))
def test_query_terms_of_a_text_are_among_its_index_terms(text):
    assert set(query_terms(text, 1000)) <= set(index_text(text).split())
    assert set(query_words(text, 1000)) <= set(index_text(text).split())


@given(st.text(st.characters(codec=None), max_size=200))
def test_clean_text_can_be_written(text):
    assert len(clean(text).encode("utf-8").decode("utf-8")) == len(text)
    assert clean("a\x00\ud800b") == "a\ufffd?b"


def test_sentences():
    assert sentences("Dr. J. Bel left. She came back in 1903. 東京です。大阪です。") == [
        "Dr. J. Bel left.", "She came back in 1903.", "東京です。", "大阪です。",
    ]  # fmt: skip
    assert sentences("") == []
    assert sentences("Prof. Bel wrote vol. III. (A. No, Geo. Mrs. Orr cf. St. Ivo.) 5.5 km.") == [
        "Prof. Bel wrote vol. III.", "(A. No, Geo.", "Mrs. Orr cf. St. Ivo.)", "5.5 km.",
    ]  # fmt: skip


ENDINGS = ["cities", "CLASSES ", "buses", "Toes", "ies", "xies", "us ", "gas", "s", "es ", "aies", "eies ", "'s", "12s "]
CHARACTERS = ["é", "ß", "’s", "東", "京 ", "½", "⑴", "\ufdfa", "\u037a", "\u0301", "İ", "ſ", "🙂", "_", " ", "\n", "\t", "-"]
MARKDOWN = ["**", "__", "# ", "* ", "> ", "`", "[a](b)", "](", '[x](c "t")', ".", "! ", '?" ', "。", "」", "Dr. ", "A. "]
STEMMED = st.one_of(st.text(max_size=4), st.sampled_from([*ENDINGS, *CHARACTERS, *MARKDOWN]))
TEXTS = st.lists(STEMMED, max_size=14).map("".join)

SENTENCE_END = re.compile(r"[.!?][\"')\]»”’]*\s+(?=[^a-z\s])|[。！？]+[」』”’）]*\s*")


@given(TEXTS)
def test_sentences_hold_the_whole_line_and_end_where_the_pattern_says(text):
    parts = sentences(text)
    assert "".join("".join(parts).split()) == "".join(text.split())
    ends = {text[: match.end()].rstrip()[-1:] for match in SENTENCE_END.finditer(text)}
    assert {part[-1] for part in parts[:-1]} <= ends
