"""Replies of judges: what is read from each, and what is not. None is unreadable, never wrong."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.record import Question
from sanderling.judge.prompts import PROMPTS, set_scores
from sanderling.judge.verdict import Grade, Verdict

QUESTION = Question(id="q", text="Capital of Norway?", answers=("Oslo",))


def read(key: str, reply: str, question: Question = QUESTION) -> Verdict | None:
    return PROMPTS[key].read(reply, question)


def correct(key: str, reply: str) -> bool | None:
    found = read(key, reply)
    assert found is None or found.score == float(found.correct is True)
    return found and found.correct


LINES = [
    ("reasoning: the same city\ncorrect: yes", True), ("correct: no", False), ("**Correct:** No.", False),
    ("- correct = YES", True), ('{"correct": true}', True),
    ('```json\n{"reasoning": "correct: no is wrong", "correct": "yes"}\n```', True), ('{"judgement": "Incorrect"}', False),
    ('{"Verdict": "correct"}', True), ("Correct", True), ("incorrect.", False), ("", None), ("I think it is correct.", None),
    ("correct: maybe", None), ("is it correct: yes or no?", None), ("correct: yes\ncorrect: no", None),
    ('{"correct": 1}', None), ('{"correct": null}', None), ("incorrect: yes", None), ("correct: yesterday", None),
    ('{"correct": "yes"', None), ("correct: yes/no", None), ("correct: yes or no", None),
    ("correct: yes/no\ncorrect: no", False), ("correct： yes", True), ('{"correct": true, "verdict": "incorrect"}', None),
    ('{"correct": "yes", "correct": "no"}', None), ('{\n  "correct": "yes",\n  "confidence": 3\n}', True),
    ("correct: no wait, yes", None), ("correct: yes but only partly", None), ("correct: yes, no difference", None),
    ("correct: yes (the same)", None), ("correct: no wait, yes\ncorrect: yes", True), ("**correct: yes.**", True),
    ("correct: 'no'.", False), ("> correct: yes", None), ("<think>correct: no</think>\nthe same city\ncorrect: yes", True),
    ("correct: yes\n</think>\ncorrect: no", False), ("<think>\ncorrect: yes", None), ("correct: yes\r\n", True),
    ("reasoning: no\r\ncorrect: no\r\nthat is all", False),
]  # fmt: skip

WORDS = [
    ("CORRECT", True), ("INCORRECT", False), ("correct.", True), ("Incorrect!", False), ("**CORRECT**", True),
    ('"INCORRECT"', False), ("`Correct`", True), ("[INCORRECT]", False), ("- CORRECT", True),
    ("The two differ in the year.\n\nINCORRECT", False), ("GRADE: CORRECT", True),
    ("They are the same.\n**Grade:** incorrect", False), ("Grade： CORRECT", True), ("Verdict: CORRECT, the same city.", True),
    ("CORRECT\nGRADE: CORRECT", True), ("<think>INCORRECT at first sight</think>\nCORRECT", True), ("", None),
    ("   \n\n", None), ("The answer is correct.", None), ("The answer is not correct.", None), ("NOT CORRECT", None),
    ("Correct answer: Oslo", None), ("CORRECT\nINCORRECT", None), ("CORRECT or INCORRECT", None),
    ("GRADE: CORRECT or INCORRECT", None), ("GRADE: CORRECT/INCORRECT", None), ("PARTIALLY CORRECT", None),
    ("Although the year differs, it is right", None), ("Error", None), ("None", None), ("A", None), ("yes", None),
    ("> CORRECT", None), ("<think>It is CORRECT, since", None), ("GRADE: maybe\nCORRECT", None),
    ("Correct, but the year is another: GRADE: INCORRECT", None),
]  # fmt: skip

FIVE = "extracted_final_answer: Oslo\ncorrect_answer: Oslo\nreasoning: the same city\ncorrect: {}\nconfidence: 80%"
FIELDS = [
    (FIVE.format("yes"), True), (FIVE.format("no"), False), (FIVE.format("**Yes**"), True), (FIVE.format("NO."), False),
    (FIVE.replace("\n", "\n\n").format("yes"), True), (FIVE.replace("correct:", "**correct:**").format("yes"), True),
    ("correct: yes", True), ("**correct:** yes", True), ("**Correct**: no", False), ('"correct": "Yes"', True),
    ("correct : YES.", True), ("correct： no", False), ("- correct: yes", True), ("4. correct: no", False),
    ("[correct]: yes", True), ("correct = no", False), ("correct:\nyes", True), ("correct: yes, the same city", True),
    ("correct: no (another year)", False), ("correct: yes\ncorrect: yes", True), ("```\n" + FIVE.format("no") + "\n```", False),
    ('{"correct": "yes", "confidence": 90}', True), ("<think>correct: no</think>correct: yes", True),
    ("correct: yes\ncorrect: no", None), ("correct: yes/no", None), ("correct: yes or no", None), ("correct: [yes/no]", None),
    ("correct: yes/no\ncorrect: no", None), ("correct: yes, no", None), ("correct: yes but only in part", None),
    ("correct: yesterday", None), ("correct: maybe", None), ("correct:", None), ("incorrect: yes", None),
    ("correct_answer: yes", None), ("I hold it for correct: yes", None), ("is it correct: yes", None), ("> correct: yes", None),
    ("yes", None), ("", None), ("None", None), ("Error: rate limit", None), ("<think>well, correct: yes\ncorrect: yes", None),
    ("correct: yes\n{\"correct\": \"no\"}", None), ('{"correct": "yes", "correct": "no"}', None),
]  # fmt: skip

ZH_FIVE = "提取的最终答案：奥斯陆\n正确答案：奥斯陆\n推理：同一座城市\n正确：{}\n置信度：80%"

ZH_FIELDS = [
    (ZH_FIVE.format("是"), True), (ZH_FIVE.format("否"), False), (ZH_FIVE.format("正确"), True),
    (ZH_FIVE.format("不正确"), False), (ZH_FIVE.format("**否**。"), False), ("correct：yes。", True),
    ("correct：no，年份不同", False), ("是否正确：是", True), ("正确：是，同一座城市", True), ("**正确**：否", False),
    ("｛“correct”：“yes”｝", True), ('{"正确": "否"}', False), ("<think>正确：否</think>\n正确：是", True),
    ("正确：是\ncorrect: yes", True), ("正确：是\ncorrect: no", None), ("正确：是/否", None), ("正确：是否", None),
    ("正确：不确定", None), ("正确：", None), ("正确答案：是", None), ("答案正确", None), ("正确", None),
    ("我认为正确：是", None), ("> 正确：是", None), ("正确：是，但不正确的地方不少", None), ("", None),
]  # fmt: skip

XB = "最终答案: 奥斯陆\n解释: 同一座城市\n结论: {}"
CONCLUSIONS = [
    (XB.format("正确"), True), (XB.format("错误"), False), (XB.format("不正确"), False),
    (XB.replace(": ", "：").format("正确"), True), (XB.replace(": ", "：").format("错误。"), False),
    (XB.replace("结论", "**结论**").format("正确"), True), (XB.replace("\n", "\n\n").format("“正确”"), True),
    ("结论：正确", True), ("结论: 错误", False), ("结论 : 正确！", True), ("**结论：** 错误", False), ("- 结论：正确", True),
    ("3. 结论：错误", False), ("结论：\n正确", True), ("结论：错误（年份不同）", False), ("结论：正确，两者相同", True),
    ('{"最终答案": "奥斯陆", "解释": "相同", "结论": "正确"}', True), ("<think>结论：错误</think>结论：正确", True),
    ("结论：正确\n结论：正确", True), ("结论：正确\n结论：错误", None), ("结论：正确/错误", None), ("结论：正确或错误", None),
    ("结论：部分正确", None), ("结论：无法判断", None), ("结论：", None), ("结论：correct", None), ("最终答案: 正确", None),
    ("答案是正确的", None), ("正确", None), ("> 结论：正确", None), ("由此得出结论：正确", None), ("", None),
    ("<think>结论：正确", None),
]  # fmt: skip

REPLIES = [
    *(("ours", *row) for row in LINES), *(("word", *row) for row in WORDS), *(("browsecomp", *row) for row in FIELDS),
    *(("browsecomp-zh", *row) for row in ZH_FIELDS), *(("xbench", *row) for row in CONCLUSIONS),
]  # fmt: skip


@pytest.mark.parametrize(("key", "reply", "found"), REPLIES)
def test_right_wrong_or_unreadable(key: str, reply: str, found: bool | None) -> None:
    assert correct(key, reply) is found


@pytest.mark.parametrize(
    ("said", "kept"),
    [("80%", 80.0), ("80", 80.0), ("80 %。", 80.0), ("0", 0.0), ("100%", 100.0), ("0.9", 0.9), ("87.5%", 87.5),
     ("８０％", 80.0),
     ("about 90", None), ("900", None), ("-1", None), ("–1", None), ("None", None), ("", None), ("high", None),
     ("80% or 90%", None)],
)  # fmt: skip
def test_confidence_is_kept_as_said_or_none(said: str, kept: float | None) -> None:
    """And never makes a verdict unreadable."""
    found = read("browsecomp", f"correct: yes\nconfidence: {said}")
    assert found is not None and found.correct and found.confidence == kept


def test_a_verdict_quoted_in_the_reasoning_is_none() -> None:
    reply = 'extracted_final_answer: Oslo\nreasoning: it says "correct: yes" of itself, and\n> correct: yes\ncorrect: no'
    assert correct("browsecomp", reply) is False
    assert correct("browsecomp", "extracted_final_answer: x\nreasoning: y\ncorrect: yes\nreasoning: z\ncorrect: no") is None


@given(st.sampled_from(sorted(PROMPTS)), st.text() | st.sampled_from([reply for _, reply, _ in REPLIES]))
def test_no_reply_breaks_a_reader(key: str, reply: str) -> None:
    found = read(key, reply)
    assert found is None or 0.0 <= (found.score or 0.0) <= 1.0


@pytest.mark.parametrize("key", sorted(PROMPTS))
@pytest.mark.parametrize(
    "piece", ["x", "\n", "{", '{"', '{"a":', "correct: ", "* ", " ", "[", "<think>", "correct yes\n", "结论：", "-"]
)
def test_a_giant_reply_is_read_in_a_moment(key: str, piece: str) -> None:
    """Linear time: what is not would take minutes here."""
    assert read(key, piece * (300_000 // len(piece))) is None


GOOD = '{"extracted_final_answer": "Oslo", "reasoning": "the same", "correct": "yes", "confidence": 85, "strict": true}'
BAD = GOOD.replace('"yes"', '"no"')


EXAMS = [
    (GOOD, True, 85.0), (BAD, False, 85.0), (GOOD.replace('"yes"', '"Yes"'), True, 85.0),
    (GOOD.replace('"yes"', '"NO."'), False, 85.0), (GOOD.replace('"yes"', "true"), True, 85.0),
    (GOOD.replace('"yes"', "false"), False, 85.0), (json.dumps(json.loads(GOOD), indent=2), True, 85.0),
    (f"```json\n{BAD}\n```", False, 85.0), (f"Here it is:\n\n{GOOD}\n\nDone.", True, 85.0), (f"{GOOD}\n{GOOD}", True, 85.0),
    (f"[{BAD}]", False, 85.0), (GOOD.replace("85", '"85%"'), True, 85.0), (GOOD.replace("85", '"85"'), True, 85.0),
    (GOOD.replace("85", "0.9"), True, 0.9), (GOOD.replace("85", '"about 90"'), True, None),
    (GOOD.replace("85", "900"), True, None), (GOOD.replace("85", "-1"), True, None), (GOOD.replace("85", "NaN"), True, None),
    (GOOD.replace("85", "Infinity"), True, None), (GOOD.replace("85", "null"), True, None),
    (GOOD.replace("85", "true"), True, None), (GOOD.replace("85", "[85]"), True, None), ('{"correct": "yes"}', True, None),
    (f"<think>{BAD}</think>{GOOD}", True, 85.0), (r"With \frac{1}{2} and \sqrt{3}: " + GOOD, True, 85.0),
    ("correct: no\nconfidence: 10%", False, 10.0),
    (GOOD.replace('"the same"', '"it says {\\"correct\\": \\"no\\"}"'), True, 85.0),
    (GOOD.replace('"Oslo"', '"Oslo\\ncorrect: no"'), True, 85.0), (f"{GOOD}\n{BAD}", None, None),
    (GOOD.replace('"strict": true', '"correct": "no"'), None, None),
    (GOOD.replace('"strict": true', '"correct": "yes"'), True, 85.0),
    (GOOD.replace('"strict": true', '"Correct": "no"'), None, None), (f"{GOOD}\ncorrect: no", None, None),
    (GOOD.replace('"yes"', '"maybe"'), None, None), (GOOD.replace('"yes"', '"yes/no"'), None, None),
    (GOOD.replace('"yes"', '"yes, but no"'), None, None), (GOOD.replace('"yes"', "null"), None, None),
    (GOOD.replace('"yes"', "1"), None, None), (GOOD.replace('"correct"', '"correctness"'), None, None),
    (GOOD.replace('"correct": "yes", ', ""), None, None), (GOOD[:-1], None, None), (GOOD.replace('"', "'"), None, None),
    (GOOD.replace("true}", "true,}"), None, None), ("{" * 2_000 + GOOD, None, None), ('"correct"', None, None),
    ("{}", None, None), ("null", None, None), ("", None, None), (f"<think>{GOOD}", None, None),
    ("The answer is correct, with a confidence of 85%.", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "right", "confidence"), EXAMS)
def test_an_exams_object(reply: str, right: bool | None, confidence: float | None) -> None:
    found = read("hle", reply)
    assert (found and found.correct, found and found.confidence) == (right, confidence)
    assert found is None or (found.score == float(found.correct is True) and found.excessive == () and found.parts == {})


def test_what_is_kept_of_an_exams_object() -> None:
    found = read("hle", GOOD)
    assert found is not None and (found.extracted, found.reason) == ("Oslo", "the same")
    long = read("hle", GOOD.replace("Oslo", "O" * 9_000))
    assert long is not None and long.extracted is not None and len(long.extracted) == 500


PLANETS = Question(id="q", text="Which planets?", answers=("Mars", "Venus", "The Earth"))


def said(details: object, excessive: object = (), explanation: str = "so") -> str:
    inner = {"Explanation": explanation, "Correctness Details": details, "Excessive Answers": excessive}
    return json.dumps({"Answer Correctness": inner})


ALL = {"Mars": True, "Venus": True, "The Earth": True}
TWO = {"Mars": True, "Venus": False, "The Earth": True}
NONE = dict.fromkeys(ALL, False)

SET_REPLIES = [
    (said(ALL), Grade.CORRECT, 1.0), (said(ALL, ["Pluto"]), Grade.CORRECT_WITH_EXTRA, 6 / 7),
    (said(ALL, ["Pluto", "the Sun", "the Moon"]), Grade.CORRECT_WITH_EXTRA, 2 / 3), (said(TWO), Grade.PARTLY, 4 / 5),
    (said(TWO, ["Pluto"]), Grade.PARTLY, 2 / 3), (said(NONE), Grade.INCORRECT, 0.0),
    (said(NONE, ["Pluto"]), Grade.INCORRECT, 0.0),
    (said({key.lower(): value for key, value in ALL.items()}), Grade.CORRECT, 1.0),
    (said({"Earth": True, "Venus": True, "Mars.": True}), Grade.CORRECT, 1.0),
    (said(dict.fromkeys(ALL, "true")), Grade.CORRECT, 1.0), (said({**TWO, "Venus": "False"}), Grade.PARTLY, 4 / 5),
    (f"```json\n{said(ALL)}\n```", Grade.CORRECT, 1.0), (json.dumps(json.loads(said(TWO)), indent=1), Grade.PARTLY, 4 / 5),
    (f"Well. {said(ALL)}", Grade.CORRECT, 1.0), (said(ALL) + said(ALL), Grade.CORRECT, 1.0),
    (json.dumps(json.loads(said(ALL))["Answer Correctness"]), Grade.CORRECT, 1.0),
    (said(ALL).replace("Answer Correctness", "answer_correctness").replace("Correctness Details", "correctness_details"),
     Grade.CORRECT, 1.0),
    (f"<think>{said(NONE)}</think>{said(ALL)}", Grade.CORRECT, 1.0), (said(ALL, ["", " "]), None, None),
    (said(ALL, "Pluto"), None, None), (said(ALL, [7]), None, None), (said(ALL, None), None, None), (said({}), None, None),
    (said([]), None, None), (said({"Mars": True, "Venus": True}), None, None), (said({**ALL, "Pluto": False}), None, None),
    (said({"Mars": True, "Venus": True, "Terra": True}), None, None), (said({"Mars, Venus and the Earth": True}), None, None),
    (said({**ALL, "Venus": None}), None, None), (said({**ALL, "Venus": 1}), None, None),
    (said({**ALL, "Venus": "partly"}), None, None), (said(ALL) + said(TWO), None, None),
    (said(ALL).replace('"Venus": true', '"Mars": false, "Venus": true'), None, None),
    (said(ALL).replace('"Excessive Answers"', '"Excess"'), None, None), (said(ALL)[:-2], None, None),
    ("All three were found.", None, None), ('{"Answer Correctness": "all"}', None, None), ("[]", None, None), ("", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "grade", "score"), SET_REPLIES)
def test_sets(reply: str, grade: Grade | None, score: float | None) -> None:
    found = read("sets", reply, PLANETS)
    assert (found and found.grade, found and found.score) == (grade, score and pytest.approx(score))
    assert found is None or found.correct is (grade is Grade.CORRECT)
    assert found is None or len(found.parts) == 3


@given(st.dictionaries(st.text(min_size=1), st.booleans(), min_size=1), st.lists(st.text(min_size=1), max_size=5))
def test_the_scores_of_a_set(parts: dict[str, bool], excessive: list[str]) -> None:
    """Against the textbook: F1 = 2 TP / (2 TP + FP + FN)."""
    right, wrong, missed = sum(parts.values()), len(excessive), len(parts) - sum(parts.values())
    precision, recall, f1 = set_scores(parts, excessive)
    assert f1 == pytest.approx(2 * right / (2 * right + wrong + missed)) and 0.0 <= precision <= 1.0
    assert (f1 == 1.0) == (not wrong and not missed) and (recall == 1.0) == (not missed)


KEYS = st.sampled_from(["Correctness Details", "Excessive Answers", "Answer Correctness", "correct"]) | st.text()
LEAVES = st.none() | st.booleans() | st.floats() | st.text()


@given(st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)))
def test_no_object_breaks_a_reader(value: object) -> None:
    for key in ("hle", "sets"):
        found = read(key, json.dumps(value), PLANETS)
        assert found is None or 0.0 <= (found.score or 0.0) <= 1.0
