"""Judges of RL are looked for before anything begins: one that its server does not serve is refused."""

import pytest
from scripted_server import plain, serve

from sanderling.core.errors import UserError
from sanderling.rl.prepare import check_there


async def test_a_judge_that_the_server_does_not_serve_is_told_before_anything_begins():
    listed = plain({"data": [{"id": "small"}, {"id": "large", "max_model_len": 9}]})
    with serve(listed, listed, plain({}), plain({"error": "no such path"}, 404)) as server:
        await check_there(["exact", f"{server.url}#large"])
        with pytest.raises(UserError, match=r"serves small, large and no 'huge': name one of them with --judge"):
            await check_there(["exact", f"{server.url}#huge"])
        for _ in range(2):  # nothing is listed, so nothing is known
            await check_there([f"{server.url}#huge"])
