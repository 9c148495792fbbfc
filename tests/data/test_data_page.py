"""The page of data: every figure is on it, and text from outside is never markup."""

import re

from rich.console import Console

from sanderling.data.page import Step, data_page, figures_table
from sanderling.data.stats import Portrait


def portrait(name: str, turns: list[int], tools: dict[str, int]) -> Portrait:
    found = Portrait(name, "words")
    for count in turns:
        found.turns.add(count)
        found.length.add(100 * count)
    found.tools.update(tools)
    found.endings["turn_limit"] += len(turns)
    return found


MANY = {f"t{n}": 1 for n in range(9)}
PAIR = [portrait("<b>before", [1, 2, 60], {"search": 3, "<script>": 1}), portrait("after", [200], MANY)]


def test_the_page_holds_the_figures_and_no_foreign_markup() -> None:
    page = data_page("T", PAIR, command="c <x>", steps=[Step("clean", 5, 4, "dropped 1 & more")])
    assert "&lt;b&gt;before" in page and "<b>before" not in page and "<script>:" not in page and "&lt;script&gt;: 1" in page
    assert "33.3%" in page and "turn limit: 3" in page and "others: 6" in page and "dropped 1 &amp; more" in page
    assert page == data_page("T", PAIR, command="c <x>", steps=[Step("clean", 5, 4, "dropped 1 & more")])
    assert not re.search(r"(src|href)=", page)


def test_the_terminal_shows_the_same() -> None:
    console = Console(width=100, record=True, file=None, quiet=False)
    with console.capture() as shown:
        console.print(figures_table(PAIR))
    assert "33.3%" in shown.get() and "200" in shown.get() and "search 3" in shown.get()


def test_nothing_is_a_page_too() -> None:
    assert "0 sets" in data_page("T", [], command="c") and data_page("T", [portrait("none", [], {})], command="c")
