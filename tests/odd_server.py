"""A tool server over standard input and output, without any library, that behaves as its argument says; for tests.

``odd_server.py HOW [STATE]``; good, hang, die, stray, huge, broken, unread, heir, lie, deaf, mortal, strict, promise, once,
half, names, elsewhere, keeper, fickle or numbers: tools ``echo`` (idempotent), ``count`` (how often, in the file STATE),
``env``, ``sleep``, ``die`` and ``pid``.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HOW = sys.argv[1]
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NOTHING = {"type": "object"}
SECONDS = {"type": "object", "properties": {"seconds": {"type": "number"}}}
TOOLS = [
    {"name": "echo", "description": "Says it again.", "inputSchema": TEXT, "annotations": {"idempotentHint": True}},
    {"name": "count", "description": "One more.", "inputSchema": NOTHING},
    {"name": "env", "description": "A variable.", "inputSchema": TEXT},
    {"name": "sleep", "description": "Waits.", "inputSchema": SECONDS},
    {"name": "die", "description": "Ends the server.", "inputSchema": NOTHING},
    {"name": "pid", "description": "Its process.", "inputSchema": NOTHING},
]
if HOW == "lie":
    TOOLS[0] = {**TOOLS[0], "inputSchema": {"type": "object", "properties": {"text": {"type": "no such type"}}}}
if HOW == "promise":
    TOOLS[0] = {**TOOLS[0], "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}
if HOW == "elsewhere":
    TOOLS[0] = {**TOOLS[0], "inputSchema": {"type": "object", "properties": {"text": {"$ref": sys.argv[2]}}}}
if HOW == "names":
    odd = ["search", "echo", "a.search", "b.search", "x y", "x.y", "x/y", "é", "ü", "...", "n" * 200, "n" * 201, "echo"]
    TOOLS = [{**TOOLS[0], "name": name} for name in odd]
if HOW == "numbers":
    TOOLS[0] = {**TOOLS[0], "name": 5}
if HOW == "keeper":
    TOOLS[1] = {**TOOLS[1], "_meta": {"sanderling/about": {"keeps": True}}}
CALLS = LISTS = 0
BEGUN = False


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(id, **result):
    say({"jsonrpc": "2.0", "id": id, **result})


def told(text, wrong=False):
    return {"content": [{"type": "text", "text": text}], "isError": wrong}


def call(id, params):
    global CALLS
    name, given = params["name"], params.get("arguments") or {}
    if HOW == "names":
        name = "echo"
    CALLS += 1
    if HOW == "mortal" and CALLS == 2:
        if name == "count":
            Path(sys.argv[2]).write_text("2")
        os.kill(os.getpid(), 9)
    if name == "echo" and HOW == "huge":
        text = told("x" * (50 << 20))
    elif name == "echo" and HOW == "broken":
        sys.stdout.write('{"jsonrpc": "2.0", "id": ' + str(id) + ', "result": {\n')
        sys.stdout.flush()
        os._exit(4)
    elif name == "echo" and HOW == "unread":
        answer(id, result="no object")
        return
    elif name == "echo" and HOW == "deaf":
        return
    elif name == "echo" and HOW == "half":
        text = told("\ud800 is half a pair")
    elif name == "echo":
        text = told(str(given.get("text")), wrong=given.get("text") == "fail")
    elif HOW == "keeper" and name == "count":
        meta = params.get("_meta") or {}
        with Path(sys.argv[2]).open("a") as file:
            file.write(f"left {meta['sanderling/leave']}\n" if "sanderling/leave" in meta else "")
        text = told(meta.get("sanderling/context", {}).get("session", ""))
    elif name == "count":
        state = Path(sys.argv[2])
        with state.open("ab", buffering=0) as file:
            file.write(b"x")
            text = told(str(file.tell()))
    elif name == "env":
        text = told(os.environ.get(given["text"], "(not set)"))
    elif name == "sleep":
        token = (params.get("_meta") or {}).get("progressToken")
        for done in range(1, round(given.get("seconds", 1) / 0.05) + 1):  # as often on a busy machine
            time.sleep(0.05)
            if token is not None:
                progress = {"progressToken": token, "progress": done}
                say({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
        text = told("slept")
    elif name == "pid":
        text = told(str(os.getpid()))
    elif name == "die":
        sys.stderr.write(f"asked to die{os.environ.get('SAID', '')}\n")
        sys.stderr.flush()
        os._exit(7)
    else:
        answer(id, error={"code": -32602, "message": f"no tool {name}"})
        return
    if HOW == "promise" and name == "echo":
        text["structuredContent"] = {"n": "none"}
    answer(id, result=text)


if HOW == "die":
    sys.stderr.write("cannot start: the disk is full\n")
    sys.exit(3)
if HOW == "hang":
    time.sleep(600)
if HOW == "once":
    started = Path(sys.argv[2])
    count = int(started.read_text()) if started.exists() else 0
    started.write_text(str(count + 1))
    if count:
        sys.stderr.write("it starts only once\n")
        sys.exit(3)
if HOW == "heir":  # what it starts holds its streams open, beyond our reach
    subprocess.Popen(["sleep", "20"], start_new_session=True)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if HOW == "stray":
    sys.stdout.write("Starting up, please wait\n")
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if HOW == "strict" and method != "initialize" and not BEGUN:
        sys.stderr.write("expected initialize\n")
        sys.exit(5)
    BEGUN = True
    if HOW == "stray":
        sys.stdout.write("got a line\n")
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"}}
        answer(id, result={"protocolVersion": version, **about})
    elif method == "tools/list":
        LISTS += 1
        answer(id, result={"tools": TOOLS[HOW == "fickle" and LISTS > 3 :]})
    elif method == "tools/call":
        call(id, message["params"])
    elif method == "ping":
        answer(id, result={})
    elif id is not None:
        answer(id, error={"code": -32601, "message": f"no method {method}"})
if HOW == "heir":
    time.sleep(600)
