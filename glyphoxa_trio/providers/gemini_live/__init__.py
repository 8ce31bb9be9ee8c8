"""Gemini Live."""
