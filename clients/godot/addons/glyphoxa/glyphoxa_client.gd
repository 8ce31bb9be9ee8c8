class_name GlyphoxaClient
extends Node
## A connection to a `glyphoxa run`, with whose NPCs it speaks.
##
## Add it to the tree, since it polls its WebSocket there, also while the game is paused.
## docs/gateway.md of glyphoxa describes the events, which are dictionaries; a Speech has
## its audio as "pcm". The connection is not opened again when it breaks: call open() anew,
## and join().
## [codeblock]
## var answer := client.say("An ale!", {"npc": "Bartok", "speaker": "Aria"})
## var event: Dictionary = await answer.next()
## while not event.is_empty():
##     if event["event"] == "Sentence":
##         print(event["text"])
##     event = await answer.next()
## [/codeblock]

## The service has welcomed this client.
signal opened
## The connection is closed, or could not be opened; the code is the WebSocket's.
signal closed(code: int, reason: String)
## For open(): the connection is open, or it is not.
signal settled

const PROTOCOL := 1
const CONNECT_WITHIN := 10.0  # seconds
const INBOUND_BYTES := 8 << 20  # the audio of a long sentence is one packet
const OUTBOUND_BYTES := 1 << 20

## What the service said first: role, version, heartbeat_ms, window.
var welcome: Dictionary = {}
## Why the last request was refused: code and message. GDScript has no exceptions.
var error: Dictionary = {}

var _socket: WebSocketPeer
var _token := ""
var _greeted := false
var _since := 0.0  # seconds since the connection began, or since the last sign of life
var _ids := 0
var _answers: Dictionary = {}  # by their ids
var _waiting: Dictionary = {}  # replies by the ids of their requests
var _speeches: Array[Dictionary] = []  # whose audio is still to come


func _ready() -> void:
	process_mode = Node.PROCESS_MODE_ALWAYS


func _process(delta: float) -> void:
	if _socket == null:
		return
	_socket.poll()
	match _socket.get_ready_state():
		WebSocketPeer.STATE_OPEN:
			_read()
			_live(delta)
		WebSocketPeer.STATE_CONNECTING:
			_since += delta
			if _since > CONNECT_WITHIN:
				_socket.close(-1)
				_end(1006, "it cannot be opened")
		WebSocketPeer.STATE_CLOSED:
			var code := _socket.get_close_code()
			_end(1006 if code == -1 else code, _socket.get_close_reason())


func _exit_tree() -> void:
	if _socket != null:
		_socket.close()
		_socket.poll()
		_end(1000, "the client has left the tree")


## Open the connection. Returns false if the service cannot be reached, or refuses: closed
## has the reason.
func open(url: String, token: String = "") -> bool:
	if _socket != null:
		push_error("the connection is open already")
		return false
	_socket = WebSocketPeer.new()
	_socket.inbound_buffer_size = INBOUND_BYTES
	_socket.outbound_buffer_size = OUTBOUND_BYTES
	_token = token
	_greeted = false
	_since = 0.0
	welcome = {}
	if _socket.connect_to_url(url) != OK:
		_end(1006, "it cannot be opened")
		return false
	await settled
	return is_open()


## True from the welcome of the service to the end of the connection.
func is_open() -> bool:
	return _socket != null and not welcome.is_empty()


## Open a session, or join it. Returns the names of its NPCs, or none: then see error.
## Options are campaign, players and variables.
func join(session: String = "default", options: Dictionary = {}) -> PackedStringArray:
	var fields := options.duplicate()
	fields["session"] = session
	var reply: Dictionary = await request("join", fields)
	var names := PackedStringArray()
	for npc: Dictionary in reply.get("npcs", []):
		names.append(npc["name"])
	return names


## Say something, and ask the answer for its events. Options are the fields of say: npc,
## scene, speaker, session, to, tier, remaining_ms, voiced.
func say(text: String, options: Dictionary = {}) -> GlyphoxaAnswer:
	return _begin("say", {"text": text}, options)


## Have an NPC say its greeting.
func greet(npc: String, options: Dictionary = {}) -> GlyphoxaAnswer:
	return _begin("greet", {"npc": npc}, options)


## Have an NPC say these words, as the game master.
func speak_as(npc: String, text: String, options: Dictionary = {}) -> GlyphoxaAnswer:
	return _begin("speak_as", {"npc": npc, "text": text}, options)


## Open the microphone, and ask it for the events of its turns. A connection has one.
func listen(rate: int, options: Dictionary = {}) -> GlyphoxaAnswer:
	return _begin("listen", {"rate": rate}, options)


## Answer an ApprovalNeeded. Returns false if it was no longer open.
func approve(question: String, yes: bool, npc: String, session: String = "default") -> bool:
	var fields := {"question": question, "yes": yes, "npc": npc, "session": session}
	var reply: Dictionary = await request("approve", fields)
	return reply.get("result") == true


## End the answer that runs, whoever it is for.
func interrupt(options: Dictionary = {}) -> void:
	await request("interrupt", options)


## Let NPCs hear what a speaker says to somebody else.
func overhear(speaker: String, text: String, options: Dictionary = {}) -> void:
	await request("overhear", _with(options, {"speaker": speaker, "text": text}))


## Tell NPCs the facts of their scene, in place of earlier ones.
func set_scene(context: PackedStringArray, options: Dictionary = {}) -> void:
	await request("scene", _with(options, {"context": context}))


## Send any other request of the protocol. Returns its answer, or an empty dictionary if it
## was refused or the connection closed: then see error.
func request(kind: String, fields: Dictionary = {}) -> Dictionary:
	error = {}
	var id := _new_id()
	var reply := Reply.new()
	_waiting[id] = reply
	if not tell(_with(fields, {"type": kind, "id": id})):
		_waiting.erase(id)
		error = {"code": "closed", "message": "the connection is closed"}
		return {}
	var message: Dictionary = await reply.came
	if message["type"] == "error":
		error = {"code": message["code"], "message": message["message"]}
		return {}
	return message


## Send a message as it is. Returns false if the connection is not open.
func tell(message: Dictionary) -> bool:
	return is_open() and _socket.send_text(JSON.stringify(message)) == OK


## Send audio of the microphone, as GlyphoxaAnswer.hear does.
func send_audio(pcm: PackedByteArray) -> bool:
	return is_open() and _socket.send(pcm) == OK


## Close the connection; what runs is interrupted. closed is emitted when it is done.
func close() -> void:
	if _socket != null:
		_socket.close()


## Drop an answer whose events are not wanted any more.
func forget(id: String) -> void:
	_answers.erase(id)


func _with(options: Dictionary, fields: Dictionary) -> Dictionary:
	var all := options.duplicate()
	all.merge(fields, true)
	return all


func _new_id() -> String:
	_ids += 1
	return "g%d" % _ids


func _begin(kind: String, fields: Dictionary, options: Dictionary) -> GlyphoxaAnswer:
	var answer := GlyphoxaAnswer.new(self, _new_id(), kind == "listen")
	_answers[answer.id] = answer
	var message := _with(options, fields)
	if not tell(_with(message, {"type": kind, "id": answer.id})):
		forget(answer.id)
		answer.end({"code": "closed", "message": "the connection is closed"})
	return answer


func _read() -> void:
	if not _greeted:
		_greeted = true
		var hello := {"type": "hello", "protocol": PROTOCOL}
		if not _token.is_empty():
			hello["token"] = _token
		_token = ""
		_socket.send_text(JSON.stringify(hello))
	# What a signal resumes may close the connection.
	while _socket != null and _socket.get_available_packet_count() > 0:
		var packet := _socket.get_packet()
		if _socket.was_string_packet():
			var message: Variant = JSON.parse_string(packet.get_string_from_utf8())
			if message is Dictionary:
				_take(message)
		else:
			_hear(packet)


## Tell the service now and then that this client lives.
func _live(delta: float) -> void:
	_since += delta
	if is_open() and _since > float(welcome.get("heartbeat_ms", 60000)) / 3000:
		_since = 0.0
		tell({"type": "ping"})


func _take(message: Dictionary) -> void:
	var id := str(message.get("id"))
	var kind := str(message["type"])
	if kind == "welcome":
		welcome = message
		opened.emit()
		settled.emit()
	elif kind == "events":
		for event: Dictionary in message["events"]:
			if event["event"] == "Speech" and event["bytes"] > 0:
				_speeches.append(event)
			if _answers.has(event["id"]):
				_answers[event["id"]].put(event)
	elif _answers.has(id):
		if kind == "accepted":
			_answers[id].accept()
		elif kind == "error":
			_answers[id].end({"code": message["code"], "message": message["message"]})
		elif kind == "done":
			_answers[id].end({})
	elif _waiting.has(id):
		var reply: Reply = _waiting[id]
		_waiting.erase(id)
		reply.came.emit(message)


## Put audio into the oldest event that waits for it.
func _hear(pcm: PackedByteArray) -> void:
	var event: Dictionary = _speeches.pop_front()
	event["pcm"] = pcm
	if _answers.has(event["id"]):
		_answers[event["id"]].changed.emit()


func _end(code: int, reason: String) -> void:
	_socket = null
	_token = ""
	var why := {"type": "error", "code": "closed", "message": reason}
	var answers := _answers.values()
	var waiting := _waiting.values()
	_answers = {}
	_waiting = {}
	_speeches = []
	for answer: GlyphoxaAnswer in answers:
		answer.end({"code": "closed", "message": reason})
	for reply: Reply in waiting:
		reply.came.emit(why)
	# First open() returns: what closed calls may open the connection again.
	settled.emit()
	closed.emit(code, reason)


## The answer to a request, once it is there.
class Reply:
	extends RefCounted
	signal came(message: Dictionary)
