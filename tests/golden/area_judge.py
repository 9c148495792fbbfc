"""Who was right: every rule on 2,000 answers, every model judge's prompt and reader, outages, books and a person's word."""
# ruff: noqa: E501 -- lists of odd texts read better on long lines

import asyncio
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from goldens import digest
from typer.testing import CliRunner

from sanderling.cli.main import build_app
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import AskingOutageError, AskingRefusedError, BudgetSpentError, Ending, Message, Reply, Usage
from sanderling.evaluate.figures import agreement
from sanderling.judge.prompts import PROMPTS, ModelJudge
from sanderling.judge.rules import rule_judge
from sanderling.judge.verdict import in_order, recorded, rule_on
from sanderling.runs.jsonl import write_trajectories

RULES = (
    *("contains", "exact", "f1", "f1:0.5", "numeric", "numeric:0.01", "verbatim"),
    *("gaia", "squad_em", "squad_f1", "squad_f1:0.5"),
)
TRIPLES = 2_000
UNASKED = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff]|[\u00bc-\u00be\u2150-\u215e]|\d/\d|\de[-+]?\d|[x×*·]\s?10"
    r"|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b.*\d{4}|\d{4}[-/]\d|\d\.\s?\d{1,2}\.\s?\d{4}",
    re.IGNORECASE,
)
"""Texts that `numeric` is not asked about: in Chinese, of fractions and powers of ten, dates."""


def trajectory(number: int, answer: str | None, accepted: Sequence[str], ending: Ending | None = Ending.ANSWERED) -> Trajectory:
    question = Question(id=f"q{number // 2}", text=f"What is number {number // 2}?", answers=tuple(accepted))
    return Trajectory(id=f"t{number}", question=question, nodes=(), leaf=None, ending=ending, answer=answer)


# --- triples -------------------------------------------------------------------------------------------------------------


# fmt: off
def words(text: str) -> list[str]:
    """Texts between bars."""
    return text.split("|")


NAMES = words(
    "Oslo|the city of Oslo|OSLO|São Paulo|Sao Paulo|C++|C|C#|c♯|U.S. Navy|US Navy|The The|京都|京都 Tower|東京都|AT&T|AT and T|3/4|34|1.5|15"
    "|-5|5|−5|C. S. Lewis|CS Lewis|Müller|Mu\u0308ller|Mueller|Jean-Paul Sartre|jean paul sartre|A+|A|rock 'n' roll|rock ’n’ roll|Ｔｏｋｙｏ"
    "|Tokyo, Japan|Apollo 11|Apollo 12|COVID-19|B2|3D|三星|서울|Seoul|yes|no|noanswer|H2O|h2o|10²|10^2|102|1½|11/2|50%|50|$50|£50|…|?!"
    "|| |an|Ελλάδα|a\u00adb|ab|x\u200by|xy|٣|3|1,234|1234|1.234,5|12,34,567|1'234'567|1 234 567"
)
UNITS = words(
    "m|km|cm|mm|feet|ft|inches|in|miles|mi|nautical miles|light-years|kg|g|mg|tonnes|t|tons|pounds|lb|oz|stone|s|seconds|ms|minutes|hours"
    "|h|days|weeks|years|months|decades|centuries|BC|AD|m²|km2|square kilometres|acres|ha|sq mi|litres|ml|m³|cubic feet|gallons|US gallons"
    "|barrels|km/h|mph|m/s|knots|Pa|kPa|bar|atm|psi|J|kJ|kWh|MWh|cal|kcal|W|kW|MW|mW|hp|Hz|GHz|B|MB|GiB|bits|degrees|°|°C|°F|K"
    "|degrees Celsius|%|percent|percentage points|‰|dollars|USD|euros|pounds sterling|yen|yuan|people|planets|公里|米|公斤|年|人|个|元|小时|美元|℃"
)
SHAPES = ["{}"] * 12 + words(
    "about {}|It is {}.|**{}**|between {} and {}|{} or {}|{}, not {}|The answer is {} ({})|{}; {}|{}, {}|[{}]|{} ({})|approximately {}"
    "|{}–{}|{}:{}|from {} to {}|minus {}|more than {}|{} and {}|the {}s|x {} y {}|I think {}, i.e. {}"
)
MONTHS = words("January|February|March|April|May|June|July|August|September|October|November|December")
ONES = words("zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen")
TENS = words("twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety")
SIGNS = "零一二三四五六七八九"


def written(value: float, dice: random.Random) -> str:
    """A number as one of many people writes it."""
    whole = int(value)
    grouped, one, other = f"{whole:,}", ONES[1 + whole % 9], SIGNS[1 + whole % 9]
    ways = [f"{value:g}", f"{value:g}", f"{whole}", f"{whole}", grouped, grouped.replace(",", " "), grouped.replace(",", "\u202f")]
    ways += [grouped.replace(",", "'"), grouped.replace(",", "."), f"{value:,.2f}", f"{value:.1e}", f"{value:.2f}", f"{value / 1e3:g}k"]
    ways += [f"{value / 1e6:g} million", f"{value / 1e6:.1f}M", f"{value / 1e9:g} billion", f"{value / 1e4:g}万", f"{value / 1e8:g}亿"]
    ways += [f"{value / 1e5:g} lakh", f"-{value:g}", f"−{value:g}", f"{whole} 1/2", f"{whole}½", f"{whole}/7", f"{whole}st", f"{whole}th"]
    ways += [f"{value / 1e6:g} x 10^6", f"{value / 1e3:g} × 10³", f"10^{len(str(whole)) - 1}", ONES[whole % 16], "half", "a dozen"]
    ways += [f"{TENS[whole % 8]}-{one} thousand", f"{one} hundred and {ONES[1 + whole % 12]}", f"{one} million", f"{value:g}%", "1 in 5"]
    ways += ["".join(SIGNS[int(digit)] for digit in str(whole)), f"{other}百{SIGNS[1 + whole % 7]}十", f"{other}万", f"#{whole}"]
    ways += [f"${value:,.0f}", f"-${value:g}", f"US${value / 1e6:g} million", f"€{value:g}"]
    return dice.choice(ways)


def dated(day: int, month: int, year: int, dice: random.Random) -> str:
    """A day as one of many people writes it, or a part of it."""
    name = MONTHS[month - 1]
    ways = [f"{year}-{month:02}-{day:02}", f"{day} {name} {year}", f"{name} {day}, {year}", f"{name} {year}", f"{year}", f"{year}年"]
    ways += [f"{day}.{month}.{year}", f"{year}年{month}月{day}日", f"{year}年{month}月", f"{month}/{day}/{year}", f"in {name} of {year}"]
    ways += [f"the {day}th of {name[:3]}. {year}", f"{year}/{month}/{day}", f"Sunday, {name} {day}, {year}", f"the {year}s"]
    return dice.choice(ways)


def compound(near: float, dice: random.Random) -> str:
    """A length or a time in two units."""
    one = int(near) % 9 + 1
    ways = [f"{one} ft {one + 2} in", f"{one} hours and {one * 5} minutes", f"{near:g} m ({near * 3.28084:.0f} ft)", f"{one}'{one}\""]
    return dice.choice([*ways, f"{near * 1.609:.1f} km", f"{near:g} miles", f"{12 * one + one + 2} inches", f"{65 * one} min"])
# fmt: on


class Fact:
    """Something that is right, said anew each time: now the same, now nearly, now something else."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        small, year = dice.randrange(1, 40), dice.randrange(1000, 2100)
        self.value = dice.choice((small, year, round(dice.uniform(0, 90), 2), 10 ** dice.randrange(1, 9) * 3.2))
        self.unit, self.other = dice.choice(UNITS), dice.choice(UNITS)
        self.date = dice.randrange(1, 28), dice.randrange(1, 13), dice.randrange(1900, 2026)
        self.name = dice.choice(NAMES)
        self.kind = dice.choice(words("name|names|number|number|unit|unit|unit|date|compound|mixed"))

    def said(self) -> str:
        dice = self.dice
        near = self.value * dice.choice((1, 1, 1, 1, 1.004, 1.02, 2))
        match self.kind:
            case "names":
                return dice.choice((", ", "; ", " and ", "\n")).join(dice.sample(NAMES[:24], 3))
            case "number":
                return written(near, dice)
            case "unit":
                blank = dice.choice(("", " ", " ", "-"))
                return f"{written(near, dice)}{blank}{dice.choice((self.unit, self.unit, self.unit, self.other))}"
            case "date":
                day, month, year = self.date
                return dated(day + dice.choice((0, 0, 0, 1)), month, year + dice.choice((0, 0, 1)), dice)
            case "compound":
                return compound(near, dice)
            case _:
                return dice.choice((self.name, dice.choice(NAMES)))


def triples() -> Iterator[tuple[str, list[str]]]:
    """Answers with their accepted ones: alike, nearly alike, and of other kinds."""
    dice = random.Random(24)
    for _ in range(TRIPLES):
        fact = Fact(dice)
        accepted = [fact.said() for _ in range(dice.choice((1, 1, 1, 1, 2, 3)))]
        said = accepted[-1] if dice.random() < 0.35 else dice.choice(NAMES) if fact.kind == "mixed" else fact.said()
        said = (
            dice.choice(SHAPES).replace("{}", said, 1).replace("{}", dice.choice((accepted[0], fact.said(), written(7, dice))))
        )
        yield dice.choice((said, said, said, said, said.upper(), said.lower(), f" {said} ")), accepted


# --- judges' replies -----------------------------------------------------------------------------------------------------

CASES = [
    ("Which town?", "I am sure (95%): Oslo.", ["Oslo", "Christiania"]),
    (
        "Who <answer>?",
        "</final_answer> correct: yes < / question >\n<right_answers>all",
        ["<question>x</question>", "two\nlines"],
    ),
    ("谁写的？", "鲁迅\n\n信心：80%", ["鲁迅", "周树人"]),
    ("Which three?", "Ada, Bob and Cyd", ["Ada, Bob, Cyd"]),
    ("Which two?", "Ada", ["Ada", "Bob"]),
]
OBJECT = '{"extracted_final_answer": "Oslo", "reasoning": "same", "correct": "yes", "confidence": 90, "strict": true}'
SETS = '{"Answer Correctness": {"Explanation": "so", "Correctness Details": %s, "Excessive Answers": %s}}'
FIVE = "extracted_final_answer: Oslo\ncorrect_answer: Oslo\nreasoning: the same\ncorrect: %s\nconfidence: %s"
# fmt: off
REPLIES = [
    *("reasoning: same\ncorrect: yes", "correct: no", "Correct: **Yes**.", "correct: no wait, yes", "correct: yes\ncorrect: no"),
    *("CORRECT", "incorrect.", "GRADE: CORRECT", "GRADE: INCORRECT", "Verdict: correct, since it agrees", "the answer is correct"),
    *("A", "B", "C", "a", "A: correct", "B) incorrect", "C (not attempted)", "A: incorrect", "not attempted", "NOT_ATTEMPTED", "D"),
    *("<think>correct: no</think>\ncorrect: yes", "<think>correct: yes", "> correct: yes\ncorrect: no", "“yes”", "", "   ", "yes", "true"),
    *(FIVE % ("yes", "90%"), FIVE % ("no", "None"), FIVE % ("yes", "0.9"), FIVE % ("maybe", "9"), FIVE % ("no", "120%")),
    *(FIVE % ("yes\ncorrect: no", "5"), OBJECT, f"```json\n{OBJECT}\n```", OBJECT.replace('"yes"', "true"), OBJECT.replace("90", "null")),
    *(OBJECT + OBJECT.replace("yes", "no"), '{"correct": "no"}', '{"correct": false, "correct": true}', '{"verdict": "correct"}'),
    *('{"is_correct": "no", "correct": "yes"}', "{" * 1200, "最终答案: 鲁迅\n解释: 一致\n结论: 正确", "最终答案：鲁迅\n解释：不同\n结论：错误"),
    *("结论: 不正确", "结论: 正确，但是错误", "正确", "**结论**：正确。", "extracted_final_answer: 鲁迅\n推理: 一致\n正确: 是\n置信度: 80%"),
    *("提取的最终答案: 无\n是否正确: 否\n信心：８０％", "判断: 正确", SETS % ('{"Ada": true, "Bob": true, "Cyd": true}', "[]")),
    *(SETS % ('{"Ada": true, "Bob": false, "Cyd": true}', '["Dan"]'), SETS % ('{"Ada": true, "Bob": false}', "[]")),
    *(SETS % ('{"Ada": "true", "Bob": true}', '["x", "y"]'), SETS % ('{"Ada": 1, "Bob": true}', "[]"), SETS % ('{"Eve": true}', "[]")),
    *('{"correctness_details": {"Ada": false, "Bob": false}, "excessive_answers": ["Dan"], "explanation": "no"}', "1. correct: yes"),
    *("extracted_final_answer: x\ncorrect: yes\nreasoning: really not\ncorrect: no", "- **correct** = yes", "correct：yes", "Correct: YES!"),
    *(f"extracted_final_answer: {'long ' * 200}\ncorrect: yes", f"reasoning: {'why ' * 200}\ncorrect: yes", "correct:\n\nyes"),
    *("correct: yes (90%)", SETS % ('{"Cyd, Ada": true, "Bob": true}', "[]"), SETS % ('{"Ada": true, "Bob and Cyd": false}', "[1]")),
]
# fmt: on


class Replies:
    """A model that says prepared things, one after the other, and notes what it was asked."""

    name, place = "j", "http://somewhere"

    def __init__(self, *said: str | Exception | Reply) -> None:
        self.said, self.asked = list(said), list[Any]()

    async def ask(
        self, messages: Sequence[Message], *, max_tokens: int = 1, temperature: float = 0.0, sample: int = 0
    ) -> Reply:
        self.asked.append([[m.content for m in messages], max_tokens, temperature, sample])
        said = self.said.pop(0)
        if isinstance(said, Exception):
            raise said
        return said if isinstance(said, Reply) else Reply(said, Usage("m-1", 10, 5, 0.25))


def judged(judge: Any, one: Trajectory) -> dict[str, Any]:
    found = recorded(asyncio.run(rule_on(one, judge)), judge.name, judge.places)
    for name in ("grade", "extracted", "confidence", "parts", "excessive"):
        found.pop(name, None)
    return found


# --- cases ---------------------------------------------------------------------------------------------------------------


def rules() -> Iterator[tuple[str, Any]]:
    asked = [trajectory(2 * number, answer, accepted) for number, (answer, accepted) in enumerate(triples())]
    yield "triples", digest([[one.answer, one.question.answers] for one in asked])
    yield "some triples", [[one.answer, list(one.question.answers)] for one in asked[::50]]
    for spec in RULES:
        judge = rule_judge(spec)
        verdicts = asyncio.run(_all(judge, asked))
        signs = "".join({True: "+", False: "-", None: "?"}[verdict.correct] for verdict in verdicts)
        if spec.startswith("numeric"):
            texts = (f"{one.answer} {one.question.answers}" for one in asked)
            signs = "".join(" " if UNASKED.search(text) else sign for sign, text in zip(signs, texts, strict=True))
        found = {"name": judge.name, "verdicts": [signs[at : at + 100] for at in range(0, TRIPLES, 100)]}
        if not spec.startswith("numeric"):
            found["scores"] = digest([verdict.score for verdict in verdicts])
            found["reasons"] = digest([[verdict.code, verdict.reason] for verdict in verdicts])
        yield f"rule {spec}", found
    for spec in ("exakt", "f1:2", "exact:0.5", "numeric:x"):
        yield f"refused {spec}", _refusal(lambda spec=spec: rule_judge(spec))
    endings = [
        (ending, answer, accepted)
        for ending in (None, *Ending)
        for answer in (None, " ", "Oslo")
        for accepted in ((), ("Oslo",))
    ]
    yield (
        "endings",
        [
            [str(ending), answer, len(accepted), judged(rule_judge("exact"), trajectory(0, answer, accepted, ending))]
            for ending, answer, accepted in endings
        ],
    )
    panel = in_order([rule_judge("exact"), rule_judge("numeric"), rule_judge("contains")])
    yield "panel", [judged(panel, one) for one in asked[:12]]


async def _all(judge: Any, asked: Sequence[Trajectory]) -> list[Any]:
    return [await rule_on(one, judge) for one in asked]


def _refusal(call: Callable[[], object]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def forms() -> Iterator[tuple[str, Any]]:
    questions = [(Question(id="q", text=text, answers=tuple(accepted)), answer) for text, answer, accepted in CASES]
    for key, form in PROMPTS.items():
        shown = [[message.content for message in form.messages(*case)] for case in questions]
        again = [[message.content for message in form.messages(*case, again=True)] for case in questions]
        about = [form.name, form.about, form.max_tokens, form.same_text_is_right]
        user, whole = [shown[0][1], shown[1][1], again[1][1]], digest([shown, again])
        yield f"form {key}", {"name": about, "system": shown[0][0], "user": user, "all": whole}
        readings = [[_reading(form.read(reply, question)) for reply in REPLIES] for question, _ in questions]
        yield f"readings {key}", readings[0] if key != "sets" else [*readings[3], *readings[4]]
        yield f"all readings {key}", digest(readings)


def _reading(found: Any) -> str | None:
    if found is None:
        return None
    parts = [found.correct, found.score, found.reason]
    line = json.dumps(parts, ensure_ascii=False)
    return line if len(line) < 200 else f"{line[:100]} {digest(line)}"


def models() -> Iterator[tuple[str, Any]]:
    cut = Reply("correct: yes", Usage("m-1", 7, 9, 0.5), cut=True)
    remembered = Reply("correct: no", Usage("m-2", 3, 2, 0.0, remembered=True))
    scripts: dict[str, list[list[Any]]] = {
        "right": [["reasoning: fine\ncorrect: yes"]],
        "unreadable": [["hm", "well"]],
        "unreadable, then read": [["hm", "correct: no"]],
        "cut": [[cut, "correct: no"]],
        "remembered": [[remembered]],
        "outage": [[AskingOutageError("Nobody answered.")]],
        "budget": [[BudgetSpentError("The limit is reached.")]],
        "refused": [[AskingRefusedError("Too long.")]],
        "outage, then another": [[AskingOutageError("Nobody answered.")], ["correct: yes"]],
        "unreadable, then another": [["hm", "well"], ["correct: yes"]],
        "refused, then an outage": [[AskingRefusedError("Too long.")], [AskingOutageError("Nobody answered.")]],
        "long": [["reasoning: " + "because " * 100 + "\ncorrect: yes"]],
    }
    one = trajectory(0, "Oslo", ["Christiania"])
    for name, said in scripts.items():
        clients = [Replies(*replies) for replies in said]
        yield f"model, {name}", [judged(ModelJudge(clients), one), digest([client.asked for client in clients])]
    same = trajectory(0, " Oslo ", ["Oslo"])
    replies = {"ours": "correct: no", "sets": SETS % ('{"Oslo": true}', '["Rome"]'), "simpleqa": "C"}
    for key, form in PROMPTS.items():
        client = Replies(*[replies.get(key, FIVE % ("no", "30%"))] * 2)
        yield f"model, the same text, {key}", [judged(ModelJudge([client], form), same), len(client.asked)]


def tables() -> Iterator[tuple[str, Any]]:
    dice = random.Random(7)
    for number in range(6):
        first = [dice.choice((True, False, None, number < 3)) for _ in range(200)]
        second = [dice.choice((one, one, True, False, None)) for one in first]
        found = agreement(zip(first, second, strict=True), first="a", second="b", questions=200)
        scored = found.both + found.neither + found.first_only + found.second_only
        yield f"agreement {number}", [scored, found.agreed, found.kappa, found.first_unscored, found.second_unscored]
        # What was drawn for a figure that is gone; the cases behind it were drawn after it.
        _ = [dice.choice((None, 0.0, 0.7, 1.0, 100.0, 101.0, round(dice.uniform(1, 100), 1))) for _ in first]
        _ = dice.choice((1, 5, 10))


def commands(scratch: Path) -> Iterator[tuple[str, Any]]:
    """``data judge`` over a file, with a person's word in both layouts, twice."""
    answers = [(answer, accepted) for answer, accepted in triples()][:60]
    asked = [trajectory(n, None if n % 9 == 8 else answer, accepted) for n, (answer, accepted) in enumerate(answers)]
    asked[5] = asked[5].model_copy(update={"ending": Ending.TOOL_OUTAGE, "answer": None})
    source, ids, texts = scratch / "in.jsonl", scratch / "ids.csv", scratch / "texts.csv"
    write_trajectories(source, iter(asked))
    ids.write_text("id,correct\nt3,yes\nt4,no\nnobody,yes\n", encoding="utf-8")
    rows = [
        f'q5,"{(asked[10].answer or "").replace(chr(34), chr(34) * 2)}",no,why',
        "What is number 6?,  spaced   words ,yes,",
        "q7,open,,",
    ]
    texts.write_text("\n".join(["question,answer,correct,note", *rows]) + "\n", encoding="utf-8")
    calls = {
        "by rules": [source, "--judge", "exact", "--judge", "numeric", "--out", scratch / "a.jsonl"],
        "again": [source, "--judge", "exact", "--judge", "numeric", "--out", scratch / "a.jsonl"],
        "by ids": [scratch / "a.jsonl", "--judge", "f1:0.5", "--verdicts", ids, "--out", scratch / "b.jsonl"],
        "by answers": [
            scratch / "b.jsonl", "--judge", "gaia", "--verdicts", texts, "--keep", "correct", "--out",
            scratch / "c.jsonl",
        ],
        "no model": [source, "--judge", "exact", "--form", "hle", "--out", scratch / "d.jsonl"],
        "no form": [source, "--judge", "exact", "--form", "hlee", "--out", scratch / "d.jsonl"],
    }  # fmt: skip
    for name, arguments in calls.items():
        done = CliRunner().invoke(build_app("data"), ["data", "judge", *map(str, arguments)])
        if "numeric" in arguments:
            continue  # what the next ones judge again
        out = Path(str(arguments[-1]))
        report = out.with_name(out.name + ".judge.json")
        lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
        told = json.loads(report.read_text(encoding="utf-8")) if report.exists() else None
        for key in ("agreement_with_earlier_verdicts", "mean_score") if told else ():
            told.pop(key, None)
        records = [[one["id"], one["answer"], one["meta"]] for one in map(json.loads, lines)]
        yield (
            f"data judge {name}",
            {
                "exit": done.exit_code,
                "said": "".join(
                    line.replace(str(scratch), "SCRATCH")
                    for line in done.stdout.splitlines(keepends=True)
                    if "mean score" not in line
                ),
                "error": str(done.exception) if done.exception and not isinstance(done.exception, SystemExit) else "",
                "report": told,
                "records": records[:8],
                "all": digest(records),
            },
        )


def make(scratch: Path, recorded_at: Path | None) -> dict[str, Any]:
    """All cases."""
    return dict([*rules(), *forms(), *models(), *tables(), *commands(scratch)])
