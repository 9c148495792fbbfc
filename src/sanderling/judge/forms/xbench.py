"""xBench-DeepSearch: final answer, explanation and conclusion, in Chinese. The accepted text itself needs no judge."""

from sanderling.core.record import Question
from sanderling.judge.forms.contract import Form, Reading, material, version_of
from sanderling.judge.forms.words import MATERIAL_ZH, REMINDER_ZH, SAME_ZH
from sanderling.judge.reading_verdicts import Labels, read_fields

_SYSTEM = (
    "下面给出一个问题、它的标准答案和一份最终回答。请判断最终回答是否正确。\n"
    f"{SAME_ZH}\n{MATERIAL_ZH}\n"
    "请依次用以下三行回复：\n"
    "最终答案: 最终回答里给出的确切答案；没有则写“无”\n"
    "解释: 用一两句话说明它与标准答案的差别，或说明没有差别\n"
    "结论: 一致写“正确”，不一致写“错误”"
)
_READER = "fields xbench 1"
_LABELS = Labels(
    extracted=frozenset({"最终答案"}),
    reasoning=frozenset({"解释"}),
    verdict=frozenset({"结论"}),
    confidence=frozenset(),
    others=frozenset({"标准答案", "正确答案"}),
    words={"正确": True, "错误": False, "不正确": False},
)


def _read(reply: str, question: Question) -> Reading | None:
    found = read_fields(reply, _LABELS)
    return found and Reading(found.correct, float(found.correct), extracted=found.extracted, reason=found.reasoning)


XBENCH = Form(
    key="xbench",
    about="three lines in Chinese, the last one 结论: 正确 or 错误; equal texts pass without a judge",
    system=_SYSTEM,
    read=_read,
    version=version_of(_SYSTEM, REMINDER_ZH, _READER),
    layout=material,
    reminder=REMINDER_ZH,
    same_text_is_right=True,
)
