"""The parts of the fake of OpenAI Realtime, `testing.realtime_server`."""
