from langchain_core.messages import SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

PRICES = {"tea": 6, "milk": 2, "lamp": 40}
SYSTEM = SystemMessage("You answer questions about prices in a shop.")


@tool
def price(item: str) -> str:
    """The price of one item in the shop."""
    return str(PRICES.get(item.lower(), f"the shop has no {item}"))


model = ChatOpenAI(model="gpt-4o-mini").bind_tools([price])


def answer(state: MessagesState):
    return {"messages": [model.invoke([SYSTEM, *state["messages"]])]}


graph = StateGraph(MessagesState)
graph.add_node("answer", answer)
graph.add_node("tools", ToolNode([price]))
graph.add_edge(START, "answer")
graph.add_conditional_edges("answer", tools_condition)
graph.add_edge("tools", "answer")
app = graph.compile()


def solve(task):
    state = app.invoke({"messages": [("user", task.prompt)]}, {"recursion_limit": 10})
    return state["messages"][-1].content
