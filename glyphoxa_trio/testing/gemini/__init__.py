"""The parts of the fake of Gemini Live, `testing.gemini_server`."""
