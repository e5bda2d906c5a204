// What a program serves: methods by their paths, and pages. Serving.cs has the socket.

using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Tidewire
{
    /// <summary>
    /// What a program serves behind a Tidewire gateway, which starts it, passes calls on a socket
    /// that it inherits (<c>TIDEWIRE_FD</c>), and ends it.
    /// </summary>
    /// <remarks>
    /// Handlers run in the thread pool, many at once. A handler that waits should be <c>async</c>.
    /// Messages are classes as JSON where tidewire.toml says <c>codec = "json"</c>; else they are
    /// <c>byte[]</c>, or what <see cref="Protobuf"/> makes of them. What a program prints is in the
    /// gateway's log.
    /// <code>
    /// var app = new App();
    /// app.Unary&lt;ItemRequest, Item&gt;("shop.v1.Shop/GetItem", (request, context) =>
    /// {
    ///     context.Depends("items", request.Id); // the reply stays cached until this item changes
    ///     return new Item { Name = "tea" };
    /// });
    /// app.Serve();
    /// </code>
    /// </remarks>
    public sealed partial class App
    {
        /// <summary>The version of this library.</summary>
        public const string Version = "0.1.0";

        private readonly Dictionary<string, Func<Context, Task>> handlers = new Dictionary<string, Func<Context, Task>>();
        private Func<Page, Task>? pages;
        private ulong jobs;

        /// <summary>Serves nothing yet.</summary>
        public App()
            : this("tidewire-dotnet/" + Version)
        {
        }

        internal App(string agent) => this.Session = new Session(agent, this.begun.Add);

        /// <summary>
        /// How messages become JSON; by System.Text.Json, where the framework has it. It reads and
        /// writes names in lowerCamelCase, integers of 64 bits as text, and enums by the names of
        /// their members, as protobuf's JSON has them.
        /// </summary>
        public IMessageFormat? Json { get; set; } = Documents.Json();

        /// <summary>
        /// How messages of other types than <c>byte[]</c> become protobuf; null means that there
        /// are none.
        /// </summary>
        public IMessageFormat? Protobuf { get; set; }

        /// <summary>Serves a method with one request and one reply.</summary>
        /// <exception cref="InvalidOperationException">
        /// The path is served already; so it is with the methods below.
        /// </exception>
        public void Unary<TRequest, TReply>(string path, Func<TRequest, Context, Task<TReply>> handler) =>
            this.Register(path, async context =>
            {
                var request = this.Decode<TRequest>(await context.WholeAsync().ConfigureAwait(false), context.Call.Codec);
                this.RunsOn(context.Call);
                this.Reply(context.Call, await handler(request, context).ConfigureAwait(false));
            });

        /// <summary>
        /// Serves a method with one request and one reply by a function that does not wait.
        /// </summary>
        public void Unary<TRequest, TReply>(string path, Func<TRequest, Context, TReply> handler) =>
            this.Register(path, async context =>
            {
                var request = this.Decode<TRequest>(await context.WholeAsync().ConfigureAwait(false), context.Call.Codec);
                this.RunsOn(context.Call);
                this.Reply(context.Call, handler(request, context));
            });

        /// <summary>Serves a method with many replies.</summary>
        public void ServerStream<TRequest, TReply>(string path, Func<TRequest, Context, IAsyncEnumerable<TReply>> handler) =>
            this.Register(path, async context =>
            {
                var request = this.Decode<TRequest>(await context.WholeAsync().ConfigureAwait(false), context.Call.Codec);
                await this.StreamAsync(context.Call, handler(request, context)).ConfigureAwait(false);
            });

        /// <summary>Serves a method with many replies by a function that does not wait.</summary>
        public void ServerStream<TRequest, TReply>(string path, Func<TRequest, Context, IEnumerable<TReply>> handler) =>
            this.Register(path, async context =>
            {
                var request = this.Decode<TRequest>(await context.WholeAsync().ConfigureAwait(false), context.Call.Codec);
                foreach (var reply in handler(request, context))
                {
                    await this.PushAsync(context.Call, this.EncodeReply(reply, context.Call.Codec)).ConfigureAwait(false);
                }
                this.Finish(context.Call);
            });

        /// <summary>Serves a method with many requests.</summary>
        public void ClientStream<TRequest, TReply>(
            string path, Func<IAsyncEnumerable<TRequest>, Context, Task<TReply>> handler) =>
            this.Register(path, async context =>
            {
                var reply = await handler(context.Requests<TRequest>(), context).ConfigureAwait(false);
                this.Reply(context.Call, reply);
            });

        /// <summary>Serves a method with many requests and many replies.</summary>
        public void BidiStream<TRequest, TReply>(
            string path, Func<IAsyncEnumerable<TRequest>, Context, IAsyncEnumerable<TReply>> handler) =>
            this.Register(path, context => this.StreamAsync(context.Call, handler(context.Requests<TRequest>(), context)));

        /// <summary>Serves the pages of the program's <c>route</c>.</summary>
        public void Pages(Func<Page, Task> handler) =>
            this.pages = handler ?? throw new ArgumentNullException(nameof(handler));

        /// <summary>
        /// Says that a key of a source changed: the gateway invalidates each cached reply that
        /// depends on it. Without a key, and with one of more than 64 KiB, the whole source
        /// changed. See <see cref="Key.Text"/> for what a key may be.
        /// </summary>
        /// <exception cref="ArgumentException">
        /// A part cannot be part of a key. The whole source counts as changed then.
        /// </exception>
        public void Changed(string source, params object?[]? key)
        {
            var text = string.Empty;
            try
            {
                text = Key.Text(key);
            }
            finally
            {
                this.SendChanged(source ?? throw new ArgumentNullException(nameof(source)), text);
            }
        }

        /// <summary>Writes a line to the gateway's log, with fields.</summary>
        public void Log(Level level, string text, params (string Name, object? Value)[] fields)
        {
            var line = Session.Cut(text ?? throw new ArgumentNullException(nameof(text)), Wire.PayloadMax);
            var number = new Output().Number(Tag.Level, (ulong)level);
            var metadata = new Output().Raw(number.Span).Headers(LogFields(fields));
            bool isDue;
            lock (this.gate)
            {
                var tooLong = new[] { new Header("left-out", $"{fields.Length} fields, which are too long") };
                var said = metadata.Count <= this.Session.MetadataMax ? metadata : new Output().Raw(number.Span).Headers(tooLong);
                this.Session.SendFrame(Kind.Log, said.Span, line);
                isDue = this.IsDue();
            }
            this.Write(isDue);
        }

        /// <summary>
        /// Fields as the protocol carries them: what names cannot have becomes a hyphen, what has no
        /// place in a line is escaped as the gateway escapes the line itself.
        /// </summary>
        internal static Header[] LogFields(IEnumerable<(string Name, object? Value)> fields) =>
            fields.Select(field => new Header(FieldName(field.Name), OneLine(field.Value?.ToString() ?? string.Empty))).ToArray();

        private static string FieldName(string? name)
        {
            var signs = (string.IsNullOrEmpty(name) ? "field" : name!).ToLowerInvariant().Select(sign => Output.IsToken(sign.ToString()) ? sign : '-');
            return new string(signs.Take(256).ToArray());
        }

        private static string OneLine(string text)
        {
            if (!text.Any(sign => char.IsControl(sign) && sign != '\t'))
            {
                return text;
            }
            var line = new System.Text.StringBuilder();
            foreach (var sign in text)
            {
                line.Append(sign switch
                {
                    '\n' => "\\n",
                    '\r' => "\\r",
                    _ when char.IsControl(sign) && sign != '\t' => $"\\u{{{(int)sign:x}}}",
                    _ => sign.ToString(),
                });
            }
            return line.ToString();
        }

        /// <summary>
        /// Says that work outside of calls begins: the gateway neither freezes nor ends the program
        /// until the result is disposed.
        /// </summary>
        public IDisposable Busy()
        {
            this.Count(1);
            return new Job(this);
        }

        /// <summary>
        /// Calls a method of the gateway, and waits for its reply; <paramref name="query"/> where
        /// it changes nothing. It ties nothing to a call that is being answered: see <see
        /// cref="Context.CallAsync"/>.
        /// </summary>
        /// <exception cref="TidewireException">The call failed.</exception>
        /// <exception cref="OperationCanceledException">
        /// The token was cancelled; the call may run on.
        /// </exception>
        public Task<TReply> CallAsync<TReply>(
            string path,
            object request,
            bool query = false,
            IEnumerable<Header>? headers = null,
            TimeSpan? timeout = null,
            CancellationToken cancellation = default) =>
            this.AskAsync<TReply>(null, path, request, new CallOptions(query, headers), timeout, cancellation);

        internal void Register(string path, Func<Context, Task> answer)
        {
            var name = path.TrimStart('/');
            if (!this.handlers.TryAdd(name, answer))
            {
                throw new InvalidOperationException(name + " is served twice");
            }
        }

        internal T Decode<T>(byte[] data, byte codec)
        {
            if (typeof(T) == typeof(byte[]))
            {
                return (T)(object)data;
            }
            return (T)this.Format(codec, typeof(T)).Read(data, typeof(T))!;
        }

        internal byte[] Encode<T>(T message, byte codec)
        {
            if (message is byte[] bytes)
            {
                return bytes;
            }
            if (message is null)
            {
                return codec == JsonCodec ? new byte[] { (byte)'{', (byte)'}' } : Array.Empty<byte>();
            }
            return this.Format(codec, message.GetType()).Write(message, message.GetType());
        }

        /// <summary>As Encode, of what a handler gives: null is a return that was forgotten.</summary>
        internal byte[] EncodeReply<T>(T message, byte codec) =>
            message is null
                ? throw new InvalidOperationException(
                    "the handler returned null; return a message without fields, or throw a TidewireException")
                : this.Encode(message, codec);

        private IMessageFormat Format(byte codec, Type type) =>
            codec == JsonCodec
                ? this.Json ?? throw new InvalidOperationException("no App.Json, which this framework has none for by itself")
                : this.Protobuf ?? throw new InvalidOperationException(
                    $"no App.Protobuf for {type.Name}; write codec = \"json\" for this service in tidewire.toml");

        private const byte JsonCodec = 1;

        /// <summary>
        /// A command with one reply that has begun ends by itself, though its call may be over
        /// before.
        /// </summary>
        private void RunsOn(Call call)
        {
            if (call.Command > 0)
            {
                lock (this.gate)
                {
                    call.RunsOn = call.IsOpen ? true : throw TidewireException.GivenUp();
                }
            }
        }

        private void Reply<T>(Call call, T message)
        {
            var data = this.EncodeReply(message, call.Codec);
            bool isDue;
            lock (this.gate)
            {
                this.Session.Reply(call, data);
                isDue = this.IsDue();
            }
            this.Write(isDue);
        }

        private async Task StreamAsync<T>(Call call, IAsyncEnumerable<T> replies)
        {
            await foreach (var reply in replies.ConfigureAwait(false))
            {
                await this.PushAsync(call, this.EncodeReply(reply, call.Codec)).ConfigureAwait(false);
            }
            this.Finish(call);
        }

        private void SendChanged(string source, string key)
        {
            var payload = new Output().String(source).String(key);
            if (payload.Count > Wire.PayloadMax)
            {
                payload = new Output().String(source).String(string.Empty);
            }
            if (payload.Count > Wire.PayloadMax)
            {
                throw new ArgumentException($"a source of {source.Length} characters is over {Wire.PayloadMax} bytes");
            }
            this.SendFrame(Kind.Changed, payload);
        }

        private void SendFrame(Kind kind, Output payload)
        {
            bool isDue;
            lock (this.gate)
            {
                this.Session.SendFrame(kind, default, payload.Span);
                isDue = this.IsDue();
            }
            this.Write(isDue);
        }

        private void Count(int more)
        {
            bool isDue;
            lock (this.gate)
            {
                this.jobs = (ulong)((long)this.jobs + more);
                this.Session.SendFrame(Kind.Busy, default, new Output().Varint(this.jobs).Span);
                isDue = this.IsDue();
            }
            this.Write(isDue);
        }

        private sealed class Job : IDisposable
        {
            private App? app;

            internal Job(App app) => this.app = app;

            public void Dispose() => Interlocked.Exchange(ref this.app, null)?.Count(-1);
        }
    }
}
