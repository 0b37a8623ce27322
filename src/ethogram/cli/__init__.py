"""A thin page per verb, imported on use: parse, call one function of the library, print."""
