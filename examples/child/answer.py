"""OPENAI_BASE_URL=... OPENAI_API_KEY=... python answer.py "What is 2 + 3?"

A program that asks a model one question; the standard library only, and nothing of agentflow.
"""

import json
import os
import sys
import urllib.request


def main():
    body = {"model": "default", "messages": [{"role": "user", "content": sys.argv[1]}]}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as reply:
        print(json.load(reply)["choices"][0]["message"]["content"])


if __name__ == "__main__":
    main()
