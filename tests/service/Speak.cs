// What a program of a game does with the client: run by test_clients_csharp.py, which
// names one of these. What is awaited goes on on the main thread, as in Unity.
using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Globalization;
using System.Threading;
using System.Threading.Tasks;
using Glyphoxa;

/// <summary>One thread that runs what is posted to it, as Unity's main thread does.
/// </summary>
internal sealed class MainThread : SynchronizationContext
{
    private readonly BlockingCollection<Action> _work = new BlockingCollection<Action>();

    public override void Post(SendOrPostCallback call, object state)
    {
        _work.Add(() => call(state));
    }

    public static void Run(Func<Task> program)
    {
        var thread = new MainThread();
        SetSynchronizationContext(thread);
        Task task = program();
        task.ContinueWith(_ => thread._work.CompleteAdding(), TaskScheduler.Default);
        foreach (Action work in thread._work.GetConsumingEnumerable()) work();
        task.GetAwaiter().GetResult();
    }
}

internal static class Speak
{
    private static int main;

    public static int Main(string[] args)
    {
        main = Thread.CurrentThread.ManagedThreadId;
        CultureInfo.CurrentCulture = new CultureInfo("de-DE"); // a comma in numbers
        string token = args.Length > 2 ? args[2] : null;
        switch (args[0])
        {
            case "json":
                return Echo();
            case "talk":
                MainThread.Run(() => Talk(args[1], token));
                break;
            case "voice":
                MainThread.Run(() => Voice(args[1]));
                break;
            case "stay":
                MainThread.Run(() => Stay(args[1]));
                break;
            case "leave":
                MainThread.Run(() => Leave(args[1]));
                break;
        }
        Console.WriteLine("all is well");
        return 0;
    }

    private static async Task Talk(string url, string token)
    {
        var closed = await Fails<GlyphoxaClosedException>(
            Client.ConnectAsync(url, "a-token-that-is-wrong"));
        Same(closed.Code, 4001);
        Holds(!closed.ToString().Contains("a-token-that-is-wrong"), "the token is hidden");
        await Fails<GlyphoxaClosedException>(Client.ConnectAsync("ws://127.0.0.1:9/ws"));

        Client client = await Client.ConnectAsync(url, token);
        Same(client.Role, "game_master");
        var players = new Dictionary<string, string> { { "Eve", "game:7" } };
        Same(string.Join(" ", await client.JoinAsync("one", players: players)), "Bo Ann");

        // An answer, in order and to its end, on this thread.
        var said = new List<string>();
        long events = 0;
        using (Answer answer = client.Say("Häil \"ß\\\t", npc: "Bo", session: "one", speaker: "Eve"))
        {
            TurnEvent told;
            while ((told = await answer.NextAsync()) != null)
            {
                Same(Thread.CurrentThread.ManagedThreadId, main);
                Same(told.N, ++events);
                if (told.Kind == "Sentence") said.Add(told.Text);
            }
            Same(answer.Done.N, events);
            Same(answer.Done.Field<string>("end"), "completed");
        }
        Same(string.Join("|", said), "You said Häil \"ß\\\t.|So it is.");

        // Two at once, and a limit as a number with a fraction.
        Answer a = client.Say("a", npc: "Bo", session: "a", remainingMs: 9999.5);
        Answer b = client.Say("b", npc: "Bo", session: "b", tier: "fast");
        Same((await b.FinishAsync()).Text, "You said b. So it is.");
        Same((await a.FinishAsync()).Text, "You said a. So it is.");

        // Waiting is cancelled, and nothing is lost; leaving interrupts.
        using (Answer answer = client.Say("hang", npc: "Bo", session: "one"))
        {
            TurnEvent told;
            do told = await answer.NextAsync();
            while (told.Kind != "Sentence");
            using (var soon = new CancellationTokenSource(100))
                await Fails<OperationCanceledException>(Until(answer, "TurnDone", soon.Token));
            answer.Leave();
            Same((await answer.FinishAsync()).Field<string>("end"), "interrupted");
        }
        using (Answer answer = client.Say("hang", npc: "Bo", session: "one"))
            await Until(answer, "Sentence", CancellationToken.None);
        Same((await client.Say("And?", npc: "Bo", session: "one").FinishAsync())
            .Field<string>("end"), "completed");

        // What a game master may.
        await client.SetSceneAsync(new[] { "It rains.", "It is late." }, session: "one");
        await client.OverhearAsync("Eve", "Psst.", npc: "Bo", session: "one", to: "Adam");
        Same((await client.SpeakAs("Bo", "Leave!", session: "one").FinishAsync()).Text, "Leave!");
        using (Answer answer = client.Say("hang", npc: "Bo", session: "one"))
        {
            await Until(answer, "Sentence", CancellationToken.None);
            await client.InterruptAsync("Bo", "one");
            Same((await answer.FinishAsync()).Field<string>("end"), "interrupted");
        }
        Same(await client.ApproveAsync("none", true, "Bo", "one"), false);

        // Errors.
        Same(await Refused(client.Say("x", npc: "Zed").FinishAsync()), "not_found");
        Same(await Refused(client.Say("x", npc: "Bo", tier: "slow").FinishAsync()), "bad_message");
        Same(await Refused(client.RequestAsync("sing")), "bad_message");

        await client.CloseAsync();
        await Fails<GlyphoxaClosedException>(client.JoinAsync());
        Holds(client.Closed.Code == 1000, "it is closed");
    }

    private static async Task Voice(string url)
    {
        Client client = await Client.ConnectAsync(url);
        int audio = 0;
        using (Answer answer = client.Say("knock", npc: "Bo"))
        {
            answer.Played(0);
            TurnEvent told;
            while ((told = await answer.NextAsync()) != null)
                if (told.Kind == "Speech")
                {
                    Same(told.Pcm.Length, told.Field<long>("bytes"));
                    audio += told.Pcm.Length;
                }
            answer.Played(2000.5); // of the first sentence, and a little of the second
        }
        Same((await client.Say("and?", npc: "Bo", voiced: false).FinishAsync()).Kind, "TurnDone");
        Console.WriteLine("heard " + audio);

        using (Microphone ears = client.Listen(8000, npc: "Bo", speaker: "Ann"))
        {
            await ears.HearAsync(new byte[400]);
            await Until(ears, "Transcript", CancellationToken.None);
            await Until(ears, "Speech", CancellationToken.None);
            await Until(ears, "TurnDone", CancellationToken.None);
            ears.Played(10000);
            Same(await Refused(client.Listen(8000, npc: "Bo").FinishAsync()), "too_many");
        }
        client.Dispose();
    }

    /// <summary>Live longer than the service waits for a sign of life, until it stops.
    /// </summary>
    private static async Task Stay(string url)
    {
        Client client = await Client.ConnectAsync(url);
        await Task.Delay((int)(2 * (long)client.Welcome["heartbeat_ms"]));
        Answer answer = client.Say("hang", npc: "Bo");
        await Until(answer, "Sentence", CancellationToken.None);
        Console.WriteLine("here");
        var closed = await Fails<GlyphoxaClosedException>(answer.FinishAsync());
        Same(closed.Code, 1001);
        await client.CloseAsync();
    }

    private static async Task Leave(string url)
    {
        Client client = await Client.ConnectAsync(url);
        client.Say("The last words.");
        await client.CloseAsync();
    }

    /// <summary>Read each line as JSON, and write it again.</summary>
    private static int Echo()
    {
        string line;
        while ((line = Console.ReadLine()) != null)
        {
            try
            {
                Console.WriteLine(Json.Write(Json.Read(line)));
            }
            catch (FormatException)
            {
                Console.WriteLine("wrong");
            }
        }
        return 0;
    }

    private static async Task Until(Answer answer, string kind, CancellationToken cancel)
    {
        TurnEvent told;
        do told = await answer.NextAsync(cancel);
        while (told != null && told.Kind != kind);
        Holds(told != null, "there is a " + kind);
    }

    private static async Task<T> Fails<T>(Task work)
        where T : Exception
    {
        try
        {
            await work;
        }
        catch (T error)
        {
            return error;
        }
        throw new Exception("it did not fail with " + typeof(T).Name);
    }

    private static async Task<string> Refused(Task work)
    {
        return (await Fails<GlyphoxaException>(work)).Code;
    }

    private static void Same<T>(T found, T wanted)
    {
        Holds(Equals(found, wanted), found + " is " + wanted);
    }

    private static void Holds(bool truth, string what)
    {
        if (!truth) throw new Exception("not so: " + what);
    }
}
