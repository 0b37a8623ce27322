from cart import total


def test_prices_add_up():
    assert total([3, 4]) == 7


def test_an_empty_cart_costs_nothing():
    assert total([]) == 0
