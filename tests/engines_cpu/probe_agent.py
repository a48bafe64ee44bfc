"""An agent that tries one thing a row against a real engine, by plain HTTP: what `data["try"]` names."""

import json


def conversation(text):
    return [{"role": "user", "content": text}]


ADD = {
    "name": "add",
    "description": "Add two numbers.",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
    "strict": True,  # else vLLM holds the model to no schema
}


class Probe:
    async def run(self, data, base_url, http_client, api_key, **_):
        self.key = {"Authorization": f"Bearer {api_key}"}
        self.url, self.client = base_url, http_client
        return float(await getattr(self, data["try"])())

    async def post(self, path, **body):
        return await self.client.post(self.url + path, headers=self.key, json={"model": "default", **body})

    async def chat_tools(self):
        """A required call comes back parsed, and its result is taken."""
        tools = [{"type": "function", "function": ADD}]
        messages = conversation("What is 2 + 3? Use add.")
        first = (await self.post("/chat/completions", messages=messages, tools=tools, tool_choice="required",
                                 max_tokens=64)).json()  # fmt: skip
        message = first["choices"][0]["message"]
        call = message["tool_calls"][0]
        arguments = json.loads(call["function"]["arguments"])
        result = {"role": "tool", "tool_call_id": call["id"], "content": "5"}
        messages += [{"role": "assistant", "content": "", "tool_calls": [call]}, result]
        second = (await self.post("/chat/completions", messages=messages, tools=tools, max_tokens=16)).json()
        usage = second["usage"]
        return call["function"]["name"] == "add" and set(arguments) == {"a", "b"} and usage["prompt_tokens"] > 0

    async def responses_tools(self):
        """The same through the Responses API, which the engine is not asked for itself."""
        reply = (await self.post("/responses", input="What is 2 + 3? Use add.", tools=[{"type": "function", **ADD}],
                                 tool_choice="required", max_output_tokens=64)).json()  # fmt: skip
        calls = [item for item in reply["output"] if item["type"] == "function_call"]
        return calls[0]["name"] == "add" and set(json.loads(calls[0]["arguments"])) == {"a", "b"}

    async def messages(self):
        """Anthropic's dialect."""
        reply = (await self.post("/messages", messages=conversation("Say hello."), max_tokens=8)).json()
        return reply["type"] == "message" and reply["usage"]["output_tokens"] > 0

    async def completions(self):
        reply = (await self.post("/completions", prompt="One, two, three,", max_tokens=4)).json()
        return reply["usage"]["completion_tokens"] == 4

    async def stream(self):
        """Events as they come, and no usage where none was asked for."""
        body = {"model": "default", "messages": conversation("Say hello."), "max_tokens": 8, "stream": True}
        lines = []
        async with self.client.stream("POST", self.url + "/chat/completions", headers=self.key, json=body) as reply:
            async for line in reply.aiter_lines():
                lines.append(line)
        events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
        return "data: [DONE]" in lines and len(events) > 2 and not any(e.get("usage") for e in events)

    async def overflow(self):
        """A conversation that is too long is answered by a 4xx; the agent dies of it."""
        reply = await self.post("/chat/completions", messages=conversation("word " * 6000), max_tokens=8)
        reply.raise_for_status()

    async def responses(self):
        """The Responses API, which the engine is not asked for itself."""
        reply = (await self.post("/responses", input="Say hello.", max_output_tokens=16)).json()
        return reply["object"] == "response" and reply["usage"]["output_tokens"] > 0

    async def cached(self):
        """A prompt that was sent before is found in the prefix cache, and the reply says so."""
        body = {"messages": conversation("The same again. " * 100), "max_tokens": 4}
        for _ in range(2):
            usage = (await self.post("/chat/completions", **body)).json()["usage"]
        return usage["prompt_tokens_details"]["cached_tokens"] > usage["prompt_tokens"] / 2
