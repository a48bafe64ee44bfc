"""The embedded engine: llama.cpp (xllamacpp) in a process of ours, behind a small front.

The front is there for what llama.cpp's own server does not do (each measured with xllamacpp 2026.10.11549):
``tool_choice`` ``required`` and named has no effect; a plain request goes on generating after its client has gone,
a streamed one stops within 0.1 s; a tool call cut off by the token limit is handed out broken, and answered with 500
when it comes back; ``usage`` counts one choice of several.
"""
