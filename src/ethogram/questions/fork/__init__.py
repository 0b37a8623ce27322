"""Whether another answer would have saved an attempt: counterfactual continuations."""
