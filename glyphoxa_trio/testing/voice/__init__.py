"""The parts shared by the fakes of speech-to-speech servers."""
