from anthropic import Anthropic

PRICES = {"tea": 6, "milk": 2, "lamp": 40}
SYSTEM = "You answer questions about prices in a shop."
PRICE_TOOL = {
    "name": "price",
    "description": "The price of one item in the shop.",
    "input_schema": {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]},
}
client = Anthropic()


def price(item):
    return str(PRICES.get(item.lower(), f"the shop has no {item}"))


def solve(task):
    messages = [{"role": "user", "content": task.prompt}]
    for _ in range(5):
        reply = client.messages.create(
            model="claude-haiku-4-5", max_tokens=200, system=SYSTEM, messages=messages, tools=[PRICE_TOOL]
        )
        if reply.stop_reason != "tool_use":
            return "".join(block.text for block in reply.content if block.type == "text")
        messages.append({"role": "assistant", "content": reply.content})
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": price(**block.input)}
            for block in reply.content
            if block.type == "tool_use"
        ]
        messages.append({"role": "user", "content": results})
    return "no answer after five calls"
