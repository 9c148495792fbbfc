import pytest

from sanderling.core.errors import UserError
from sanderling.core.record import Node, NodeKind, Question, Trajectory
from sanderling.core.types import Role, ToolCall
from sanderling.world.recorded import ReplayTable, answerable_questions, call_key, pages_from_trajectories

A = '[{"query": "a", "web_page_info_list": [{"title": "T", "url": "https://x.org/p", "snippet": "one"}]}]'
B = (
    '[{"query": "a", "web_page_info_list": [{"title": "U", "url": "http://X.org/p/", "snippet": "two", "date": "2020"}, '
    '{"title": "U", "url": "https://x.org/p", "snippet": "one"}, {"title": "bare", "url": "https://x.org/q"}]}]'
)
V = "The useful information in https://x.org/p for user goal g as follows: \n\nEvidence in page: \nthree\n\nSummary: \nfour"
DEAD = "The useful information in https://x.org/gone for user goal g as follows: \n\nSummary: \nIt could not be accessed."


def call(name: str, **arguments) -> ToolCall:
    return ToolCall(name=name, arguments=arguments)


def episode(id: str, *turns: tuple[tuple[ToolCall, ...], str]) -> Trajectory:
    nodes = [Node(parent=None, role=Role.USER, kind=NodeKind.QUESTION, text="?")]
    for calls, said in turns:
        nodes.append(Node(parent=len(nodes) - 1, role=Role.ASSISTANT, kind=NodeKind.TURN, text="…", calls=calls))
        text = f"<tool_response>\n{said}\n</tool_response>"
        nodes.append(Node(parent=len(nodes) - 1, role=Role.USER, kind=NodeKind.OBSERVATION, text=text))
    return Trajectory(id=id, question=Question(id="q", text="?"), nodes=tuple(nodes), leaf=len(nodes) - 1, ending=None)


SEARCH = call("search", query=["a"])
VISIT = call("visit", url=["https://x.org/p"], goal="g")


def test_a_page_is_the_union_of_what_was_seen():
    pages, report = pages_from_trajectories([episode("t", ((SEARCH,), A), ((SEARCH,), B), ((VISIT,), V), ((VISIT,), DEAD))])
    assert [page.url for page in pages] == ["https://x.org/p", "https://x.org/q"]
    assert (pages[0].title, pages[0].date, pages[0].text) == ("T", "2020", "one\n\ntwo\n\nthree\n\nfour")
    assert pages[1].text == "bare"
    assert (report.result_lists, report.hits, report.extracts, report.dead_extracts) == (2, 4, 2, 1)
    assert (report.searched_urls, report.urls, report.pages, report.textless) == (3, 4, 2, 1)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("search", {"query": "a"}),
        ("search", {"queries": ["a"]}),
        ("Search", {"query": ["a"]}),
        ("google_search", {"query": '["a"]'}),
    ],
)
def test_one_key_for_the_families_ways_of_asking(name, arguments):
    assert call_key(name, arguments) == call_key("search", {"query": ["a"]})


def test_keys_count_to_the_letter():
    keys = [call_key("search", {"query": query}) for query in (["a"], ["A"], ["a "], ["a", "b"], ["b", "a"], [], "", 3, None)]
    keys += [call_key("visit", {"url": "a", "goal": "g"}), call_key("visit", {"url": "a"})]
    keys += [call_key("python", {"query": ["a"]})]
    assert len(set(keys)) == len(keys)
    assert call_key("fetch_url", {"purpose": "g", "url": "a"}) == call_key("visit", {"url": ["a"], "goal": "g"})


def test_repeated_calls_with_differing_answers():
    table = ReplayTable.from_trajectories(
        [
            episode("t", ((SEARCH,), "t0"), ((VISIT,), "t1"), ((SEARCH,), "t2")),
            episode("u", ((SEARCH,), "u0")),
        ]
    )
    ask = lambda *args, **kwargs: table.lookup("search", {"query": "a"}, *args, **kwargs)  # noqa: E731
    assert [ask(occurrence=n) for n in range(4)] == ["t0", "t2", "t2", "t2"]
    assert [ask("u", n) for n in range(2)] == ["u0", "u0"]
    assert [ask("t", 0, ordinal) for ordinal in range(3)] == ["t0", "t0", "t2"]
    assert ask("unknown") == "t0"
    assert table.lookup("search", {"query": "b"}) is None


def test_a_turn_with_several_calls_is_one_key():
    table = ReplayTable.from_trajectories([episode("t", ((SEARCH, VISIT), "both"))])
    assert table.lookup("search", {"query": ["a"]}) is None
    assert table.call_keys() == {call_key("search", SEARCH.arguments), call_key("visit", VISIT.arguments)}


def test_a_saved_table_answers_the_same(tmp_path):
    odd = 'x\u2028\x00 "\ud83d"\n\n'
    table = ReplayTable.from_trajectories([episode("t", ((SEARCH,), odd), ((SEARCH,), "later"))])
    table.save(tmp_path / "r.jsonl")
    again = ReplayTable.load(tmp_path / "r.jsonl")
    assert len(again) == 2
    assert [again.lookup("search", {"query": "a"}, occurrence=n) for n in (0, 1)] == [odd, "later"]
    with pytest.raises(UserError, match="no replay table"):
        ReplayTable.load(tmp_path / "none.jsonl")
    (tmp_path / "r.jsonl").write_text('{"calls": []}\n')
    with pytest.raises(UserError, match="Line 1"):
        ReplayTable.load(tmp_path / "r.jsonl")


def test_questions_with_accepted_answers_are_kept_once():
    asked = [("a", "Which?", ("x",)), ("b", "Who?", ()), ("a", "Which?", ("y",)), ("c", " ", ("z",)), ("d", "When?", ("1",))]
    questions = [Question(id=id, text=text, answers=answers) for id, text, answers in asked]
    episodes = [episode(str(n)).model_copy(update={"question": question}) for n, question in enumerate(questions)]
    assert answerable_questions(episodes) == [questions[0], questions[4]]
