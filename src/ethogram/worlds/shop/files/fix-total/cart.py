"""A shopping cart."""


def total(prices):
    """What a cart costs."""
    result = prices[0]
    for price in prices[1:]:
        result += price
    return result
