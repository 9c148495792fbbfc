"""Episodes in one text, and turns that call in another system's words."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.record import NodeKind
from sanderling.data.importers import import_file
from sanderling.data.importers.transcript import pieces
from sanderling.data.importers.written import read_written

QUESTION = "Which river runs through Tovrel?"


def save(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def one(tmp_path, entry):
    """The one trajectory of a file with this entry; nothing of it is raw."""
    result = import_file(save(tmp_path / "a.json", [entry]))
    (found,) = result.trajectories
    assert result.report.messages == result.report.kept
    return found


def kinds(t):
    return [node.kind.value for node in t.nodes]


def called(t):
    return [(call.name, call.arguments) for node in t.nodes for call in node.calls]


STEPS = [
    "Thought: search it\nAction: search[Tovrel river]",
    "Observation: the Ulm",
    "Thought: it says so\nAction: finish[Ulm]",
    "Observation: Episode finished, reward = True",
]


def test_react_in_one_text_after_an_instruction(tmp_path):
    prompt = f"Do it.\n\n### Instruction:\n{QUESTION}\n\n### Response:\n"
    t = one(tmp_path, {"gt": "ulm", "prompt": "", "traj": prompt + "\n".join(STEPS) + "\n"})
    assert kinds(t) == ["system", "question", "turn", "observation", "turn", "observation"]
    assert t.question.text == QUESTION
    assert t.question.answers == ("ulm",)
    assert (t.answer, t.leaf) == ("Ulm", 4)


@pytest.mark.parametrize(
    ("text", "name", "arguments", "think"),
    [
        ("Thought: a\nAction: get_relations(b)", "get_relations", {"input": "b"}, "a"),
        ("<function=search>\n<parameter=query>\nb\nc\n</parameter>\n</function>", "search", {"query": "b\nc"}, None),
        ("<think>a</think><tool_call>\n<function=s>\n</function>\n</tool_call>", "s", {}, "a"),
        ("Thought: a\nAction: lookup[b c]", "lookup", {"input": "b c"}, "a"),
        ('Thought: a\nAction: visit\nAction Input: {"url": "u"}', "visit", {"url": "u"}, "a"),
        ("Thought: a\nAction: visit\nAction Input: u", "visit", {"url": "u"}, "a"),
        ("<think>a</think>\n<search> b </search>", "search", {"query": "b"}, "a"),
        ("<think>a <|begin_search_query|>b<|end_search_query|>", "search", {"query": "b"}, "a"),
        ("<think>a</think><|begin_click_link|>u<|end_click_link|>", "visit", {"url": "u"}, "a"),
        ("<python>\nprint(1)\n</python>", "python", {"code": "print(1)"}, None),
    ],
)
def test_calls_in_other_words(text, name, arguments, think):
    found = read_written(text)
    assert found is not None
    assert [(call.name, call.arguments) for call in found.calls] == [(name, arguments)]
    assert (found.think, found.said) == (think, "")


@pytest.mark.parametrize(
    "text", ["An action: go[on] and on", "<think>one may <search>x</search></think> so", "Action: none", "", "I <search> it"]
)
def test_words_that_call_nothing(text):
    assert read_written(text) is None


def test_a_message_of_a_call_may_spell_it_in_other_words(tmp_path):
    call = "I look.\n\n<function=search>\n<parameter=query>Tovrel</parameter>\n</function>"
    talk = [("human", QUESTION), ("function_call", call), ("observation", "the Ulm"), ("gpt", "The Ulm.")]
    t = one(tmp_path, {"conversations": [{"from": role, "value": text} for role, text in talk]})
    assert kinds(t) == ["question", "turn", "observation", "turn"]
    assert called(t) == [("search", {"query": "Tovrel"})]
    assert "I look." in t.nodes[1].text and t.answer == "The Ulm."


def test_a_final_answer_of_react():
    found = read_written("Thought: a\nFinal Answer: 42")
    assert found is not None
    assert (found.think, found.answer, found.calls) == ("a", "42", ())


CALL = """<think>
hm
</think>

<use_mcp_tool>
<server_name>tool-google-search</server_name>
<tool_name>google_search</tool_name>
<arguments>
{"q": "Tovrel river"}
</arguments>
</use_mcp_tool>"""


CHAT = f"<|im_start|>system\nsys<|im_end|>\n<|im_start|>user\nAnswer. Question: {QUESTION}\n<|im_end|>\n<|im_start|>assistant\n"
LOOP = (
    "<think>search it</think>\n<search>Tovrel river</search>\n\n<information>Doc 1: the Ulm</information>\n\n"
    "<think>found</think>\n<answer>Ulm</answer>"
)


@pytest.mark.parametrize(
    ("entry", "head"),
    [
        ({"input": CHAT, "output": LOOP, "gts": {"target": ["Ulm"]}, "score": 1.0, "step": 7}, ["system", "question"]),
        (
            {"input": "system\nsys\nuser\nQuestion: " + QUESTION + "\nassistant\n", "output": LOOP, "gts": "Ulm"},
            ["system", "question"],
        ),
        ({"prompt": [{"role": "user", "content": QUESTION}], "response": LOOP, "answer": "Ulm"}, ["question"]),
        ({"question": QUESTION, "answer": "Ulm", "output": LOOP}, ["question"]),
    ],
)
def test_a_rollout_in_one_text(tmp_path, entry, head):
    t = one(tmp_path, entry)
    assert t.meta["layout"] == "transcript"
    assert kinds(t) == [*head, "turn", "observation", "turn"]
    assert called(t) == [("search", {"query": "Tovrel river"})]
    assert [node.think for node in t.nodes if node.kind is NodeKind.TURN] == ["search it", "found"]
    assert (t.question.text, t.question.answers, t.answer) == (QUESTION, ("Ulm",), "Ulm")
    assert "Doc 1: the Ulm" in t.nodes[-2].text and "information" not in t.nodes[-2].text


def test_reasoning_that_the_prompt_opened_goes_on_after_each_result(tmp_path):
    text = (
        "I look. <|begin_of_query|>Tovrel<|end_of_query|>\n<|begin_of_documents|>\n(1) the Ulm\n<|end_of_documents|>\n"
        "It is the Ulm. </think>\n<answer> Ulm </answer>"
    )
    t = one(tmp_path, {"question": QUESTION, "answer": "Ulm", "gen_text_store": text})
    assert [node.think for node in t.nodes if node.kind is NodeKind.TURN] == ["I look.", "It is the Ulm."]
    assert called(t) == [("search", {"query": "Tovrel"})]
    assert t.answer == "Ulm"


def test_a_rollout_with_its_chat_turns_in_the_text(tmp_path):
    text = CALL + '\nuser\n{"organic": []}\nassistant\n<think>\nso\n</think>\n\nUlm'
    t = one(
        tmp_path, {"prompt_str": f"system\nsys\nuser\n{QUESTION}\nassistant\n", "response_str": text, "ground_truth": "Ulm"}
    )
    assert kinds(t) == ["system", "question", "turn", "observation", "turn"]
    assert (t.nodes[2].think, t.nodes[4].think, t.answer) == ("hm", "so", "Ulm")


def test_questions_with_a_solution_stay_questions(tmp_path):
    entry = {"question": QUESTION, "answer": "Ulm", "solution": "It is the Ulm.", "output": "Ulm"}
    result = import_file(save(tmp_path / "a.json", [entry]))
    assert not result.trajectories
    assert [question.answers for question in result.questions] == [("Ulm",)]


_MARKS = [
    "<think>",
    "</think>",
    "<search>",
    "</search>",
    "<information>",
    "</information>",
    "<tool_response>",
    "</tool_response>",
    "<answer>",
    "<|begin_of_documents|>",
    "<|begin_search_query|>",
    "<|end_search_query|>",
]
_WORDS = st.lists(st.sampled_from([*_MARKS, "a ", "b\n", "\nObservation: ", "Action: s[x]"]), max_size=12).map("".join)


@given(_WORDS)
def test_nothing_of_a_text_but_blanks_is_left_out_of_its_pieces(text):
    kept = "".join(unit.original["content"] for unit in pieces(text))
    assert "".join(kept.split()) == "".join(text.split())


@given(_WORDS)
def test_other_words_are_read_or_left_but_never_raise(text):
    found = read_written(text)
    assert found is None or found.calls or found.answer
