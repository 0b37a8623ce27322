"""Small environments and agents to practise on. The library does not need them."""
