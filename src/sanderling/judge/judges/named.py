"""Several judges that somebody named, as one: rules by their names, models through askers that are open already.

Knows no endpoint and no price: who names a model is told by what is handed in.
"""

from collections.abc import Callable, Sequence

from sanderling.core.asking import Asker
from sanderling.judge.forms.contract import Form
from sanderling.judge.judge import Judge, in_order
from sanderling.judge.judges import rule_judge
from sanderling.judge.judges.model import ModelJudge


def judge_named(specs: Sequence[str], askers: Sequence[Asker], form: Form, names_model: Callable[[str], bool]) -> Judge | None:
    """Rules where they stand, all models as one judge where the first one stands; None where nobody is named.

    Raises UserError for a rule that there is not.
    """
    judges: list[Judge] = []
    asks = False
    for spec in dict.fromkeys(specs):
        if not names_model(spec):
            judges.append(rule_judge(spec))
        elif not asks:
            judges.append(ModelJudge(askers, form=form))
            asks = True
    return in_order(judges) if judges else None
