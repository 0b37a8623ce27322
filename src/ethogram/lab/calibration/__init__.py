"""Can I trust my judge? Samples to label by hand, agreement per item, corrected rates, the standing audit."""
