"""An engine's own argument parser over command lines: ``python parse_commands.py vllm|sglang``, in its environment.

Reads a JSON list of argument lists (without the command itself) from stdin and prints a JSON list: for each the error,
or null where it was understood.
"""

import argparse
import contextlib
import io
import json
import sys


def vllm_parser():
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
    # It looks at these names later, when the server starts.
    known = {"tool_call_parser": ToolParserManager, "reasoning_parser": ReasoningParserManager}
    for action in parser._actions:
        if action.dest in known:
            action.choices = list(known[action.dest].list_registered())
    return parser


def sglang_parser():
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser(prog="sglang")
    ServerArgs.add_cli_args(parser)
    return parser


def understood(parser, argv):
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            parser.parse_args(argv)
        except SystemExit:
            return said.getvalue().strip().splitlines()[-1]
        except (ValueError, TypeError, argparse.ArgumentError) as e:
            return f"{type(e).__name__}: {e}"
    return None


if __name__ == "__main__":
    parser = {"vllm": vllm_parser, "sglang": sglang_parser}[sys.argv[1]]()
    answers = [understood(parser, argv) for argv in json.load(sys.stdin)]
    print(json.dumps(answers))
