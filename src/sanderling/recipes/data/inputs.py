"""What a run of the data pipeline is made from, as one hash: settings, files, tokenizer, judging models.

Contract: the hash changes with whatever a step reads, and with nothing that changes no result. So a file counts by its content
and by the name that its trajectories' ids begin with, wherever it lies; the title and the number of processes count for
nothing, and of a judge's address neither its credentials nor its patience.

A file of up to 64 MiB is hashed whole. A larger one counts by size, time of its last change and 64 samples of 64 KiB, first and
last bytes included, because hashing a terabyte at every start would take longer than what is left to do. A large file that was
changed in place, to the same size, outside of the samples, *and* had its old time put back is taken for the same one. Knows no
step.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.core.record import encode_record
from sanderling.data.importers.places import find_places
from sanderling.policy.load import is_endpoint, names_model, weights_of
from sanderling.recipes.data.layout import Layout

WHOLE = 64 << 20
"""Most bytes of a file that is hashed whole."""
_SAMPLES, _SAMPLE = 64, 1 << 16
_NO_RESULT = {"title", "workers", "tokenizer", "against", "judge"}
"""Settings that change no result, and those that stand here by what they name."""
_PATIENCE = {"key_env", "timeout", "retries"}
"""Options of an endpoint that change no verdict."""


def run_fingerprint(layout: Layout) -> str:
    """The hash of a run. Raises UserError for a file that cannot be read."""
    config = layout.config
    told = {
        "settings": config.model_dump(mode="json", exclude=_NO_RESULT),
        "keep": config.judge.keep.value,
        "judges": [_judge(spec) for spec in config.judge.judges],
        "tokenizer": None if config.tokenizer is None else load_tokenizer(config.tokenizer).fingerprint,
        "sources": [[place.name, content_hash(place.path)] for place in find_places(layout.sources).files],
        "against": [[path.stem, list(_files(path))] for path in config.against],
    }
    return hashlib.sha256(encode_record(told)).hexdigest()[:16]


def content_hash(path: Path) -> str:
    """What stands for a file's content. Raises UserError when it cannot be read."""
    try:
        stat = path.stat()
        digest = hashlib.sha256(f"{stat.st_size}\n".encode())
        with path.open("rb") as file:
            if stat.st_size <= WHOLE:
                digest.update(hashlib.file_digest(file, "sha256").digest())
            else:
                digest.update(f"{stat.st_mtime_ns}\n".encode())
                for number in range(_SAMPLES):
                    file.seek((stat.st_size - _SAMPLE) * number // (_SAMPLES - 1))
                    digest.update(file.read(_SAMPLE))
    except OSError as error:
        raise UserError(f"Cannot read {path} ({error.strerror}): check the path.") from error
    return digest.hexdigest()


def _files(path: Path) -> Iterator[list[str]]:
    for place in find_places([path]).files:
        yield [place.name, content_hash(place.path)]


def _judge(spec: str) -> str:
    """A rule by its name; a model in a directory by its files; one behind an address without what only concerns the asking."""
    if not names_model(spec):
        return spec
    if not is_endpoint(spec):
        return weights_of(spec)
    parts = urlsplit(spec)
    query = urlencode([(key, value) for key, value in parse_qsl(parts.query) if key not in _PATIENCE])
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query=query).geturl()
