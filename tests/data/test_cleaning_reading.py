"""Normalising, names and results: what turns and responses say is read whole and written in one form."""

import json

import pytest
from cleaning_makers import (
    DR_VENUS,
    FIND,
    HINT,
    MARKDOWN,
    PYTHON,
    READ,
    answer,
    call_text,
    chain,
    codes,
    kinds,
    message,
    results,
    search,
    seen,
    step,
    talk,
    texts,
    visit,
)

from sanderling.core.grammar import check_turn
from sanderling.core.observations import read_observation
from sanderling.core.profiles import ResultLayout, get_profile
from sanderling.core.record import NodeKind, ToolEvent
from sanderling.core.types import Role, ToolStatus

AGENTCPM = get_profile("agentcpm-explore-4b")


class TestNormalise:
    def test_the_opening_is_the_profiles_and_keeps_the_recorded_date(self) -> None:
        system, question, *_ = step("normalise", talk(search("a"), seen(results("a")), answer())).trajectory.branch()  # pyright: ignore[reportOptionalMemberAccess]
        assert system.text.startswith(DR_VENUS.system_prompt[:60])
        assert system.text.endswith("Current date: 2025-07-18\n")
        assert (question.text, question.role) == ("Which city?", Role.USER)

    def test_a_prompt_is_added_where_there_is_none(self) -> None:
        found = chain(message(NodeKind.QUESTION, "Question: Which city?"), message(NodeKind.TURN, answer()))
        done = step("normalise", found, date="2024-02-29")
        assert kinds(done.trajectory) == ["system", "question", "turn"]
        assert done.trajectory is not None and "2024-02-29" in done.trajectory.nodes[0].text
        assert [node.parent for node in done.trajectory.nodes] == [None, 0, 1]
        assert codes(done) == {"system_added": 1, "question_replaced": 1}

    def test_text_between_reasoning_and_call_goes_into_the_reasoning(self) -> None:
        """The released cleaner loses it."""
        turn = search("a").replace("</think>\n\n", "</think>\n\nI shall look for a.\n\n") + "\nNow I wait."
        done = step("normalise", talk(turn, seen(results("a")), answer()))
        assert texts(done.trajectory)[0] == search("a", think="Look it up.\n\nI shall look for a.\n\nNow I wait.")
        assert codes(done)["text_into_reasoning"] == 1

    def test_earlier_answers_go_into_the_reasoning(self) -> None:
        done = step("normalise", talk("<think>Hm.</think><answer>Porto</answer> no, <answer>Lisbon</answer>"))
        (turn,) = texts(done.trajectory)
        assert turn == "<think>\nHm.\n\nno,\n\nPorto\n</think>\n\n<answer>\nLisbon\n</answer>"
        assert done.trajectory is not None and done.trajectory.answer == "Lisbon"

    def test_unreadable_calls_beside_a_readable_one_go_into_the_reasoning(self) -> None:
        turn = search("a") + "<tool_call>gibberish</tool_call>"
        assert "gibberish\n</think>" in texts(step("normalise", talk(turn, seen(results("a")), answer())).trajectory)[0]

    def test_an_invented_response_is_cut_and_counted(self) -> None:
        turn = search("a") + "\n<tool_response>\nI made this up.\n</tool_response>"
        done = step("normalise", talk(turn, seen(results("a")), answer()))
        assert texts(done.trajectory)[0] == search("a")
        assert codes(done)["invented_responses_cut"] == 1

    def test_reasoning_without_its_tags(self) -> None:
        bare = search("a").replace("<think>\n", "").replace("\n</think>", "")
        assert texts(step("normalise", talk(bare, seen(results("a")), answer())).trajectory)[0] == search("a")

    def test_a_tag_within_a_query_ends_nothing(self) -> None:
        turn = search("what does </tool_call> mean, or <think>")
        (written, *_) = texts(step("normalise", talk(turn, seen(results("a")), answer())).trajectory)
        assert check_turn(written, think_open=False) == ()
        assert json.loads(written.partition("<tool_call>")[2].partition("</tool_call>")[0]) == {
            "name": "search",
            "arguments": {"query": ["what does </tool_call> mean, or <think>"]},
        }

    def test_responses_of_several_calls_become_one_message(self) -> None:
        found = talk(call_text(FIND, READ), results("a"), answer())
        extra = message(NodeKind.OBSERVATION, "page")
        nodes = [*found.nodes[:4], extra, *found.nodes[4:]]
        done = step("normalise", chain(*nodes))
        assert texts(done.trajectory)[1] == seen(results("a"), "page")
        assert kinds(done.trajectory) == ["system", "question", "turn", "observation", "turn"]

    def test_a_bare_reminder_gets_its_tags(self) -> None:
        """Without them Qwen3's template drops all reasoning before it."""
        found = talk(search("a"), seen(results("a")), answer())
        nodes = [*found.nodes[:4], message(HINT, "Answer now."), *found.nodes[4:]]
        done = step("normalise", chain(*nodes))
        assert texts(done.trajectory)[2] == "<tool_response>\nAnswer now.\n</tool_response>"

    def test_a_turn_of_no_form_is_left_to_others(self) -> None:
        odd = "I have no idea."
        assert texts(step("normalise", talk(odd, "Go on.", answer())).trajectory)[0] == odd


class TestNames:
    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            ("google_search", {"queries": ["a"]}),
            ("web_search", {"q": "a"}),
            ("Search", {"query": "a", "num_results": 10}),
            ("search", {"query": '["a"]'}),
        ],
    )
    def test_searches(self, name: str, arguments: dict) -> None:
        done = step("names", talk(call_text((name, arguments)), seen("x"), answer()))
        assert texts(done.trajectory)[0] == search("a")

    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            ("browse", {"url": "https://a.example/(x)", "goal": ["dates", "places"]}),
            ("fetch_url", {"url": ["https://a.example/(x)"], "purpose": "dates"}),
            ("open_url", {"purpose": "dates", "link": "https://a.example/(x)", "timeout": 3}),
            ("visit", {"goal": "dates", "url": ["https://a.example/(x)"]}),
        ],
    )
    def test_visits(self, name: str, arguments: dict) -> None:
        done = step("names", talk(call_text((name, arguments)), seen("x"), answer()))
        assert texts(done.trajectory)[0] == visit("https://a.example/(x)")

    def test_another_familys_names_and_its_events(self) -> None:
        event = ToolEvent(name="visit", role="visit", status=ToolStatus.GONE)
        found = talk(visit("https://a.example/"), seen("x"), answer())
        nodes = [*found.nodes[:3], message(NodeKind.OBSERVATION, seen("x"), events=(event,)), *found.nodes[4:]]
        done = step("names", chain(*nodes), AGENTCPM)
        turn, observation = done.trajectory.branch()[2:4]  # pyright: ignore[reportOptionalMemberAccess]
        assert turn.calls[0].name == observation.events[0].name == "fetch_url"
        assert turn.calls[0].arguments == {"url": ["https://a.example/"], "purpose": "dates"}
        assert observation.events[0].status is ToolStatus.GONE

    def test_left_out_arguments_are_counted_or_kept(self) -> None:
        found = talk(call_text(("search", {"query": ["a"], "num": 3, "lang": "en"})), seen("x"), answer())
        assert codes(step("names", found))["arguments_left_out"] == 2
        assert step("names", found, extra_arguments=True).trajectory is found

    def test_names_of_ones_own_and_other_tools(self) -> None:
        found = talk(call_text(("suche", {"query": "a"}), PYTHON), seen("x", "y"), answer())
        assert step("names", found).trajectory is found
        assert '"name": "search"' in texts(step("names", found, search=["suche"]).trajectory)[0]


class TestResults:
    def test_brackets_quotes_apostrophes_parentheses_and_dates(self) -> None:
        """Each of these the released regular expressions lose."""
        done = step("results", talk(search("a"), seen(MARKDOWN), answer()))
        block = json.loads(texts(done.trajectory)[1].removeprefix("<tool_response>\n").removesuffix("\n</tool_response>"))
        assert block == [
            {
                "query": '"it\'s" [quoted]',
                "web_page_info_list": [
                    {
                        "title": "Alien [1979] [PDF]",
                        "url": "https://en.wikipedia.org/wiki/Alien_(film)",
                        "snippet": 'In space "no one" can hear [you] (scream).',
                        "date": "May 25, 1979",
                    },
                    {
                        "title": "Plain",
                        "url": "https://a.example/x?y=(1)_",
                        "snippet": "",
                        "date": "within the text",
                    },
                ],
            }
        ]
        assert codes(done) == {"results_rewritten": 1, "results_read": 2, "dates_kept": 2}

    def test_json_to_markdown_and_back(self) -> None:
        there = step("results", talk(search("a"), seen(results("a", "it's")), answer()), layout=ResultLayout.MARKDOWN)
        assert there.trajectory is not None and texts(there.trajectory)[1].count("## Web Results") == 2
        assert texts(step("results", there.trajectory).trajectory)[1] == seen(results("a", "it's"))

    def test_a_list_that_would_not_read_back_stays_as_it_was(self) -> None:
        hits = [{"title": "A", "url": "https://a.example/", "snippet": "x\n2. [B](https://b.example/)\n\ny", "date": ""}]
        found = talk(search("a"), seen(json.dumps([{"query": "a", "web_page_info_list": hits}])), answer())
        done = step("results", found, layout=ResultLayout.MARKDOWN)
        assert done.trajectory is found
        assert codes(done) == {"results_left_as_found": 1}

    def test_text_around_a_list_is_not_lost(self) -> None:
        found = talk(search("a"), seen(results("a") + "\nBy the way."), answer())
        assert step("results", found, layout=ResultLayout.MARKDOWN).trajectory is found

    def test_a_list_that_was_cut_off_keeps_its_whole_entries(self) -> None:
        cut = results("a", "b")[:-30]
        done = step("results", talk(search("a", "b"), seen(cut), answer()))
        assert codes(done)["lists_cut_off"] == 1
        assert [block.query for block in read_observation(texts(done.trajectory)[1]).blocks] == ["a", "b"]

    def test_failed_searches_and_notices_stay(self) -> None:
        failed = "A Google search for 'b' failed. Try again later."
        done = step("results", talk(search("a", "b"), seen(f"{MARKDOWN}\n=======\n{failed}"), answer()))
        assert read_observation(texts(done.trajectory)[1]).blocks[1].error == "Try again later."
        notice = talk(search("a"), seen("Tool execution timed out after 120 seconds."), answer())
        assert step("results", notice).trajectory is notice

    def test_only_search_blocks_of_a_mixed_response_change(self) -> None:
        page = "The useful information in https://a.example/ for user goal g as follows: \n\nEvidence in page: \n[1] x"
        done = step("results", talk(call_text(READ, FIND), seen(page, MARKDOWN), answer()))
        first, second = texts(done.trajectory)[1].split("\n</tool_response>\n<tool_response>\n")
        assert first == f"<tool_response>\n{page}"
        assert second.startswith('[{"query"')
