"""Why attempts were not scored, for people: what their records and their judge say most often.

Reads a bounded number of records, where they stand. Knows no figure.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from sanderling.core.record import decode_record
from sanderling.evaluate.judged import read_judged
from sanderling.evaluate.rows import AttemptRow, Key
from sanderling.evaluate.run_directory import RunDirectory
from sanderling.judge.verdict import Code
from sanderling.runs.jsonl import Line

_MOST = 200
"""Unscored attempts that are looked at; more say nothing else."""


def why_unscored(directory: RunDirectory, rows: Mapping[Key, AttemptRow]) -> str:
    """The commonest reason with its count among those looked at; empty: none is written down."""
    unscored = [one for one in read_judged(directory.judged_file) if one.correct is None][:_MOST]
    ended = [rows[one.key].line for one in unscored if one.code is Code.NOT_ENDED and one.key in rows]
    reasons = Counter(one.reason for one in unscored if one.code is not Code.NOT_ENDED)
    reasons.update(_details(directory, ended))
    del reasons[""]
    if not reasons:
        return ""
    reason, count = reasons.most_common(1)[0]
    return f"{reason.rstrip('.')} ({count:,} of {len(unscored):,})."


def _details(directory: RunDirectory, lines: Iterable[Line]) -> Iterable[str]:
    """What the records that stand there say of their ending."""
    with directory.store.path.open("rb") as file:
        for line in lines:
            file.seek(line.offset)
            found = decode_record(file.read(line.size))
            yield str(found.get("detail", "")) if isinstance(found, dict) else ""
