@tool
extends EditorPlugin
# Godot wants a script for each plugin. GlyphoxaClient is known without it.
