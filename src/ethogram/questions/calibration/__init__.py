"""Calibration of judges: samples to label by hand, agreement per item, corrected rates, the standing audit."""
