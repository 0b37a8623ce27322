"""What it cost: usage, dated prices, nested budgets. Never calls a provider."""

from .budget import Amounts, Budget, CapReached, Caps, Meter

__all__ = ["Amounts", "Budget", "CapReached", "Caps", "Meter"]
