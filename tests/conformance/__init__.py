"""The official conformance suite, against our client and our servers."""
