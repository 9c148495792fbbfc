"""The judges' forms by name, a line each."""

from difflib import get_close_matches

from sanderling.core.errors import UserError
from sanderling.judge.forms.browsecomp import BROWSECOMP
from sanderling.judge.forms.browsecomp_zh import BROWSECOMP_ZH
from sanderling.judge.forms.contract import Form
from sanderling.judge.forms.hle import HLE
from sanderling.judge.forms.ours import OURS
from sanderling.judge.forms.sets import SETS
from sanderling.judge.forms.simpleqa import SIMPLEQA
from sanderling.judge.forms.word import WORD
from sanderling.judge.forms.xbench import XBENCH

FORMS: dict[str, Form] = {
    "ours": OURS,
    "word": WORD,
    "browsecomp": BROWSECOMP,
    "browsecomp-zh": BROWSECOMP_ZH,
    "hle": HLE,
    "xbench": XBENCH,
    "simpleqa": SIMPLEQA,
    "sets": SETS,
}


def get_form(key: str) -> Form:
    """The form of that name. Raises UserError, with the nearest name, when there is none."""
    found = FORMS.get(key)
    if found is not None:
        return found
    near = get_close_matches(key, FORMS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(FORMS)}."
    raise UserError(f"There is no judge's form {key!r}: {hint}")
