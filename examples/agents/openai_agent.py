import json

from openai import OpenAI

PRICES = {"tea": 6, "milk": 2, "lamp": 40}
SYSTEM = "You answer questions about prices in a shop."
PRICE_TOOL = {
    "type": "function",
    "function": {
        "name": "price",
        "description": "The price of one item in the shop.",
        "parameters": {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]},
    },
}
client = OpenAI()


def price(item):
    return str(PRICES.get(item.lower(), f"the shop has no {item}"))


def solve(task):
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task.prompt}]
    for _ in range(5):
        completion = client.chat.completions.create(model="gpt-4o-mini", messages=messages, tools=[PRICE_TOOL])
        reply = completion.choices[0].message
        if not reply.tool_calls:
            return reply.content
        messages.append(reply)
        for call in reply.tool_calls:
            result = price(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return "no answer after five calls"
