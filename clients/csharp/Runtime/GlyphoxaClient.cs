// Speak with NPCs of a `glyphoxa run`, from Unity or from any program of .NET.
//
//     var client = await Client.ConnectAsync("ws://127.0.0.1:8080/ws");
//     using (var answer = client.Say("An ale!", npc: "Bartok", speaker: "Aria"))
//     {
//         TurnEvent told;
//         while ((told = await answer.NextAsync()) != null)
//             if (told.Kind == "Sentence") Debug.Log(told.Text);
//     }
//
// docs/gateway.md of glyphoxa describes the events. An event counts as delivered, and the
// NPC remembers it, once the next one is asked for. Everything here may be called from any
// thread; the connection is read on threads of the pool, and what awaits goes on where it
// was: in Unity, on the main thread. C# 7, .NET Standard 2.0, no dependencies.
using System;
using System.Collections.Generic;
using System.Net.WebSockets;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Glyphoxa
{
    /// <summary>The service refused a request; Code says how.</summary>
    public sealed class GlyphoxaException : Exception
    {
        public GlyphoxaException(string code, string message)
            : base(message)
        {
            Code = code;
        }

        public string Code { get; }
    }

    /// <summary>The connection is closed; Code is the WebSocket's, Reason its text.
    /// </summary>
    public sealed class GlyphoxaClosedException : Exception
    {
        public GlyphoxaClosedException(int code, string reason)
            : base("the connection is closed: "
                + (string.IsNullOrEmpty(reason) ? code.ToString() : reason))
        {
            Code = code;
            Reason = reason ?? "";
        }

        public int Code { get; }

        public string Reason { get; }
    }

    /// <summary>An event of a turn. Fields has all that docs/gateway.md describes.
    /// </summary>
    public sealed class TurnEvent
    {
        internal TurnEvent(Dictionary<string, object> fields)
        {
            Fields = fields;
        }

        public IReadOnlyDictionary<string, object> Fields { get; }

        /// <summary>Such as Sentence, Speech, Flush or TurnDone.</summary>
        public string Kind => Field<string>("event");

        /// <summary>Of the utterance, or the microphone.</summary>
        public string Id => Field<string>("id");

        /// <summary>Its number there, from 1.</summary>
        public long N => Field<long>("n");

        public string Npc => Field<string>("npc");

        public long Turn => Field<long>("turn");

        /// <summary>Of a Sentence, TextDelta, Transcript or TurnDone.</summary>
        public string Text => Field<string>("text");

        /// <summary>The audio of a Speech: PCM16, mono, Rate samples a second.</summary>
        public byte[] Pcm { get; internal set; }

        public long Rate => Field<long>("rate");

        internal bool LacksAudio => Pcm == null && Kind == "Speech" && Field<long>("bytes") > 0;

        /// <summary>A field as a string, bool, long, double, List or Dictionary; the
        /// default of the type if it is absent or of another one.</summary>
        public T Field<T>(string name)
        {
            return Fields.TryGetValue(name, out object value) && value is T found
                ? found
                : default(T);
        }
    }

    /// <summary>One connection. It is not opened again when it breaks: connect anew, and
    /// join again. Dispose it, or close it.</summary>
    public sealed class Client : IDisposable
    {
        private const int Protocol = 1;
        private const int LargestMessage = 16 << 20; // bytes
        private const int MostUnsent = 1024; // messages
        private static readonly TimeSpan ConnectWithin = TimeSpan.FromSeconds(10);
        private static readonly TimeSpan CloseWithin = TimeSpan.FromSeconds(1);

        private readonly ClientWebSocket _socket = new ClientWebSocket();
        private readonly CancellationTokenSource _over = new CancellationTokenSource();
        private readonly object _gate = new object(); // guards all that follows, and answers
        private readonly Dictionary<string, Answer> _answers = new Dictionary<string, Answer>();
        private readonly Dictionary<string, TaskCompletionSource<Dictionary<string, object>>>
            _waiting = new Dictionary<string, TaskCompletionSource<Dictionary<string, object>>>();
        private readonly Queue<TurnEvent> _speeches = new Queue<TurnEvent>(); // without audio yet
        private GlyphoxaClosedException _closed;
        private Task _sent = Task.CompletedTask;
        private int _unsent;
        private int _ids;

        private Client()
        {
        }

        /// <summary>What the service said first: role, version, heartbeat_ms, window.
        /// </summary>
        public IReadOnlyDictionary<string, object> Welcome { get; private set; }

        /// <summary>anybody, player, game_master or operator.</summary>
        public string Role => Welcome["role"] as string;

        /// <summary>Why the connection is closed; null while it is open.</summary>
        public GlyphoxaClosedException Closed
        {
            get
            {
                lock (_gate) return _closed;
            }
        }

        /// <summary>Open a connection, within ten seconds.</summary>
        /// <exception cref="GlyphoxaClosedException">Nothing answers there, or the service
        /// refuses the connection.</exception>
        /// <exception cref="OperationCanceledException">It was cancelled.</exception>
        public static async Task<Client> ConnectAsync(
            string url, string token = null,
            CancellationToken cancel = default(CancellationToken))
        {
            var client = new Client();
            try
            {
                await client.OpenAsync(new Uri(url), token, cancel).ConfigureAwait(false);
            }
            catch
            {
                client.Dispose();
                throw;
            }
            client.Start();
            return client;
        }

        /// <summary>Open a session, or join it; return the names of its NPCs. Players are
        /// their stable ids by the names under which they speak.</summary>
        public async Task<IReadOnlyList<string>> JoinAsync(
            string session = "default", string campaign = null,
            IDictionary<string, string> players = null,
            IDictionary<string, string> variables = null,
            CancellationToken cancel = default(CancellationToken))
        {
            var reply = await RequestAsync(
                "join",
                new Dictionary<string, object>
                {
                    { "session", session },
                    { "campaign", campaign },
                    { "players", players },
                    { "variables", variables },
                },
                cancel).ConfigureAwait(false);
            var names = new List<string>();
            foreach (object npc in (List<object>)reply["npcs"])
                names.Add((string)((Dictionary<string, object>)npc)["name"]);
            return names;
        }

        /// <summary>Say something; ask the answer for its events. tier is fast, standard
        /// or deep; after remainingMs the turn is interrupted.</summary>
        public Answer Say(
            string text, string npc = null, string speaker = null, string session = null,
            IEnumerable<string> scene = null, string to = null, string tier = null,
            double? remainingMs = null, bool voiced = true)
        {
            var said = Addressed(npc, session, scene);
            said["text"] = text;
            said["speaker"] = speaker;
            said["to"] = to;
            said["tier"] = tier;
            said["remaining_ms"] = remainingMs;
            if (!voiced) said["voiced"] = false;
            return Begin("say", said);
        }

        /// <summary>Have an NPC say its greeting.</summary>
        public Answer Greet(string npc, string speaker = null, string session = null)
        {
            var said = Addressed(npc, session, null);
            said["speaker"] = speaker;
            return Begin("greet", said);
        }

        /// <summary>Have an NPC say these words, as the game master.</summary>
        public Answer SpeakAs(string npc, string text, string session = null)
        {
            var said = Addressed(npc, session, null);
            said["text"] = text;
            return Begin("speak_as", said);
        }

        /// <summary>Open the microphone; ask it for the events of its turns. A connection
        /// has one.</summary>
        public Microphone Listen(
            int rate, string npc = null, string speaker = null, string session = null,
            IEnumerable<string> scene = null)
        {
            var said = Addressed(npc, session, scene);
            said["rate"] = rate;
            said["speaker"] = speaker;
            return Begin("listen", said, new Microphone(this, _gate, NewId()));
        }

        /// <summary>Answer an ApprovalNeeded; false if it was no longer open.</summary>
        public async Task<bool> ApproveAsync(
            string question, bool yes, string npc, string session = null,
            CancellationToken cancel = default(CancellationToken))
        {
            var said = Addressed(npc, session, null);
            said["question"] = question;
            said["yes"] = yes;
            var reply = await RequestAsync("approve", said, cancel).ConfigureAwait(false);
            return reply.TryGetValue("result", out object result) && Equals(result, true);
        }

        /// <summary>End the answer that runs, whoever it is for.</summary>
        public Task InterruptAsync(
            string npc = null, string session = null, IEnumerable<string> scene = null,
            CancellationToken cancel = default(CancellationToken))
        {
            return RequestAsync("interrupt", Addressed(npc, session, scene), cancel);
        }

        /// <summary>Let NPCs hear what a speaker says to somebody else.</summary>
        public Task OverhearAsync(
            string speaker, string text, string npc = null, string session = null,
            IEnumerable<string> scene = null, string to = null,
            CancellationToken cancel = default(CancellationToken))
        {
            var said = Addressed(npc, session, scene);
            said["speaker"] = speaker;
            said["text"] = text;
            said["to"] = to;
            return RequestAsync("overhear", said, cancel);
        }

        /// <summary>Tell NPCs the facts of their scene, in place of earlier ones.</summary>
        public Task SetSceneAsync(
            IEnumerable<string> context, string npc = null, string session = null,
            IEnumerable<string> scene = null,
            CancellationToken cancel = default(CancellationToken))
        {
            var said = Addressed(npc, session, scene);
            said["context"] = context;
            return RequestAsync("scene", said, cancel);
        }

        /// <summary>Send any other request of the protocol; return its answer. Fields that
        /// are null are left out. Cancelling ends the wait, not the request.</summary>
        /// <exception cref="GlyphoxaException">It is refused.</exception>
        /// <exception cref="GlyphoxaClosedException">The connection is closed.</exception>
        public async Task<IReadOnlyDictionary<string, object>> RequestAsync(
            string type, IDictionary<string, object> fields = null,
            CancellationToken cancel = default(CancellationToken))
        {
            var reply = new TaskCompletionSource<Dictionary<string, object>>(
                TaskCreationOptions.RunContinuationsAsynchronously);
            string id = NewId();
            lock (_gate) _waiting[id] = reply;
            try
            {
                using (cancel.Register(() => reply.TrySetCanceled(cancel)))
                {
                    Tell(type, id, fields);
                    return await reply.Task.ConfigureAwait(false);
                }
            }
            finally
            {
                lock (_gate) _waiting.Remove(id);
            }
        }

        /// <summary>Close the connection; what runs is interrupted. Takes two seconds at
        /// most.</summary>
        public async Task CloseAsync()
        {
            if (End(new GlyphoxaClosedException(1000, "it was closed here")))
                await SayGoodbyeAsync().ConfigureAwait(false);
        }

        /// <summary>Let go of the connection at once.</summary>
        public void Dispose()
        {
            End(new GlyphoxaClosedException(1000, "it was closed here"));
            LetGo();
        }

        internal void Tell(string type, string id, IEnumerable<KeyValuePair<string, object>> fields)
        {
            var message = new Dictionary<string, object> { { "type", type } };
            if (id != null) message["id"] = id;
            if (fields != null)
                foreach (var field in fields)
                    if (field.Value != null) message[field.Key] = field.Value;
            byte[] text = Encoding.UTF8.GetBytes(Json.Write(message));
            Post(new ArraySegment<byte>(text), WebSocketMessageType.Text);
        }

        internal void Forget(string id)
        {
            lock (_gate) _answers.Remove(id);
        }

        private static bool IsOfTheConnection(Exception error)
        {
            return error is WebSocketException || error is OperationCanceledException
                || error is ObjectDisposedException || error is InvalidOperationException
                || error is System.IO.IOException || error is System.Net.Sockets.SocketException;
        }

        private static Dictionary<string, object> Addressed(
            string npc, string session, IEnumerable<string> scene)
        {
            return new Dictionary<string, object>
            {
                { "npc", npc },
                { "session", session },
                { "scene", scene },
            };
        }

        private string NewId()
        {
            return "u" + Interlocked.Increment(ref _ids);
        }

        private Answer Begin(string type, Dictionary<string, object> said)
        {
            return Begin(type, said, new Answer(this, _gate, NewId()));
        }

        private T Begin<T>(string type, Dictionary<string, object> said, T answer)
            where T : Answer
        {
            lock (_gate) _answers[answer.Id] = answer;
            try
            {
                Tell(type, answer.Id, said);
            }
            catch
            {
                Forget(answer.Id);
                throw;
            }
            return answer;
        }

        internal async Task HearAsync(ArraySegment<byte> pcm)
        {
            await Post(pcm, WebSocketMessageType.Binary).ConfigureAwait(false);
            ThrowIfClosed();
        }

        private void ThrowIfClosed()
        {
            if (Closed != null) throw Closed;
        }

        /// <summary>Send after what was sent before: a WebSocket sends one at a time.
        /// </summary>
        private Task Post(ArraySegment<byte> data, WebSocketMessageType type)
        {
            lock (_gate)
            {
                ThrowIfClosed();
                if (_unsent >= MostUnsent)
                    throw new GlyphoxaException("too_many", "too much waits to be sent");
                _unsent++;
                _sent = SendAsync(_sent, data, type);
                return _sent;
            }
        }

        private async Task SendAsync(Task before, ArraySegment<byte> data, WebSocketMessageType type)
        {
            await before.ConfigureAwait(false);
            try
            {
                // A token of the caller's would break the connection in the middle.
                await _socket.SendAsync(data, type, true, CancellationToken.None)
                    .ConfigureAwait(false);
            }
            catch (Exception error) when (IsOfTheConnection(error))
            {
                End(new GlyphoxaClosedException(1006, "the service has left"));
            }
            finally
            {
                lock (_gate) _unsent--;
            }
        }

        private async Task OpenAsync(Uri url, string token, CancellationToken cancel)
        {
            using (var limit = CancellationTokenSource.CreateLinkedTokenSource(cancel))
            {
                limit.CancelAfter(ConnectWithin);
                try
                {
                    await _socket.ConnectAsync(url, limit.Token).ConfigureAwait(false);
                    Tell("hello", null, new Dictionary<string, object>
                    {
                        { "protocol", Protocol },
                        { "token", token },
                    });
                    Message first = await ReceiveAsync(limit.Token).ConfigureAwait(false);
                    Welcome = (Dictionary<string, object>)Json.Read(first.Text);
                }
                catch (Exception error) when (IsOfTheConnection(error))
                {
                    cancel.ThrowIfCancellationRequested();
                    throw new GlyphoxaClosedException(1006, "it cannot be opened");
                }
            }
        }

        private void Start()
        {
            Task.Run(ReadAsync);
            Task.Run(LiveAsync);
        }

        private async Task ReadAsync()
        {
            try
            {
                while (true)
                {
                    Message message = await ReceiveAsync(_over.Token).ConfigureAwait(false);
                    if (message.Audio != null)
                        Hear(message.Audio);
                    else
                        Take((Dictionary<string, object>)Json.Read(message.Text));
                }
            }
            catch (GlyphoxaClosedException closed)
            {
                End(closed);
            }
            catch (Exception error) when (IsOfTheConnection(error))
            {
                End(new GlyphoxaClosedException(1006, "the service has left"));
            }
            catch (Exception error)
            {
                End(new GlyphoxaClosedException(1002, "no message of the protocol: " + error.Message));
            }
            await SayGoodbyeAsync().ConfigureAwait(false);
        }

        /// <summary>Send the close of the WebSocket after all that was sent.</summary>
        private async Task SayGoodbyeAsync()
        {
            Task sent;
            lock (_gate) sent = _sent;
            try
            {
                await Task.WhenAny(sent, Task.Delay(CloseWithin)).ConfigureAwait(false);
                using (var limit = new CancellationTokenSource(CloseWithin))
                    await _socket.CloseOutputAsync(
                        WebSocketCloseStatus.NormalClosure, "", limit.Token)
                        .ConfigureAwait(false);
            }
            catch (Exception error) when (IsOfTheConnection(error))
            {
            }
            LetGo();
        }

        private void LetGo()
        {
            // Not before the goodbye: who stops to receive breaks the connection.
            _over.Cancel();
            _socket.Dispose();
        }

        private async Task<Message> ReceiveAsync(CancellationToken cancel)
        {
            var data = new System.IO.MemoryStream();
            var part = new ArraySegment<byte>(new byte[16384]);
            while (true)
            {
                WebSocketReceiveResult got =
                    await _socket.ReceiveAsync(part, cancel).ConfigureAwait(false);
                if (got.MessageType == WebSocketMessageType.Close)
                    throw new GlyphoxaClosedException(
                        (int)(got.CloseStatus ?? WebSocketCloseStatus.Empty),
                        got.CloseStatusDescription);
                data.Write(part.Array, 0, got.Count);
                if (data.Length > LargestMessage)
                    throw new GlyphoxaClosedException(1009, "a message of more than 16 MiB");
                if (!got.EndOfMessage) continue;
                return got.MessageType == WebSocketMessageType.Binary
                    ? new Message { Audio = data.ToArray() }
                    : new Message { Text = Encoding.UTF8.GetString(data.ToArray()) };
            }
        }

        /// <summary>Tell the service now and then that this client lives.</summary>
        private async Task LiveAsync()
        {
            long every = Welcome.TryGetValue("heartbeat_ms", out object told) && told is long ms
                ? ms / 3
                : 20000;
            try
            {
                while (true)
                {
                    await Task.Delay(TimeSpan.FromMilliseconds(every), _over.Token)
                        .ConfigureAwait(false);
                    Tell("ping", null, null);
                }
            }
            catch (OperationCanceledException)
            {
            }
            catch (GlyphoxaClosedException)
            {
            }
        }

        private void Take(Dictionary<string, object> message)
        {
            string type = message["type"] as string;
            if (type == "events")
            {
                foreach (object fields in (List<object>)message["events"])
                    Put(new TurnEvent((Dictionary<string, object>)fields));
                return;
            }
            message.TryGetValue("id", out object name);
            if (!(name is string id)) return;
            GlyphoxaException refused = type != "error"
                ? null
                : new GlyphoxaException(message["code"] as string, message["message"] as string);
            lock (_gate)
            {
                if (_answers.TryGetValue(id, out Answer answer))
                {
                    if (type == "accepted") answer.Accept();
                    else if (type == "error" || type == "done") answer.End(refused);
                }
                else if (_waiting.TryGetValue(id, out var reply))
                {
                    if (refused != null) reply.TrySetException(refused);
                    else reply.TrySetResult(message);
                }
            }
        }

        private void Put(TurnEvent told)
        {
            lock (_gate)
            {
                if (told.LacksAudio) _speeches.Enqueue(told);
                if (_answers.TryGetValue(told.Id, out Answer answer)) answer.Put(told);
            }
        }

        /// <summary>Put audio into the oldest event that waits for it.</summary>
        private void Hear(byte[] pcm)
        {
            lock (_gate)
            {
                TurnEvent told = _speeches.Dequeue();
                told.Pcm = pcm;
                if (_answers.TryGetValue(told.Id, out Answer answer)) answer.Wake();
            }
        }

        private bool End(GlyphoxaClosedException closed)
        {
            lock (_gate)
            {
                if (_closed != null) return false;
                _closed = closed;
                foreach (var reply in _waiting.Values) reply.TrySetException(closed);
                foreach (var answer in _answers.Values) answer.End(closed);
                return true;
            }
        }

        private sealed class Message
        {
            public string Text;
            public byte[] Audio;
        }
    }

    /// <summary>The events of an utterance. Disposing it before the end interrupts the
    /// NPC.</summary>
    public class Answer : IDisposable
    {
        private const int AckEvery = 16; // events; the service sends at most 64 without one

        private readonly Client _client;
        private readonly object _gate; // the client's: with two, each might wait for the other
        private readonly Queue<TurnEvent> _waiting = new Queue<TurnEvent>();
        private TaskCompletionSource<bool> _wake;
        private bool _ended;
        private Exception _error;
        private long _last;
        private long _acked;
        private double? _played;

        internal Answer(Client client, object gate, string id)
        {
            _client = client;
            _gate = gate;
            Id = id;
        }

        public string Id { get; }

        /// <summary>The last event of an answer, TurnDone, once it was handed out.
        /// </summary>
        public TurnEvent Done { get; private set; }

        /// <summary>The next event, or null after the last. Asking for it says that the
        /// last one was delivered. Cancelling loses no event. One call at a time.</summary>
        /// <exception cref="GlyphoxaException">It was not accepted; Code says why.
        /// </exception>
        /// <exception cref="GlyphoxaClosedException">The connection is closed.</exception>
        public async Task<TurnEvent> NextAsync(
            CancellationToken cancel = default(CancellationToken))
        {
            while (true)
            {
                TaskCompletionSource<bool> wake;
                lock (_gate)
                {
                    long behind = _last - _acked;
                    if (behind > 0 && (!IsReady || behind >= AckEvery)) Acknowledge();
                    if (Done != null) return null;
                    if (IsReady) return TakeFirst();
                    if (_ended)
                    {
                        if (_error != null) throw _error;
                        return null;
                    }
                    if (_wake != null)
                        throw new InvalidOperationException("NextAsync is already waiting");
                    wake = _wake = new TaskCompletionSource<bool>(
                        TaskCreationOptions.RunContinuationsAsynchronously);
                }
                try
                {
                    using (cancel.Register(() => wake.TrySetCanceled(cancel)))
                        await wake.Task.ConfigureAwait(false);
                }
                finally
                {
                    lock (_gate) _wake = null;
                }
            }
        }

        /// <summary>Hear the rest; return the last event.</summary>
        public async Task<TurnEvent> FinishAsync(
            CancellationToken cancel = default(CancellationToken))
        {
            while (await NextAsync(cancel).ConfigureAwait(false) != null)
            {
            }
            return Done;
        }

        /// <summary>Interrupt the NPC, or close the microphone; the last events still come.
        /// </summary>
        public void Leave()
        {
            TellIfOpen("leave", null);
        }

        /// <summary>Report how many milliseconds of the audio were played in all. From the
        /// first report on, only what was played counts as delivered.</summary>
        public void Played(double ms)
        {
            lock (_gate)
            {
                _played = ms;
                Acknowledge();
            }
        }

        public void Dispose()
        {
            lock (_gate)
            {
                if (Done != null)
                {
                    if (_acked < _last) Acknowledge();
                }
                else if (!_ended)
                {
                    Leave();
                }
                _ended = true;
            }
            _client.Forget(Id);
        }

        internal void Put(TurnEvent told)
        {
            _waiting.Enqueue(told);
            Wake();
        }

        internal void Wake()
        {
            _wake?.TrySetResult(true);
        }

        internal virtual void Accept()
        {
        }

        internal virtual void End(Exception error)
        {
            _ended = true;
            _error = error;
            Wake();
        }

        /// <summary>Look at an event that is handed out.</summary>
        internal virtual void Note(TurnEvent told)
        {
            if (told.Kind == "TurnDone") Done = told;
        }

        internal void PlaybackBegins()
        {
            _played = null;
        }

        private bool IsReady => _waiting.Count > 0 && !_waiting.Peek().LacksAudio;

        private TurnEvent TakeFirst()
        {
            TurnEvent told = _waiting.Dequeue();
            _last = told.N;
            Note(told);
            return told;
        }

        private void Acknowledge()
        {
            _acked = _last;
            TellIfOpen("ack", new Dictionary<string, object>
            {
                { "n", _last },
                { "played_ms", _played },
            });
        }

        private void TellIfOpen(string type, Dictionary<string, object> fields)
        {
            try
            {
                _client.Tell(type, Id, fields);
            }
            catch (GlyphoxaClosedException)
            {
            }
        }
    }

    /// <summary>An open microphone, with the events of all turns that it begins. Disposing
    /// it closes it.</summary>
    public sealed class Microphone : Answer
    {
        private readonly Client _client;
        private readonly TaskCompletionSource<bool> _accepted =
            new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);

        internal Microphone(Client client, object gate, string id)
            : base(client, gate, id)
        {
            _client = client;
        }

        /// <summary>Send audio: PCM16, mono, at most 256 KiB. The array is read until the
        /// task ends. The first waits until the NPC listens.</summary>
        /// <exception cref="GlyphoxaException">The microphone was not accepted; Code says
        /// why.</exception>
        /// <exception cref="GlyphoxaClosedException">The connection is closed.</exception>
        public Task HearAsync(byte[] pcm)
        {
            return HearAsync(new ArraySegment<byte>(pcm));
        }

        /// <summary>Send audio that is a part of an array.</summary>
        public async Task HearAsync(ArraySegment<byte> pcm)
        {
            await _accepted.Task.ConfigureAwait(false);
            await _client.HearAsync(pcm).ConfigureAwait(false);
        }

        internal override void Accept()
        {
            _accepted.TrySetResult(true);
        }

        internal override void End(Exception error)
        {
            base.End(error);
            if (error == null) _accepted.TrySetCanceled();
            else _accepted.TrySetException(error);
        }

        internal override void Note(TurnEvent told)
        {
            if (told.Kind == "Flush") PlaybackBegins(); // it counts from 0 again
        }
    }
}
