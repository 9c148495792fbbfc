"""What is shown of a page: snippets for a query, extracts for a goal."""

from hypothesis import given
from hypothesis import strategies as st

from sanderling.world.cutting import split_page
from sanderling.world.disk.pages import Listed
from sanderling.world.passages import extract as extract_of
from sanderling.world.snippets import snippet, source
from sanderling.world.text import flow, word_count

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


@given(
    st.lists(
        st.sampled_from(["| a | b |", "|---|---|", "| [x](https://w.example/a_(b)) | y |", "## H", "", "alpha beta.", "|"]),
        max_size=40,
    ),
    st.integers(1, 80),
)
def test_extracts_of_tables_keep_their_budget(lines, most):
    assert word_count(extract("\n".join(lines), "beta y b", most)) <= most
