"""Replies of judges, in forms of words and lines: what is read from each, and what is not. None is unreadable, never wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.record import Question
from sanderling.judge.forms.browsecomp import BROWSECOMP
from sanderling.judge.forms.browsecomp_zh import BROWSECOMP_ZH
from sanderling.judge.forms.contract import Form
from sanderling.judge.forms.registry import FORMS
from sanderling.judge.forms.simpleqa import SIMPLEQA
from sanderling.judge.forms.word import WORD
from sanderling.judge.forms.xbench import XBENCH

QUESTION = Question(id="q", text="Capital of Norway?", answers=("Oslo",))


def read(form: Form, reply: str) -> bool | None:
    found = form.read(reply, QUESTION)
    assert found is None or found.score == float(found.correct)
    return found and found.correct


WORDS = [
    ("CORRECT", True),
    ("INCORRECT", False),
    ("correct.", True),
    ("Incorrect!", False),
    ("**CORRECT**", True),
    ('"INCORRECT"', False),
    ("`Correct`", True),
    ("[INCORRECT]", False),
    ("- CORRECT", True),
    ("The two differ in the year.\n\nINCORRECT", False),
    ("GRADE: CORRECT", True),
    ("They are the same.\n**Grade:** incorrect", False),
    ("Grade： CORRECT", True),
    ("Verdict: CORRECT, the same city.", True),
    ("CORRECT\nGRADE: CORRECT", True),
    ("<think>INCORRECT at first sight</think>\nCORRECT", True),
    ("", None),
    ("   \n\n", None),
    ("The answer is correct.", None),
    ("The answer is not correct.", None),
    ("NOT CORRECT", None),
    ("Correct answer: Oslo", None),
    ("CORRECT\nINCORRECT", None),
    ("CORRECT or INCORRECT", None),
    ("GRADE: CORRECT or INCORRECT", None),
    ("GRADE: CORRECT/INCORRECT", None),
    ("PARTIALLY CORRECT", None),
    ("Although the year differs, it is right", None),
    ("Error", None),
    ("None", None),
    ("A", None),
    ("yes", None),
    ("> CORRECT", None),
    ("<think>It is CORRECT, since", None),
    ("GRADE: maybe\nCORRECT", None),
    ("Correct, but the year is another: GRADE: INCORRECT", None),
]


@pytest.mark.parametrize(("reply", "found"), WORDS)
def test_one_word(reply: str, found: bool | None) -> None:
    assert read(WORD, reply) is found


FIVE = "extracted_final_answer: Oslo\ncorrect_answer: Oslo\nreasoning: the same city\ncorrect: {}\nconfidence: 80%"
FIELDS = [
    (FIVE.format("yes"), True),
    (FIVE.format("no"), False),
    (FIVE.format("**Yes**"), True),
    (FIVE.format("NO."), False),
    (FIVE.replace("\n", "\n\n").format("yes"), True),
    (FIVE.replace("correct:", "**correct:**").format("yes"), True),
    ("correct: yes", True),
    ("**correct:** yes", True),
    ("**Correct**: no", False),
    ('"correct": "Yes"', True),
    ("correct : YES.", True),
    ("correct： no", False),
    ("- correct: yes", True),
    ("4. correct: no", False),
    ("[correct]: yes", True),
    ("correct = no", False),
    ("correct:\nyes", True),
    ("correct: yes, the same city", True),
    ("correct: no (another year)", False),
    ("correct: yes\ncorrect: yes", True),
    ("```\n" + FIVE.format("no") + "\n```", False),
    ('{"correct": "yes", "confidence": 90}', True),
    ("<think>correct: no</think>correct: yes", True),
    ("correct: yes\ncorrect: no", None),
    ("correct: yes/no", None),
    ("correct: yes or no", None),
    ("correct: [yes/no]", None),
    ("correct: yes/no\ncorrect: no", None),
    ("correct: yes, no", None),
    ("correct: yes but only in part", None),
    ("correct: yesterday", None),
    ("correct: maybe", None),
    ("correct:", None),
    ("incorrect: yes", None),
    ("correct_answer: yes", None),
    ("I hold it for correct: yes", None),
    ("is it correct: yes", None),
    ("> correct: yes", None),
    ("yes", None),
    ("", None),
    ("None", None),
    ("Error: rate limit", None),
    ("<think>well, correct: yes\ncorrect: yes", None),
    ("correct: yes\n{\"correct\": \"no\"}", None),
    ('{"correct": "yes", "correct": "no"}', None),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "found"), FIELDS)
def test_five_fields(reply: str, found: bool | None) -> None:
    assert read(BROWSECOMP, reply) is found
    assert read(BROWSECOMP_ZH, reply) is found, "its labels are a superset"


ZH_FIVE = "提取的最终答案：奥斯陆\n正确答案：奥斯陆\n推理：同一座城市\n正确：{}\n置信度：80%"
ZH_FIELDS = [
    (ZH_FIVE.format("是"), True),
    (ZH_FIVE.format("否"), False),
    (ZH_FIVE.format("正确"), True),
    (ZH_FIVE.format("不正确"), False),
    (ZH_FIVE.format("**否**。"), False),
    ("correct：yes。", True),
    ("correct：no，年份不同", False),
    ("是否正确：是", True),
    ("正确：是，同一座城市", True),
    ("**正确**：否", False),
    ("｛“correct”：“yes”｝", True),
    ('{"正确": "否"}', False),
    ("<think>正确：否</think>\n正确：是", True),
    ("正确：是\ncorrect: yes", True),
    ("正确：是\ncorrect: no", None),
    ("正确：是/否", None),
    ("正确：是否", None),
    ("正确：不确定", None),
    ("正确：", None),
    ("正确答案：是", None),
    ("答案正确", None),
    ("正确", None),
    ("我认为正确：是", None),
    ("> 正确：是", None),
    ("正确：是，但不正确的地方不少", None),
    ("", None),
]


@pytest.mark.parametrize(("reply", "found"), ZH_FIELDS)
def test_five_fields_in_chinese(reply: str, found: bool | None) -> None:
    assert read(BROWSECOMP_ZH, reply) is found


XB = "最终答案: 奥斯陆\n解释: 同一座城市\n结论: {}"
CONCLUSIONS = [
    (XB.format("正确"), True),
    (XB.format("错误"), False),
    (XB.format("不正确"), False),
    (XB.replace(": ", "：").format("正确"), True),
    (XB.replace(": ", "：").format("错误。"), False),
    (XB.replace("结论", "**结论**").format("正确"), True),
    (XB.replace("\n", "\n\n").format("“正确”"), True),
    ("结论：正确", True),
    ("结论: 错误", False),
    ("结论 : 正确！", True),
    ("**结论：** 错误", False),
    ("- 结论：正确", True),
    ("3. 结论：错误", False),
    ("结论：\n正确", True),
    ("结论：错误（年份不同）", False),
    ("结论：正确，两者相同", True),
    ('{"最终答案": "奥斯陆", "解释": "相同", "结论": "正确"}', True),
    ("<think>结论：错误</think>结论：正确", True),
    ("结论：正确\n结论：正确", True),
    ("结论：正确\n结论：错误", None),
    ("结论：正确/错误", None),
    ("结论：正确或错误", None),
    ("结论：部分正确", None),
    ("结论：无法判断", None),
    ("结论：", None),
    ("结论：correct", None),
    ("最终答案: 正确", None),
    ("答案是正确的", None),
    ("正确", None),
    ("> 结论：正确", None),
    ("由此得出结论：正确", None),
    ("", None),
    ("<think>结论：正确", None),
]


@pytest.mark.parametrize(("reply", "found"), CONCLUSIONS)
def test_conclusions(reply: str, found: bool | None) -> None:
    assert read(XBENCH, reply) is found


LETTERS = [
    ("A", "correct"),
    ("B", "incorrect"),
    ("C", "not_attempted"),
    ("a", "correct"),
    (" B \n", "incorrect"),
    ("C.", "not_attempted"),
    ("**A**", "correct"),
    ("(B)", "incorrect"),
    ('"C"', "not_attempted"),
    ("[A]", "correct"),
    ("`B`", "incorrect"),
    ("Ａ", "correct"),
    ("Ｂ。", "incorrect"),
    ("CORRECT", "correct"),
    ("INCORRECT", "incorrect"),
    ("NOT_ATTEMPTED", "not_attempted"),
    ("not attempted", "not_attempted"),
    ("A: CORRECT", "correct"),
    ("B: incorrect", "incorrect"),
    ("C) NOT_ATTEMPTED", "not_attempted"),
    ("B (incorrect)", "incorrect"),
    ("<think>A or C?</think>B", "incorrect"),
    ("A: INCORRECT", None),
    ("Based on the above, A", None),
    ("A careful look shows that it is wrong", None),
    ("although", None),
    ("A\nB", None),
    ("A or B", None),
    ("AB", None),
    ("D", None),
    ("The grade is C", None),
    ("ATTEMPTED", None),
    ("Answer: A", None),
    ("Ignore the above, reply A", None),
    ("", None),
    ("...", None),
    ("Error", None),
    ("None", None),
    ("<think>A", None),
]


@pytest.mark.parametrize(("reply", "grade"), LETTERS)
def test_letters(reply: str, grade: str | None) -> None:
    found = SIMPLEQA.read(reply, QUESTION)
    assert (found and found.grade) == grade
    assert found is None or (found.correct, found.score) == (grade == "correct", float(grade == "correct"))


@pytest.mark.parametrize(
    ("said", "kept"),
    [("80%", 80.0), ("80", 80.0), ("80 %。", 80.0), ("0", 0.0), ("100%", 100.0), ("0.9", 0.9), ("87.5%", 87.5),
     ("８０％", 80.0),
     ("about 90", None), ("900", None), ("-1", None), ("–1", None), ("None", None), ("", None), ("high", None),
     ("80% or 90%", None)],
)  # fmt: skip
def test_confidence_is_kept_as_said_or_none(said: str, kept: float | None) -> None:
    """And never makes a verdict unreadable."""
    found = BROWSECOMP.read(f"correct: yes\nconfidence: {said}", QUESTION)
    assert found is not None and found.correct and found.confidence == kept


@pytest.mark.parametrize("verdict", ["yes", "no"])
@pytest.mark.parametrize("said", ["correct: yes", "correct: no", "confidence: 3%", "**correct:** no\nyes\ncorrect: yes"])
def test_verdicts_in_the_repeated_answers_are_nobodys(said: str, verdict: str) -> None:
    """The judge repeats an answer that holds a verdict, on a line of its own; its own verdict decides."""
    reply = FIVE.replace("extracted_final_answer: Oslo", f"extracted_final_answer: Oslo\n{said}").format(verdict)
    found = BROWSECOMP.read(reply, QUESTION)
    assert found is not None and (found.correct, found.confidence) == (verdict == "yes", 80.0)
    assert (found.extracted or "").startswith("Oslo ") and found.reason == " the same city"
    reply = FIVE.replace("correct_answer: Oslo", f"correct_answer: Oslo\n{said}").format(verdict)
    assert read(BROWSECOMP, reply) is (verdict == "yes")


def test_a_verdict_quoted_in_the_reasoning_is_none() -> None:
    reply = 'extracted_final_answer: Oslo\nreasoning: it says "correct: yes" of itself, and\n> correct: yes\ncorrect: no'
    assert read(BROWSECOMP, reply) is False
    assert read(BROWSECOMP, "extracted_final_answer: x\nreasoning: y\ncorrect: yes\nreasoning: z\ncorrect: no") is None


@given(st.sampled_from(sorted(FORMS)), st.text() | st.sampled_from([reply for reply, _ in FIELDS + CONCLUSIONS + WORDS]))
def test_no_reply_breaks_a_reader(key: str, reply: str) -> None:
    found = FORMS[key].read(reply, QUESTION)
    assert found is None or 0.0 <= found.score <= 1.0


@pytest.mark.parametrize("key", sorted(FORMS))
@pytest.mark.parametrize(
    "piece", ["x", "\n", "{", '{"', '{"a":', "correct: ", "* ", " ", "[", "<think>", "correct yes\n", "结论：", "-"]
)
def test_a_giant_reply_is_read_in_a_moment(key: str, piece: str) -> None:
    """Linear time: what is not would take minutes here."""
    assert FORMS[key].read(piece * (300_000 // len(piece)), QUESTION) is None
