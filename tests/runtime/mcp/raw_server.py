"""An MCP server on stdio without the SDK, so that it can do what a correct one never does.

    python raw_server.py NOTES [MODE]

Each call that reaches it is a line of the file NOTES: the tool's name. A cancelled call adds `cancelled`.

    echo   answers its arguments        die     ends the process without an answer
    slow   never answers                twice   answers twice
    late   answers with the next call   image   answers with an image of `size` bytes of base64
    junk   answers with no JSON         wrong   answers with no result of a tool
    asks   asks for input before it answers, with what it got
    broken answers with an error without an id, `pause` seconds later

MODE: `noise` prints lines that are not messages, `mute` never answers, `many` lists 10,000 tools, `twins` two
of one name, `endless` lists pages without an end, `die_once` lets `die` answer once NOTES has a line,
`changing` lists another schema in each process and each time, `stubborn` ignores the end of its stdin,
`quick` answers `slow`, `grows` says after a call that its list has changed, and lists another tool;
`grows_twins` lists two of one name.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

NOTES, MODE = Path(sys.argv[1]), (sys.argv[2:] or [""])[0]
NAMES = ("echo", "asks", "slow", "die", "late", "twice", "image", "junk", "wrong", "broken")
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
waiting: list[object] = []
lists = 0


def note(word: str) -> None:
    with NOTES.open("a") as file:
        file.write(f"{word}\n")


def send(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(request: object, text: str) -> None:
    send(id=request, result={"content": [{"type": "text", "text": text}]})


def described(name: str, title: str = "") -> dict[str, object]:
    return {"name": name, "description": title or f"Does {name}.", "inputSchema": SCHEMA}


def listed(cursor: str) -> dict[str, object]:
    global lists
    lists += 1
    if MODE == "many":
        start = int(cursor or 0)
        page = [described(f"tool{n}") for n in range(start, start + 1_000)]
        more = {"nextCursor": str(start + 1_000)} if start < 9_000 else {}
        return {"tools": page, **more}
    if MODE == "endless":
        return {"tools": [described(f"tool{lists}")], "nextCursor": f"page{lists}"}
    tools = [described(name) for name in NAMES]
    if MODE == "grows" and lists > 1:
        tools.append(described("new"))
    if MODE == "twins" or (MODE == "grows_twins" and lists > 1):
        tools.append(described("echo", "Another echo."))
    if MODE == "changing":
        fields = {f"field{os.getpid()}_{lists}": {"type": "string"}}
        tools = [{**tool, "inputSchema": {"type": "object", "properties": fields}} for tool in tools]
    return {"tools": tools}


def call(request: object, name: str, arguments: Any) -> None:
    had_some = NOTES.exists() and NOTES.read_text() != ""
    note(name)
    match name:
        case "die" if MODE != "die_once" or not had_some:
            os._exit(3)
        case "slow" if MODE != "quick":
            return
        case "asks":
            waiting.append(request)
            params = {"message": "Your name?", "requestedSchema": {"type": "object", "properties": {}}}
            send(id="asked", method="elicitation/create", params=params)
            return
        case "late":
            waiting.append(request)
            return
        case "junk":
            print("{no json", flush=True)
            return
        case "wrong":
            send(id=request, result={"content": "no list"})
            return
        case "broken":
            time.sleep(arguments.get("pause", 0))
            send(id=None, error={"code": -32700, "message": "I cannot read that"})
            return
        case "image":
            data = "iVBO" * (arguments["size"] // 4)
            send(id=request, result={"content": [{"type": "image", "data": data, "mimeType": "image/png"}]})
            return
        case "twice":
            answer(request, "first")
            answer(request, "second")
            return
        case _:
            pass
    while waiting:
        answer(waiting.pop(), "too late")
    answer(request, json.dumps(arguments, sort_keys=True))
    if MODE.startswith("grows") and lists == 1:
        send(method="notifications/tools/list_changed")


def handle(message: dict[str, object]) -> None:
    if message.get("id") == "asked":  # the client's answer to our own request
        answer(waiting.pop(), json.dumps(message.get("error") or message.get("result")))
        return
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    match message.get("method"):
        case "initialize":
            version = params.get("protocolVersion")
            info = {"name": "raw", "version": "1"}
            result: dict[str, object] = {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": info,
            }
            send(id=message["id"], result=result)
        case "tools/list":
            send(id=message["id"], result=listed(str(params.get("cursor") or "")))
        case "tools/call":
            call(message["id"], str(params.get("name")), params.get("arguments"))
        case "notifications/cancelled":
            note("cancelled")
        case _:
            if "id" in message:
                send(id=message["id"], error={"code": -32601, "message": "no such method"})


def main() -> None:
    print("the server starts", file=sys.stderr, flush=True)
    note_pid = NOTES.with_suffix(".pid")
    note_pid.write_text(str(os.getpid()))
    if MODE == "noise":
        print("Welcome to the server!", flush=True)
    for line in sys.stdin:
        if MODE == "mute":
            continue
        if MODE == "noise":
            print("a log line on the wrong stream", flush=True)
        handle(json.loads(line))
    while MODE == "stubborn":
        time.sleep(1)


if __name__ == "__main__":
    main()
