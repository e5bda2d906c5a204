// The program of the behaviour suite, in C#.

using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;
using Tidewire;

namespace Hosted
{
    public class TextMessage
    {
        public string Text { get; set; } = string.Empty;
    }

    public class NumberMessage
    {
        public int Number { get; set; }
    }

    public class RealMessage
    {
        public double Number { get; set; }
    }

    public static class Program
    {
        private const string Name = "tidewire.hosted.v1.Hosted/";
        private static readonly ConcurrentDictionary<string, int> Runs = new ConcurrentDictionary<string, int>();
        private static readonly ConcurrentDictionary<string, TaskCompletionSource<bool>> Notes =
            new ConcurrentDictionary<string, TaskCompletionSource<bool>>();

        private static IDisposable? rest;

        public static void Main()
        {
            var app = new App();
            app.Unary<byte[], byte[]>(Name + "Echo", Echo);
            app.Unary<TextMessage, NumberMessage>(Name + "Get", (request, context) =>
            {
                context.Depends("items", request.Text);
                return Bare(request, context);
            });
            app.Unary<TextMessage, NumberMessage>(Name + "Bare", Bare);
            app.Unary<byte[], TextMessage>(Name + "List", List);
            app.Unary<TextMessage, TextMessage>(Name + "Set", (request, context) =>
            {
                context.Changed("items", request.Text);
                return request;
            });
            app.Unary<JsonElement, NumberMessage>(Name + "Size", (request, context) =>
            {
                object? number = request.TryGetProperty("number", out var there) ? there : (object)0;
                context.Depends("items", number);
                return Bare(new TextMessage { Text = "size " + Key.Text(number) }, context);
            });
            app.Unary<RealMessage, RealMessage>(Name + "Resize", (request, context) =>
            {
                context.Changed("items", request.Number);
                return request;
            });
            app.ServerStream<NumberMessage, object>(Name + "Count", Count);
            app.ClientStream<NumberMessage, NumberMessage>(Name + "Sum", SumAsync);
            app.BidiStream<TextMessage, TextMessage>(Name + "Chat", ChatAsync);
            app.Unary<TextMessage, TextMessage>(Name + "Fail", Fail);
            app.Unary<TextMessage, TextMessage>(Name + "Wait", async (request, context) =>
            {
                await EndAsync(request, context);
                return request;
            });
            app.ServerStream<TextMessage, NumberMessage>(Name + "Drip", DripAsync);
            app.Unary<TextMessage, TextMessage>(Name + "Heard", async (request, _) =>
            {
                await Noted(request.Text).Task;
                return request;
            });
            app.Unary<TextMessage, TextMessage>(Name + "Begin", BeginAsync);
            app.Unary<TextMessage, TextMessage>(Name + "Within", WithinAsync);
            app.Unary<TextMessage, NumberMessage>(Name + "Through", (request, context) =>
                context.CallAsync<NumberMessage>(Name + "Get", request, query: true));
            foreach (var which in new[] { string.Empty, "Public", "Vary", "Caller", "Query" })
            {
                app.Unary<TextMessage, TextMessage>(Name + "Who" + which, WhoAsync);
            }
            app.Unary<TextMessage, NumberMessage>(Name + "Left", (_, context) =>
                new NumberMessage { Number = (int)(context.Remaining?.TotalMilliseconds ?? 0) });
            app.Unary<TextMessage, object>(Name + "Do", Do);
            app.Pages(PageAsync);
            app.Log(Level.Debug, "said before it is known who hears it");
            app.Serve();
        }

        private static TaskCompletionSource<bool> Noted(string text) =>
            Notes.GetOrAdd(text, _ => new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously));

        private static void Note(string text) => Noted(text).TrySetResult(true);

        private static byte[] Echo(byte[] request, Context context)
        {
            if (context.Header("X-Ping") is string ping)
            {
                context.AddHeader("x-pong", ping);
                context.AddTrailer("x-pong-trailer", ping);
            }
            return request;
        }

        private static async Task<TextMessage> WithinAsync(TextMessage request, Context context)
        {
            if (request.Text == "sum")
            {
                var sum = await context.CallAsync<NumberMessage>(Name + "Sum", new NumberMessage { Number = 5 });
                return new TextMessage { Text = sum.Number.ToString(CultureInfo.InvariantCulture) };
            }
            return await context.CallAsync<TextMessage>(Name + "Echo", new TextMessage { Text = "inner " + request.Text });
        }

        private static async Task<TextMessage> WhoAsync(TextMessage request, Context context)
        {
            if (request.Text.Length > 0)
            {
                return await context.CallAsync<TextMessage>(Name + "Who", new TextMessage(), asCaller: request.Text == "caller");
            }
            context.Depends("items", "who");
            var (known, said) = (context.Principal, "nobody");
            if (known != null)
            {
                var tenant = known.Claims.TryGetValue("tenant", out var claim) ? claim : "-";
                said = $"{known.Issuer} {known.Subject} {string.Join("+", known.Scopes)} {tenant} {(known.HasScope("read") ? "true" : "false")}";
            }
            return new TextMessage { Text = said + " " + Bare(new TextMessage { Text = "who" }, context).Number };
        }

        private static NumberMessage Bare(TextMessage request, Context context) =>
            new NumberMessage { Number = Runs.AddOrUpdate(request.Text, 1, (_, runs) => runs + 1) };

        private static TextMessage List(byte[] came, Context context)
        {
            var number = JsonSerializer.Deserialize<NumberMessage>(came, CamelCase).Number;
            for (var key = 1; key <= number; key++)
            {
                context.Depends("items", key);
            }
            if (number == 0)
            {
                context.Depends("items");
            }
            else if (number < 0)
            {
                context.Depends(new string('s', 20_000));
            }
            var runs = Bare(new TextMessage { Text = "list " + number }, context).Number;
            return new TextMessage { Text = runs + " " + System.Text.Encoding.UTF8.GetString(came) };
        }

        private static readonly JsonSerializerOptions CamelCase =
            new JsonSerializerOptions { PropertyNamingPolicy = JsonNamingPolicy.CamelCase };

        private static IEnumerable<object> Count(NumberMessage request, Context context)
        {
            for (var number = 1; number <= request.Number; number++)
            {
                yield return new NumberMessage { Number = number };
            }
            if (request.Number < 0)
            {
                yield return new NumberMessage { Number = 1 };
            }
            if (request.Number == -2)
            {
                yield return new Dictionary<string, object> { ["number"] = "x" };
            }
            else if (request.Number < 0)
            {
                context.AddTrailer("x-long", new string('y', 20_000));
            }
        }

        private static async Task<NumberMessage> SumAsync(IAsyncEnumerable<NumberMessage> requests, Context context)
        {
            var sum = 0;
            await foreach (var request in requests)
            {
                if (request.Number == -1)
                {
                    return request;
                }
                sum += request.Number;
            }
            return new NumberMessage { Number = sum };
        }

        private static async IAsyncEnumerable<TextMessage> ChatAsync(IAsyncEnumerable<TextMessage> requests, Context context)
        {
            await foreach (var request in requests)
            {
                if (request.Text == "raise")
                {
                    throw new InvalidOperationException("secret");
                }
                yield return new TextMessage { Text = "re: " + request.Text };
            }
        }

        private static TextMessage Fail(TextMessage request, Context context)
        {
            context.Depends("items", request.Text);
            context.AddTrailer("x-fail-trailer", "late");
            throw new TidewireException(
                Code.NotFound,
                "there is no " + request.Text,
                new[] { new Detail("tidewire.hosted.v1.Text", new byte[] { 10, 1, (byte)'x' }) },
                new[] { new Header("x-fail", "yes") });
        }

        /// <summary>Waits until the caller gives up, and notes it.</summary>
        private static async Task EndAsync(TextMessage request, Context context)
        {
            try
            {
                await Task.Delay(Timeout.Infinite, context.Cancelled);
            }
            finally
            {
                Note(request.Text);
            }
        }

        private static async IAsyncEnumerable<NumberMessage> DripAsync(TextMessage request, Context context)
        {
            yield return new NumberMessage { Number = 1 };
            await EndAsync(request, context);
        }

        private static async Task<TextMessage> BeginAsync(TextMessage request, Context context)
        {
            var words = request.Text.Split(' ');
            Note(words[0]);
            await Noted(words[1]).Task;
            if (!context.Cancelled.IsCancellationRequested)
            {
                Note(words[2]);
            }
            return new TextMessage();
        }

        private static object Do(TextMessage request, Context context)
        {
            switch (request.Text)
            {
                case "pid":
                    return new TextMessage { Text = Process.GetCurrentProcess().Id.ToString(CultureInfo.InvariantCulture) };
                case "crash":
                    Process.GetCurrentProcess().Kill();
                    break;
                case "garbage":
                    PrintToEverySocket();
                    Thread.Sleep(60_000);
                    break;
                case "noise":
                    for (var line = 0; line < 20_000; line++)
                    {
                        Console.WriteLine(new string('x', 100));
                    }
                    context.Log(Level.Warn, "noise is over", ("lines", 20_000));
                    break;
                case "raise":
                    throw new InvalidOperationException("secret");
                case "lines":
                    throw new TidewireException(Code.NotFound, "one\r\ntwo\n\nthree");
                case "raise lines":
                    throw new InvalidOperationException("one\r\ntwo\n\nthree");
                case "hook":
                    throw new Unshowable();
                case "busy":
                    rest = context.App.Busy();
                    break;
                case "idle":
                    rest!.Dispose();
                    break;
                case "nan":
                    return new RealMessage { Number = double.NaN };
                case "no json":
                    return new Endless();
                case "odd answer":
                    return new { text = "odd", more = 1 };
                case "wrong answer":
                    return new { text = 5 };
                case "bad details":
                    throw new TidewireException(Code.NotFound, "m", new Detail[] { null! });
            }
            SayTooMuch(request.Text, context);
            return request;
        }

        /// <summary>To the one that the gateway reads, among others.</summary>
        private static void PrintToEverySocket()
        {
            foreach (var link in Directory.GetFiles("/proc/self/fd"))
            {
                var number = int.Parse(Path.GetFileName(link), CultureInfo.InvariantCulture);
                if (number > 2)
                {
                    try
                    {
                        var handle = new Microsoft.Win32.SafeHandles.SafeFileHandle((IntPtr)number, false);
                        using var file = new FileStream(handle, FileAccess.Write, 1);
                        file.Write(System.Text.Encoding.UTF8.GetBytes("HTTP/1.1 200 OK\r\n\r\nthis is not a frame"));
                    }
                    catch (Exception)
                    {
                        // It is not to be written to.
                    }
                }
            }
        }

        /// <summary>Says what there is no room for.</summary>
        private static void SayTooMuch(string what, Context context)
        {
            var (text, keys) = (new string('y', 20_000), what == "many" ? 20_000 : what == "two" ? 2_000 : 0);
            foreach (var key in Enumerable.Range(0, keys))
            {
                context.Depends("items", key);
            }
            switch (what)
            {
                case "few":
                    context.Depends("items", 1);
                    context.Depends("items", "a/b");
                    context.Depends("items", 1);
                    break;
                case "two":
                    context.Depends("tags");
                    break;
                case "long key":
                    context.Depends("items", text);
                    break;
                case "long source":
                    context.Depends(text);
                    break;
                case "long header":
                    context.AddHeader("x-long", text);
                    break;
                case "long trailer":
                    context.AddTrailer("x-long", text);
                    break;
                case "long changed":
                    context.Changed("items", new string('x', 70_000));
                    break;
                case "no key":
                    context.Changed("items", 7, new Dictionary<string, int>());
                    break;
                case "fields":
                    context.Log(Level.Info, "t", ("under_score", 1), ("sp ace", "v"), ("LF", "a\r\nb\u001bc"));
                    break;
                case "long log":
                    context.Log(Level.Info, "x" + new string('é', 40_000));
                    break;
                case "wrong depends":
                    context.Depends(null!);
                    break;
                case "wrong changed":
                    context.Changed(null!);
                    break;
                case "wrong log":
                    context.Log(Level.Info, null!);
                    break;
            }
        }

        private static async Task PageAsync(Page page)
        {
            if (page.Path == "/switch")
            {
                page.Status = 101;
                return;
            }
            page.Status = 201;
            page.AddHeader("x-page", "yes");
            page.AddHeader("x-back", page.Header("x-name") ?? string.Empty);
            page.AddHeader("x-remote", page.Remote?.ToString() ?? string.Empty);
            await page.WriteAsync($"{page.Method} {page.Path}{(page.Query.Length > 0 ? "?" + page.Query : string.Empty)} ");
            var buffer = new byte[16_384];
            for (int count; (count = await page.Body.ReadAsync(buffer)) > 0;)
            {
                await page.WriteAsync(new ReadOnlyMemory<byte>(buffer, 0, count));
            }
        }

        /// <summary>A message that has no end.</summary>
        private sealed class Endless
        {
            public Endless Self => this;
        }

        /// <summary>An error that cannot be printed.</summary>
        private sealed class Unshowable : Exception
        {
            public override string Message => throw new InvalidOperationException("it has no text");

            public override string ToString() => throw new InvalidOperationException("it has no text");
        }
    }
}
