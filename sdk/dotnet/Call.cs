// One call, of either side: what came of it, and what is to be sent.

using System;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;

namespace Tidewire
{
    /// <summary>
    /// Bytes of items without credit: received, of these taken by the program, and sent.
    /// </summary>
    internal class Flow
    {
        internal Flow(uint number, int window) => (this.Number, this.Window) = (number, window);

        internal uint Number { get; }

        internal int Window { get; set; }

        internal int Received { get; set; }

        internal int Taken { get; set; }

        internal int Sent { get; set; }
    }

    /// <summary>
    /// What waits for its turn: items, which more may join while it is open, or the last frame of a
    /// call.
    /// </summary>
    internal sealed class Chunk
    {
        internal Chunk(Output data, Flags flags, bool isOpen, bool isLast) =>
            (this.Data, this.Flags, this.IsOpen, this.IsLast) = (data, flags, isOpen, isLast);

        internal Output Data { get; }

        internal Flags Flags { get; }

        internal bool IsOpen { get; }

        internal bool IsLast { get; }
    }

    /// <summary>
    /// All of it is read and written under the lock of its session, but for what came with the
    /// request.
    /// </summary>
    internal sealed class Call : Flow
    {
        private static readonly byte[] Nothing = Array.Empty<byte>();
        private TaskCompletionSource<bool>? changed;
        private CancellationTokenSource? cancels;
        private (List<Header> Headers, List<Header> Trailers)? read;

        internal Call(uint number, int window)
            : base(number, window)
        {
        }

        /// <summary>Whether this side asked.</summary>
        internal bool IsOurs => this.Number % 2 == 1;

        // What came with the request.
        internal string Path { get; set; } = string.Empty;

        internal string? Verb { get; set; }

        internal byte Codec { get; set; }

        internal ulong Command { get; set; }

        /// <summary>
        /// When its deadline is, by <see cref="Clock"/>; null without
        /// one.
        /// </summary>
        internal TimeSpan? Deadline { get; set; }

        /// <summary>That of the request, or of the answer to a call of this side.</summary>
        internal byte[] Metadata { get; set; } = Nothing;

        internal byte[] Payload { get; set; } = Nothing;

        // Where it stands.
        internal bool IsOpen { get; set; } = true;

        internal bool IsCancelled { get; set; }

        internal bool IsStreaming { get; set; }

        /// <summary>Nothing more comes.</summary>
        internal bool IsWhole { get; set; }

        internal bool HasHead { get; set; }

        /// <summary>
        /// A command with one reply that has begun: it does not end with its call.
        /// </summary>
        internal bool RunsOn { get; set; }

        internal TidewireException? Error { get; set; }

        /// <summary>Items that came, and what their frame cost with the last of it.</summary>
        internal Queue<(byte[] Data, int Cost)> Items { get; } = new Queue<(byte[], int)>(0);

        internal Output? Pieces { get; set; }

        internal LinkedList<Chunk> Out { get; } = new LinkedList<Chunk>();

        /// <summary>Bytes of items that wait for their turn.</summary>
        internal int Queued { get; set; }

        // What the answer says beside its message.
        internal int Status { get; set; } = 200;

        internal List<Header>? ReplyHeaders { get; set; }

        internal List<Header>? ReplyTrailers { get; set; }

        internal Sources? Sources { get; set; }

        internal IReadOnlyList<Header> Headers => (this.read ??= Tidewire.Metadata.Headers(this.Metadata)).Headers;

        /// <summary>Ends once something came, went or ended.</summary>
        internal Task Changes() =>
            (this.changed ??= new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously)).Task;

        internal void Wake()
        {
            this.changed?.TrySetResult(true);
            this.changed = null;
        }

        /// <summary>
        /// A token that is cancelled when the caller gives up, made once somebody wants it.
        /// </summary>
        internal CancellationToken Token()
        {
            if (this.cancels == null)
            {
                this.cancels = new CancellationTokenSource();
                if (this.IsCancelled && !this.RunsOn)
                {
                    this.cancels.Cancel();
                }
                else if (this.Deadline is TimeSpan deadline && this.Command == 0)
                {
                    this.cancels.CancelAfter(Clock.Until(deadline));
                }
            }
            return this.cancels.Token;
        }

        /// <summary>Whether its token is cancelled.</summary>
        internal bool IsToldToEnd => this.cancels?.IsCancellationRequested == true;

        /// <summary>Its handler has ended: nothing is to be cancelled by the deadline.</summary>
        internal void Forget() => this.cancels?.CancelAfter(Timeout.Infinite);

        /// <summary>
        /// Cancels that token, in another thread: what hears of it is the program's.
        /// </summary>
        internal void Cancel()
        {
            if (this.cancels != null && !this.RunsOn)
            {
                ThreadPool.UnsafeQueueUserWorkItem(Cancelling, this.cancels);
            }
        }

        private static readonly WaitCallback Cancelling = state =>
        {
            try
            {
                ((CancellationTokenSource)state!).Cancel();
            }
            catch (AggregateException error)
            {
                Log.Failure("what hears that a caller gave up", error);
            }
        };
    }

    /// <summary>A clock that nobody sets.</summary>
    internal static class Clock
    {
        private static readonly System.Diagnostics.Stopwatch Running = System.Diagnostics.Stopwatch.StartNew();

        internal static TimeSpan Now => Running.Elapsed;

        /// <summary>
        /// The time until then, as timers take it: never below 0, and no longer than they can.
        /// </summary>
        internal static TimeSpan Until(TimeSpan then)
        {
            var left = then - Now;
            return left < TimeSpan.Zero ? TimeSpan.Zero : left < Longest ? left : Longest;
        }

        private static readonly TimeSpan Longest = TimeSpan.FromMilliseconds(int.MaxValue);
    }

    /// <summary>What a program prints of its failures is in the log of the gateway.</summary>
    internal static class Log
    {
        internal static void Failure(string what, Exception error)
        {
            try
            {
                Console.Error.WriteLine($"{what} failed: {error}");
            }
            catch (Exception)
            {
                // It has no text.
                Console.Error.WriteLine($"{what} failed: {error.GetType()}");
            }
        }
    }
}
