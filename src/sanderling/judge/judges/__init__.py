"""The judges that go by rule, one file each, and the table of their names.

A name may carry a number after a colon: the threshold of ``f1:0.8``, the relative tolerance of ``numeric:0.01``. The judge that
asks a model is `judges.model`; it is built where models are opened.
"""

from collections.abc import Callable
from difflib import get_close_matches

from sanderling.core.errors import UserError
from sanderling.judge.judge import Judge
from sanderling.judge.judges.contains import contains_judge
from sanderling.judge.judges.exact import exact_judge
from sanderling.judge.judges.f1 import f1_judge
from sanderling.judge.judges.gaia import gaia_judge
from sanderling.judge.judges.numeric import numeric_judge
from sanderling.judge.judges.squad import squad_em_judge, squad_f1_judge
from sanderling.judge.judges.verbatim import verbatim_judge

RULES: dict[str, Callable[[float | None], Judge]] = {
    "contains": contains_judge,
    "exact": exact_judge,
    "f1": f1_judge,
    "normalised": exact_judge,  # the other name by which people know it
    "numeric": numeric_judge,
    "verbatim": verbatim_judge,
    "gaia": gaia_judge,
    "squad_em": squad_em_judge,
    "squad_f1": squad_f1_judge,
}
PUBLISHED = frozenset({"gaia", "squad_em", "squad_f1"})
"""Rules that follow a benchmark's own to the letter, so that figures compare; they take some different answers for the same."""


def rule_judge(spec: str, models: str = "http://host:port/v1#model, or a model's directory with a slash") -> Judge:
    """The judge of a specification such as ``exact`` or ``f1:0.8``. ``models``: how a model may be named instead of a rule.

    Raises UserError.
    """
    name, colon, number = spec.partition(":")
    make = RULES.get(name)
    if make is None:
        near = get_close_matches(name, RULES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(RULES)}, {models}."
        raise UserError(f"There is no judge {name!r}: {hint}")
    return make(_number(number, spec) if colon else None)


def _number(text: str, spec: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0.0 <= found <= 1.0:
        raise UserError(f"The number of the judge {spec!r} is not between 0 and 1: write for example f1:0.8.")
    return found
