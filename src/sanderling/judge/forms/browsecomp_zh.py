"""BrowseComp-ZH: the five fields of BrowseComp, asked for in Chinese."""

from sanderling.core.record import Question
from sanderling.judge.forms.browsecomp import FIVE, READER
from sanderling.judge.forms.contract import Form, Reading, material, version_of
from sanderling.judge.forms.words import MATERIAL_ZH, REMINDER_ZH, SAME_ZH
from sanderling.judge.reading_verdicts import Labels, read_fields

_SYSTEM = (
    "下面给出一个问题、它的标准答案和一份最终回答。请指出最终回答实际给出的答案，并判断它是否正确。\n"
    f"{SAME_ZH}\n{MATERIAL_ZH}\n"
    "请依次用以下五行回复，字段名保持英文：\n"
    "extracted_final_answer: 最终回答里给出的确切答案；没有则写 None\n"
    "correct_answer: 标准答案\n"
    "reasoning: 用一两句话说明两者的差别，或说明没有差别\n"
    "correct: 一致写 yes，不一致写 no\n"
    "confidence: 最终回答自己声明的把握，0% 到 100%；没有声明则写 None"
)
_LABELS = Labels(
    extracted=FIVE.extracted | {"提取的最终答案", "提取答案", "最终答案"},
    reasoning=FIVE.reasoning | {"推理", "理由", "解释"},
    verdict=FIVE.verdict | {"正确", "是否正确", "判断"},
    confidence=FIVE.confidence | {"置信度", "信心"},
    others=FIVE.others | {"正确答案", "标准答案"},
    words={**FIVE.words, "是": True, "否": False, "正确": True, "错误": False, "不正确": False},
)


def _read(reply: str, question: Question) -> Reading | None:
    found = read_fields(reply, _LABELS)
    if found is None:
        return None
    correct, extracted = found.correct, found.extracted
    return Reading(correct, float(correct), extracted=extracted, confidence=found.confidence, reason=found.reasoning)


BROWSECOMP_ZH = Form(
    key="browsecomp-zh",
    about="the five lines of browsecomp, asked for in Chinese",
    system=_SYSTEM,
    read=_read,
    version=version_of(_SYSTEM, REMINDER_ZH, f"{READER} zh"),
    layout=material,
    reminder=REMINDER_ZH,
)
