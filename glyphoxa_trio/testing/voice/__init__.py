"""What the fakes of speech-to-speech servers share: script, socket, ear, shapes."""
