class_name GlyphoxaAnswer
extends RefCounted
## The events of an utterance, or of a microphone. Made by [GlyphoxaClient].
##
## An event counts as delivered, and the NPC remembers it, once the next one is asked for.
## Who does not want the rest calls leave(), which interrupts the NPC.

## Something has arrived, or it is over.
signal changed

const ACK_EVERY := 16  # events; the service sends at most 64 without an ack

var id: String
## The last event of an answer, TurnDone, once it was handed out.
var done: Dictionary = {}
## Why it was refused, or broke off: code and message; empty if it did not.
var error: Dictionary = {}

var _client: GlyphoxaClient
var _microphone: bool
var _accepted := false
var _waiting: Array[Dictionary] = []
var _ended := false
var _last := 0
var _acked := 0
var _played := -1.0  # milliseconds; below 0 until the first report


func _init(client: GlyphoxaClient, name: String, microphone: bool) -> void:
	_client = client
	id = name
	_microphone = microphone


## The next event, or an empty dictionary after the last: then see error.
func next() -> Dictionary:
	var behind := _last - _acked
	if behind > 0 and (not _is_ready() or behind >= ACK_EVERY):
		_acknowledge()
	if not done.is_empty():
		_forget()
		return {}
	while not _is_ready() and not _ended:
		await changed
	if not _is_ready():
		_forget()
		return {}
	var event: Dictionary = _waiting.pop_front()
	_last = int(event["n"])  # JSON has only floats for Godot
	if event["event"] == "Flush" and _microphone:
		_played = -1.0  # it counts from 0 again
	elif event["event"] == "TurnDone" and not _microphone:
		done = event
	return event


## Hear the rest. Returns the last event, or an empty dictionary: then see error.
func finish() -> Dictionary:
	while not (await next()).is_empty():
		pass
	return done


## Interrupt the NPC, or close the microphone; the last events still come.
func leave() -> void:
	_tell({"type": "leave", "id": id})


## Report how many milliseconds of the audio were played in all. From the first report on,
## only what was played counts as delivered.
func played(ms: float) -> void:
	_played = ms
	_acknowledge()


## Wait until the utterance, or the microphone, is accepted. Returns false if it is not:
## then see error.
func accepted() -> bool:
	while not _accepted and not _ended:
		await changed
	return _accepted


## Send audio of the microphone: PCM16, mono, at most 256 KiB. Returns false before it is
## accepted, and after the connection is closed.
func hear(pcm: PackedByteArray) -> bool:
	return _accepted and is_instance_valid(_client) and _client.send_audio(pcm)


## For the client: an event has arrived.
func put(event: Dictionary) -> void:
	_waiting.append(event)
	changed.emit()


## For the client: it is accepted.
func accept() -> void:
	_accepted = true
	changed.emit()


## For the client: nothing more comes.
func end(why: Dictionary) -> void:
	error = why
	_ended = true
	changed.emit()


func _is_ready() -> bool:
	if _waiting.is_empty():
		return false
	var first := _waiting[0]
	return first["event"] != "Speech" or first["bytes"] == 0 or first.has("pcm")


func _acknowledge() -> void:
	_acked = _last
	var ack := {"type": "ack", "id": id, "n": _last}
	if _played >= 0:
		ack["played_ms"] = _played
	_tell(ack)


func _tell(message: Dictionary) -> void:
	if is_instance_valid(_client):
		_client.tell(message)


func _forget() -> void:
	if is_instance_valid(_client):
		_client.forget(id)
