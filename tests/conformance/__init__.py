"""The official conformance suite's client scenarios, against our client."""
