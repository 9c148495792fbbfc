"""The steps of DR-Venus' order, one by one, on the defects of the released cleaners."""

import json

import pytest
from cleaning_makers import HINT, answer, call_text, chain, message, results, search, seen, talk, texts, visit

from sanderling.protocol.grammar import check_final, check_turn
from sanderling.protocol.messages import Role, ToolCall
from sanderling.protocol.profile import Profile, ResultLayout
from sanderling.protocol.profiles import get_profile
from sanderling.protocol.status import ToolStatus
from sanderling.trajectory.cleaning import CleaningRecipe, Outcome, Reason, StepName, Target, get_recipe
from sanderling.trajectory.cleaning.registry import STEPS
from sanderling.trajectory.cleaning.run import Cleaner
from sanderling.trajectory.observations import read_observation
from sanderling.trajectory.record import NodeKind, ToolEvent, Trajectory

DR_VENUS, AGENTCPM = get_profile("dr-venus-4b"), get_profile("agentcpm-explore-4b")
PYTHON = ("PythonInterpreter", {"code": "1"})
FIND = ("search", {"query": ["a"]})
READ = ("visit", {"url": ["https://a.example/"], "goal": "g"})


def step(name: StepName, found: Trajectory, profile: Profile = DR_VENUS, **settings: object) -> Outcome:
    recipe = CleaningRecipe.model_validate({"steps": [name], **({name.value: settings} if settings else {})})
    return STEPS[name](recipe, Target(profile))(found)


def codes(outcome: Outcome) -> dict[str, int]:
    found: dict[str, int] = {}
    for note in outcome.notes:
        found[note.code] = found.get(note.code, 0) + note.number
    return found


def kinds(trajectory: Trajectory | None) -> list[str]:
    assert trajectory is not None
    return [node.kind.value for node in trajectory.branch()]


def cleaned(found: Trajectory) -> Trajectory:
    result = Cleaner(get_recipe("dr-venus"), Target(DR_VENUS)).clean(found)
    assert isinstance(result, Trajectory), result
    return result


class TestNormalise:
    def test_the_opening_is_the_profiles_and_keeps_the_recorded_date(self) -> None:
        system, question, *_ = step(StepName.NORMALISE, talk(search("a"), seen(results("a")), answer())).trajectory.branch()  # pyright: ignore[reportOptionalMemberAccess]
        assert system.text.startswith(DR_VENUS.system_prompt[:60])
        assert system.text.endswith("Current date: 2025-07-18\n")
        assert (question.text, question.role) == ("Which city?", Role.USER)

    def test_a_prompt_is_added_where_there_is_none(self) -> None:
        found = chain(message(NodeKind.QUESTION, "Question: Which city?"), message(NodeKind.TURN, answer()))
        done = step(StepName.NORMALISE, found, date="2024-02-29")
        assert kinds(done.trajectory) == ["system", "question", "turn"]
        assert done.trajectory is not None and "2024-02-29" in done.trajectory.nodes[0].text
        assert [node.parent for node in done.trajectory.nodes] == [None, 0, 1]
        assert codes(done) == {"system_added": 1, "question_replaced": 1}

    def test_text_between_reasoning_and_call_goes_into_the_reasoning(self) -> None:
        """The released cleaner loses it."""
        turn = search("a").replace("</think>\n\n", "</think>\n\nI shall look for a.\n\n") + "\nNow I wait."
        done = step(StepName.NORMALISE, talk(turn, seen(results("a")), answer()))
        assert texts(done.trajectory)[0] == search("a", think="Look it up.\n\nI shall look for a.\n\nNow I wait.")
        assert codes(done)["text_into_reasoning"] == 1

    def test_earlier_answers_go_into_the_reasoning(self) -> None:
        done = step(StepName.NORMALISE, talk("<think>Hm.</think><answer>Porto</answer> no, <answer>Lisbon</answer>"))
        (turn,) = texts(done.trajectory)
        assert turn == "<think>\nHm.\n\nno,\n\nPorto\n</think>\n\n<answer>\nLisbon\n</answer>"
        assert done.trajectory is not None and done.trajectory.answer == "Lisbon"

    def test_unreadable_calls_beside_a_readable_one_go_into_the_reasoning(self) -> None:
        turn = search("a") + "<tool_call>gibberish</tool_call>"
        assert "gibberish\n</think>" in texts(step(StepName.NORMALISE, talk(turn, seen(results("a")), answer())).trajectory)[0]

    def test_an_invented_response_is_cut_and_counted(self) -> None:
        turn = search("a") + "\n<tool_response>\nI made this up.\n</tool_response>"
        done = step(StepName.NORMALISE, talk(turn, seen(results("a")), answer()))
        assert texts(done.trajectory)[0] == search("a")
        assert codes(done)["invented_responses_cut"] == 1

    def test_reasoning_without_its_tags(self) -> None:
        bare = search("a").replace("<think>\n", "").replace("\n</think>", "")
        assert texts(step(StepName.NORMALISE, talk(bare, seen(results("a")), answer())).trajectory)[0] == search("a")

    def test_a_tag_within_a_query_ends_nothing(self) -> None:
        turn = search("what does </tool_call> mean, or <think>")
        (written, *_) = texts(step(StepName.NORMALISE, talk(turn, seen(results("a")), answer())).trajectory)
        assert check_turn(written, think_open=False) == ()
        assert json.loads(written.partition("<tool_call>")[2].partition("</tool_call>")[0]) == {
            "name": "search",
            "arguments": {"query": ["what does </tool_call> mean, or <think>"]},
        }

    def test_responses_of_several_calls_become_one_message(self) -> None:
        found = talk(call_text(FIND, READ), results("a"), answer())
        extra = message(NodeKind.OBSERVATION, "page")
        nodes = [*found.nodes[:4], extra, *found.nodes[4:]]
        done = step(StepName.NORMALISE, chain(*nodes))
        assert texts(done.trajectory)[1] == seen(results("a"), "page")
        assert kinds(done.trajectory) == ["system", "question", "turn", "observation", "turn"]

    def test_a_bare_reminder_gets_its_tags(self) -> None:
        """Without them Qwen3's template drops all reasoning before it."""
        found = talk(search("a"), seen(results("a")), answer())
        nodes = [*found.nodes[:4], message(HINT, "Answer now."), *found.nodes[4:]]
        done = step(StepName.NORMALISE, chain(*nodes))
        assert texts(done.trajectory)[2] == "<tool_response>\nAnswer now.\n</tool_response>"

    def test_a_turn_of_no_form_is_left_to_others(self) -> None:
        odd = "I have no idea."
        assert texts(step(StepName.NORMALISE, talk(odd, "Go on.", answer())).trajectory)[0] == odd


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
        done = step(StepName.NAMES, talk(call_text((name, arguments)), seen("x"), answer()))
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
        done = step(StepName.NAMES, talk(call_text((name, arguments)), seen("x"), answer()))
        assert texts(done.trajectory)[0] == visit("https://a.example/(x)")

    def test_another_familys_names_and_its_events(self) -> None:
        event = ToolEvent(name="visit", role="visit", status=ToolStatus.GONE)
        found = talk(visit("https://a.example/"), seen("x"), answer())
        nodes = [*found.nodes[:3], message(NodeKind.OBSERVATION, seen("x"), events=(event,)), *found.nodes[4:]]
        done = step(StepName.NAMES, chain(*nodes), AGENTCPM)
        turn, observation = done.trajectory.branch()[2:4]  # pyright: ignore[reportOptionalMemberAccess]
        assert turn.calls[0].name == observation.events[0].name == "fetch_url"
        assert turn.calls[0].arguments == {"url": ["https://a.example/"], "purpose": "dates"}
        assert observation.events[0].status is ToolStatus.GONE

    def test_left_out_arguments_are_counted_or_kept(self) -> None:
        found = talk(call_text(("search", {"query": ["a"], "num": 3, "lang": "en"})), seen("x"), answer())
        assert codes(step(StepName.NAMES, found))["arguments_left_out"] == 2
        assert step(StepName.NAMES, found, extra_arguments=True).trajectory is found

    def test_names_of_ones_own_and_other_tools(self) -> None:
        found = talk(call_text(("suche", {"query": "a"}), PYTHON), seen("x", "y"), answer())
        assert step(StepName.NAMES, found).trajectory is found
        assert '"name": "search"' in texts(step(StepName.NAMES, found, search=["suche"]).trajectory)[0]


MARKDOWN = (
    "A Google search for '\"it's\" [quoted]' found 2 results:\n\n## Web Results\n"
    "1. [Alien [1979] [PDF]](https://en.wikipedia.org/wiki/Alien_(film))\nDate published: May 25, 1979\n\n"
    'In space "no one" can hear [you] (scream).\n\n'
    "2. [Plain](https://a.example/x?y=(1)_)\n\nDate published: within the text"
)


class TestResults:
    def test_brackets_quotes_apostrophes_parentheses_and_dates(self) -> None:
        """Each of these the released regular expressions lose."""
        done = step(StepName.RESULTS, talk(search("a"), seen(MARKDOWN), answer()))
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
        there = step(StepName.RESULTS, talk(search("a"), seen(results("a", "it's")), answer()), layout=ResultLayout.MARKDOWN)
        assert there.trajectory is not None and texts(there.trajectory)[1].count("## Web Results") == 2
        assert texts(step(StepName.RESULTS, there.trajectory).trajectory)[1] == seen(results("a", "it's"))

    def test_a_list_that_would_not_read_back_stays_as_it_was(self) -> None:
        hits = [{"title": "A", "url": "https://a.example/", "snippet": "x\n2. [B](https://b.example/)\n\ny", "date": ""}]
        found = talk(search("a"), seen(json.dumps([{"query": "a", "web_page_info_list": hits}])), answer())
        done = step(StepName.RESULTS, found, layout=ResultLayout.MARKDOWN)
        assert done.trajectory is found
        assert codes(done) == {"results_left_as_found": 1}

    def test_text_around_a_list_is_not_lost(self) -> None:
        found = talk(search("a"), seen(results("a") + "\nBy the way."), answer())
        assert step(StepName.RESULTS, found, layout=ResultLayout.MARKDOWN).trajectory is found

    def test_a_list_that_was_cut_off_keeps_its_whole_entries(self) -> None:
        cut = results("a", "b")[:-30]
        done = step(StepName.RESULTS, talk(search("a", "b"), seen(cut), answer()))
        assert codes(done)["lists_cut_off"] == 1
        assert [block.query for block in read_observation(texts(done.trajectory)[1]).blocks] == ["a", "b"]

    def test_failed_searches_and_notices_stay(self) -> None:
        failed = "A Google search for 'b' failed. Try again later."
        done = step(StepName.RESULTS, talk(search("a", "b"), seen(f"{MARKDOWN}\n=======\n{failed}"), answer()))
        assert read_observation(texts(done.trajectory)[1]).blocks[1].error == "Try again later."
        notice = talk(search("a"), seen("Tool execution timed out after 120 seconds."), answer())
        assert step(StepName.RESULTS, notice).trajectory is notice

    def test_only_search_blocks_of_a_mixed_response_change(self) -> None:
        page = "The useful information in https://a.example/ for user goal g as follows: \n\nEvidence in page: \n[1] x"
        done = step(StepName.RESULTS, talk(call_text(READ, FIND), seen(page, MARKDOWN), answer()))
        first, second = texts(done.trajectory)[1].split("\n</tool_response>\n<tool_response>\n")
        assert first == f"<tool_response>\n{page}"
        assert second.startswith('[{"query"')


class TestPrune:
    def test_a_turn_of_disallowed_calls_goes_with_its_response(self) -> None:
        found = talk(search("a"), seen(results("a")), call_text(PYTHON), seen("1"), answer())
        done = step(StepName.PRUNE, found)
        assert texts(done.trajectory) == [search("a"), seen(results("a")), answer()]
        assert kinds(done.trajectory) == ["system", "question", "turn", "observation", "turn"]
        assert codes(done) == {"calls_disallowed": 1, "turns_removed": 1}

    @pytest.mark.parametrize("order", [(PYTHON, FIND, READ), (FIND, PYTHON, READ), (FIND, READ, PYTHON)])
    def test_a_mixed_turn_keeps_the_allowed_calls_with_their_results(self, order: tuple) -> None:
        blocks = {PYTHON[0]: "1", FIND[0]: results("a"), READ[0]: "page"}
        events = tuple(ToolEvent(name=name, status=ToolStatus.OK) for name, _ in order)
        found = talk(call_text(*order), seen(*(blocks[name] for name, _ in order)), answer())
        nodes = [*found.nodes[:3], found.nodes[3].model_copy(update={"events": events}), *found.nodes[4:]]
        done = step(StepName.PRUNE, chain(*nodes))
        assert texts(done.trajectory)[:2] == [call_text(FIND, READ), seen(results("a"), "page")]
        assert done.trajectory is not None and [event.name for event in done.trajectory.nodes[3].events] == ["search", "visit"]
        assert codes(done) == {"calls_disallowed": 1}

    def test_results_that_cannot_be_told_apart_take_the_turn_along(self) -> None:
        done = step(StepName.PRUNE, talk(call_text(PYTHON, FIND), seen("all in one"), answer()))
        assert texts(done.trajectory) == [answer()]
        assert codes(done) == {"calls_disallowed": 1, "turns_removed": 1, "calls_beside_them_lost": 1}

    def test_an_answer_beside_a_disallowed_call_stays(self) -> None:
        both = call_text(PYTHON) + "<answer>\nLisbon\n</answer>"
        assert texts(step(StepName.PRUNE, talk(both)).trajectory) == [answer().replace("Sure.", "Look it up.")]

    def test_which_tools_are_allowed_can_be_said(self) -> None:
        found = talk(call_text(PYTHON), seen("1"), answer())
        assert step(StepName.PRUNE, found, tools=["PythonInterpreter"]).trajectory is found


class TestRepeats:
    def test_the_first_stays_and_the_others_go_with_their_responses(self) -> None:
        again = search("b", "a", "a", think="Once more.")
        found = talk(search("a", "b"), seen("1"), again, seen("2"), visit("https://a.example/"), seen("3"), answer())
        done = step(StepName.REPEATS, found)
        assert texts(done.trajectory) == [search("a", "b"), seen("1"), visit("https://a.example/"), seen("3"), answer()]
        assert codes(done) == {"calls_repeated": 1, "turns_removed": 1}

    def test_the_goal_counts_only_when_asked_for(self) -> None:
        found = talk(visit("https://a.example/"), seen("1"), visit("https://a.example/", goal="places"), seen("2"), answer())
        assert len(texts(step(StepName.REPEATS, found).trajectory)) == 3
        assert step(StepName.REPEATS, found, with_goal=True).trajectory is found

    def test_a_failed_call_may_be_tried_again(self) -> None:
        late = seen("Tool execution timed out after 120 seconds.")
        found = talk(search("a"), late, search("a"), seen(results("a")), search("a"), seen(results("a")), answer())
        assert texts(step(StepName.REPEATS, found).trajectory) == [*texts(found)[:4], answer()]
        assert texts(step(StepName.REPEATS, found, keep_retries=False).trajectory) == [search("a"), late, answer()]

    def test_a_turn_with_a_new_call_beside_keeps_that(self) -> None:
        found = talk(search("a"), seen("1"), call_text(FIND, READ), seen("2", "3"), answer())
        assert texts(step(StepName.REPEATS, found).trajectory)[2:4] == [call_text(READ), seen("3")]


class TestMalformed:
    def test_a_dropped_turn_never_leaves_two_responses_in_a_row(self) -> None:
        found = talk(search("a"), seen(results("a")), "nothing to say", "Malformed.", answer())
        done = step(StepName.MALFORMED, found)
        assert texts(done.trajectory) == [search("a"), seen(results("a")), answer()]
        assert codes(done) == {"malformed:no_action": 1, "turns_removed": 1}

    @pytest.mark.parametrize(
        ("turn", "code"),
        [
            (answer("Porto"), "early_answers"),
            ("<think>hm</think><tool_call>{</tool_call>", "malformed:no_action"),
            ('<tool_call>{"name": "search", "arguments": {"query": ["a"]}}</tool_call>', "malformed:no_think"),
            ("", "malformed:no_action"),
        ],
    )
    def test_what_cannot_stand_in_the_middle(self, turn: str, code: str) -> None:
        done = step(StepName.MALFORMED, talk(turn, seen("x"), answer()))
        assert texts(done.trajectory) == [answer()]
        assert codes(done) == {code: 1, "turns_removed": 1}

    def test_a_call_without_a_response(self) -> None:
        found = talk(search("a"), seen("x"), answer())
        nodes = [*found.nodes[:2], message(NodeKind.TURN, search("lost")), *found.nodes[2:]]
        done = step(StepName.MALFORMED, chain(*nodes))
        assert texts(done.trajectory) == [search("a"), seen("x"), answer()]
        assert codes(done) == {"calls_without_response": 1, "turns_removed": 1}

    def test_a_response_without_a_call(self) -> None:
        found = talk(answer())
        nodes = [*found.nodes[:2], message(NodeKind.OBSERVATION, seen("x")), *found.nodes[2:]]
        assert codes(step(StepName.MALFORMED, chain(*nodes))) == {"responses_without_call": 1}

    def test_a_call_and_an_answer_are_what_came_of_them(self) -> None:
        both = search("a") + "\n\n<answer>\nPorto\n</answer>"
        middle = step(StepName.MALFORMED, talk(both, seen("x"), answer()))
        assert texts(middle.trajectory) == [search("a", think="Look it up.\n\nPorto"), seen("x"), answer()]
        last = step(StepName.MALFORMED, talk(search("b"), seen("x"), both))
        assert texts(last.trajectory)[-1] == "<think>\nLook it up.\n</think>\n\n<answer>\nPorto\n</answer>"
        assert last.trajectory is not None and last.trajectory.answer == "Porto"

    def test_nothing_is_said_after_the_answer(self) -> None:
        found = talk(search("a"), seen("x"), answer(), "Thank you.")
        assert texts(step(StepName.MALFORMED, found).trajectory)[-1] == answer()

    def test_several_searches_become_one(self) -> None:
        both = call_text(FIND, ("search", {"query": ["b"]}))
        done = step(StepName.MALFORMED, talk(both, seen(results("a"), results("b")), answer()))
        assert texts(done.trajectory)[:2] == [search("a", "b"), seen(results("a", "b"))]
        assert codes(done) == {"calls_joined": 2}

    def test_calls_that_cannot_be_joined_go_with_their_results(self) -> None:
        done = step(StepName.MALFORMED, talk(call_text(FIND, READ), seen(results("a"), "page"), answer()))
        assert texts(done.trajectory)[:2] == [search("a"), seen(results("a"))]
        assert codes(done) == {"calls_not_joined": 1}
        assert texts(
            step(StepName.MALFORMED, talk(call_text(FIND, READ), seen("1", "2"), answer()), several_calls="drop").trajectory
        ) == [answer()]

    def test_a_last_turn_without_an_answer_is_no_matter_of_repair(self) -> None:
        found = talk(search("a"), seen("x"), "I give up.")
        assert step(StepName.MALFORMED, found).trajectory is found


class TestValidate:
    GOOD = talk(search("a"), seen("x"), answer())

    def test_what_is_well_formed_is_kept_as_it_is(self) -> None:
        assert step(StepName.VALIDATE, self.GOOD).trajectory is self.GOOD

    @pytest.mark.parametrize(
        ("found", "reason"),
        [
            (chain(), Reason.EMPTY),
            (chain(*GOOD.nodes[1:]), Reason.SYSTEM_NOT_FIRST),
            (chain(GOOD.nodes[0], *GOOD.nodes[2:]), Reason.NO_QUESTION),
            (chain(*GOOD.nodes[:2], GOOD.nodes[3], *GOOD.nodes[2:]), Reason.BROKEN_ORDER),
            (chain(*GOOD.nodes[:4], *GOOD.nodes[3:]), Reason.BROKEN_ORDER),
            (chain(*GOOD.nodes[:3], *GOOD.nodes[4:]), Reason.BROKEN_ORDER),
            (talk(search("a"), "x", answer()), Reason.UNWRAPPED_RESPONSE),
            (talk(search("a"), seen("x")), Reason.NO_ANSWER),
            (talk("<think>hm</think>", seen("x"), answer()), Reason.MALFORMED_TURN),
            (talk(search("a"), seen("x"), "<answer>Lisbon</answer>"), Reason.MALFORMED_ANSWER),
            (talk(search("a"), seen("x"), answer(), "Thank you."), Reason.BROKEN_ORDER),
            (chain(*GOOD.nodes, message(NodeKind.RAW, "?")), Reason.UNREADABLE),
        ],
    )
    def test_reasons(self, found: Trajectory, reason: Reason) -> None:
        done = step(StepName.VALIDATE, found)
        assert (done.trajectory, done.reason) == (None, reason)


def test_the_whole_order_on_one_bad_conversation() -> None:
    found = talk(
        'Let me see. <tool_call>{"name": "google_search", "arguments": {"queries": "a"}}</tool_call>',
        MARKDOWN,
        call_text(PYTHON),
        "1",
        call_text(("browse", {"urls": "https://a.example/(x)", "purpose": ["dates"]})) + " Wait.",
        "page",
        visit("https://a.example/(x)", goal="something else"),
        "page again",
        "no form at all",
        "Malformed.",
        "<think>Sure.</think> So <answer> Lisbon </answer>",
        "Thanks!",
    )
    done = cleaned(found)
    turns = [node for node in done.branch() if node.kind is NodeKind.TURN]
    assert [turn.calls for turn in turns[:2]] == [
        (ToolCall(name="search", arguments={"query": ["a"]}, raw='\n{"name": "search", "arguments": {"query": ["a"]}}\n'),),
        (ToolCall(name="visit", arguments={"url": ["https://a.example/(x)"], "goal": "dates"}, raw=turns[1].calls[0].raw),),
    ]
    assert [turn.think for turn in turns] == ["Let me see.", "Look it up.\n\nWait.", "Sure.\n\nSo"]
    assert [check_turn(turn.text, think_open=False) for turn in turns[:-1]] == [(), ()]
    assert check_final(turns[-1].text, think_open=False) == ()
    assert done.answer == "Lisbon"
    assert done.profile == "dr-venus-4b"
    assert kinds(done) == ["system", "question", "turn", "observation", "turn", "observation", "turn"]
