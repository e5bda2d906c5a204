// A call of the gateway, for its handler.

using System;
using System.Collections.Generic;
using System.Runtime.CompilerServices;
using System.Threading;
using System.Threading.Tasks;

namespace Tidewire
{
    /// <summary>A call: its headers, its deadline, and what its reply depends on.</summary>
    public class Context
    {
        internal Context(App app, Call call) => (this.App, this.Call) = (app, call);

        /// <summary>The program that serves it.</summary>
        public App App { get; }

        /// <summary>
        /// The headers of the request. A cached query gets only those that its <c>cache</c> lets its
        /// reply depend on.
        /// </summary>
        public IReadOnlyList<Header> Headers => this.Call.Headers;

        /// <summary>
        /// Who calls, as the gateway found out; null where it did not, and where the reply is
        /// cached for others too.
        /// </summary>
        public Principal? Principal => Tidewire.Principal.Parse(this.Header("tidewire-principal"));

        /// <summary>
        /// Cancelled when the caller gives up, its deadline passed among the reasons. A command
        /// with one reply runs on: once it has begun this is never cancelled.
        /// </summary>
        public CancellationToken Cancelled
        {
            get
            {
                lock (this.App.Gate)
                {
                    return this.Call.Token();
                }
            }
        }

        /// <summary>The time that is left; null without a deadline, which no command has.</summary>
        public TimeSpan? Remaining =>
            this.Call.Deadline is TimeSpan deadline && this.Call.Command == 0 ? Clock.Until(deadline) : (TimeSpan?)null;

        internal Call Call { get; }

        /// <summary>The first value of a header, null without one.</summary>
        public string? Header(string name)
        {
            foreach (var header in this.Headers)
            {
                if (string.Equals(header.Name, name, StringComparison.OrdinalIgnoreCase))
                {
                    return header.Value;
                }
            }
            return null;
        }

        /// <summary>Adds a header to the answer.</summary>
        /// <exception cref="ArgumentException">
        /// The value has a CR, LF or NUL, or the name is none that an answer may have.
        /// </exception>
        public void AddHeader(string name, string value)
        {
            lock (this.App.Gate)
            {
                (this.Call.ReplyHeaders ??= new List<Header>()).Add(Sendable.OfReply(name, value));
            }
        }

        /// <summary>Adds a trailer to the answer.</summary>
        /// <exception cref="ArgumentException">As <see cref="AddHeader"/>.</exception>
        public void AddTrailer(string name, string value)
        {
            lock (this.App.Gate)
            {
                (this.Call.ReplyTrailers ??= new List<Header>()).Add(Sendable.OfReply(name, value));
            }
        }

        /// <summary>
        /// Says that the reply depends on a key of a source: it stays cached until that changes.
        /// Without a key it depends on the whole source. See <see cref="Key.Text"/> for what a key
        /// may be.
        /// </summary>
        /// <exception cref="ArgumentException">A part cannot be part of a key.</exception>
        public void Depends(string source, params object?[]? key)
        {
            var text = Key.Text(key);
            lock (this.App.Gate)
            {
                var sources = this.Call.Sources ??= new Sources();
                sources.Add(source ?? throw new ArgumentNullException(nameof(source)), text);
            }
        }

        /// <summary>
        /// Says that a key of a source changed, before the reply: who calls after the reply sees
        /// the change. See <see cref="App.Changed"/>.
        /// </summary>
        public void Changed(string source, params object?[]? key) => this.App.Changed(source, key);

        /// <summary>Writes a line to the gateway's log, with fields.</summary>
        public void Log(Level level, string text, params (string Name, object? Value)[] fields) =>
            this.App.Log(level, text, fields);

        /// <summary>
        /// Calls a method of the gateway as part of this call, and waits for its reply; <paramref
        /// name="query"/> where it changes nothing. It ends with this call. The program calls as
        /// itself, with <paramref name="asCaller"/> with the rights of its caller.
        /// </summary>
        /// <exception cref="TidewireException">The call failed.</exception>
        /// <exception cref="OperationCanceledException">
        /// The token was cancelled, or this call was.
        /// </exception>
        public async Task<TReply> CallAsync<TReply>(
            string path,
            object request,
            bool query = false,
            IEnumerable<Header>? headers = null,
            TimeSpan? timeout = null,
            bool asCaller = false,
            CancellationToken cancellation = default)
        {
            var how = new CallOptions(query, asCaller ? Tidewire.Principal.AsCaller(headers) : headers);
            if (!cancellation.CanBeCanceled)
            {
                return await this.App.AskAsync<TReply>(this.Call, path, request, how, timeout, this.Cancelled).ConfigureAwait(false);
            }
            using var either = CancellationTokenSource.CreateLinkedTokenSource(cancellation, this.Cancelled);
            return await this.App.AskAsync<TReply>(this.Call, path, request, how, timeout, either.Token).ConfigureAwait(false);
        }

        internal async IAsyncEnumerable<T> Requests<T>([EnumeratorCancellation] CancellationToken cancellation = default)
        {
            while (await this.App.NextAsync(this.Call, cancellation).ConfigureAwait(false) is byte[] data)
            {
                yield return this.App.Decode<T>(data, this.Call.Codec);
            }
        }

        /// <summary>A request with one message.</summary>
        internal ValueTask<byte[]> WholeAsync() =>
            this.Call.IsStreaming ? this.OnlyAsync() : new ValueTask<byte[]>(this.Call.Payload);

        private async ValueTask<byte[]> OnlyAsync() =>
            await this.App.NextAsync(this.Call, default).ConfigureAwait(false) ?? Array.Empty<byte>();
    }
}
