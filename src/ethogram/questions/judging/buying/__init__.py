"""Judging stored runs: buys calls of a judge's model within caps, keeps replies, and stores verdicts as labels."""
