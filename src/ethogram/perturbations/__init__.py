"""One controlled, seeded change to a file, a tool, a prompt or a call of a model: pure, reported, never run here.

Operators on files (`FILES`) take bytes and give bytes; `ToolPerturbation` wraps the tools of an episode;
`PromptOperator`s take a text; `ModelOperator`s say which calls of a model go wrong, and how. The same seed gives the
same change, and what cannot be changed says why beforehand.
"""
