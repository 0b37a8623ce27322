"""Whether a candidate may ship: a verdict at planned looks, and the attempts that it takes."""
