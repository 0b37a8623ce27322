"""One folder per question: what it asks, computes, buys and says. Its function has the verb's name."""
