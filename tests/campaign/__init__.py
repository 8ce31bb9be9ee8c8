"""Campaigns: rules, stores, tools, resources. Files and processes are real."""
