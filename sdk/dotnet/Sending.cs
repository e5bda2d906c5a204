// What a session sends: answers and calls of this side, as frames that take turns.

using System;
using System.Collections.Generic;
using System.Linq;
using System.Text;
using System.Threading.Tasks;

namespace Tidewire
{
    /// <summary>How a call of this side is made.</summary>
    internal readonly struct CallOptions
    {
        internal CallOptions(bool query, IEnumerable<Header>? headers) =>
            (this.Query, this.Headers) = (query, Sendable.All(headers, "header"));

        internal bool Query { get; }

        internal IEnumerable<Header>? Headers { get; }
    }

    internal sealed partial class Session
    {
        private readonly Output control = new Output();
        private readonly Output main = new Output();
        private readonly Queue<Call> line = new Queue<Call>();
        private readonly Dictionary<(byte, string), ulong> called = new Dictionary<(byte, string), ulong>();
        private readonly Dictionary<uint, Call> asked = new Dictionary<uint, Call>();
        private readonly Stack<uint> free = new Stack<uint>();
        private readonly Queue<TaskCompletionSource<bool>> waiting = new Queue<TaskCompletionSource<bool>>();
        private byte[]? pong;
        private ulong nextCommand = 1;

        /// <summary>
        /// Adds the bytes to be written now: connection frames, calls, then a turn for each stream.
        /// </summary>
        internal void Take(Output into)
        {
            into.Raw(this.control.Span);
            this.control.Clear();
            // What the program says before it is greeted waits.
            if (this.IsGreeted || this.Closed != null)
            {
                into.Raw(this.main.Span);
                this.main.Clear();
            }
            if (this.pong != null)
            {
                into.Frame(Kind.Pong, 0, Flags.None, default, this.pong);
                this.pong = null;
            }
            List<Call>? blocked = null;
            while (this.line.Count > 0 && into.Count < Wire.PayloadMax)
            {
                var (call, before) = (this.line.Dequeue(), into.Count);
                this.Turn(call, into);
                if (call.Out.Count == 0)
                {
                    continue; // Of a call that has ended nothing is left.
                }
                if (into.Count > before)
                {
                    this.line.Enqueue(call);
                }
                else
                {
                    (blocked ??= new List<Call>()).Add(call);
                }
            }
            blocked?.ForEach(this.line.Enqueue);
        }

        /// <summary>Adds the next frame of a call; none while it has no credit.</summary>
        private void Turn(Call call, Output into)
        {
            var next = call.Out.First?.Value;
            if (next == null)
            {
                return;
            }
            if (next.IsLast)
            {
                call.Out.Clear();
                into.Raw(next.Data.Span);
                if (!call.IsOurs)
                {
                    this.End(call, null);
                }
                return;
            }
            if ((ulong)call.Sent >= this.peer.Stream || (ulong)this.Connection.Sent >= this.peer.Connection)
            {
                return;
            }
            call.Out.RemoveFirst();
            var size = next.Data.Count;
            call.Queued -= size;
            call.Sent += size;
            this.Connection.Sent += size;
            into.Frame(Kind.Items, call.Number, next.Flags, default, next.Data.Span);
            call.Wake();
        }

        /// <summary>Whether there may be something to be written.</summary>
        internal bool IsDue => this.control.Count + this.main.Count + this.line.Count > 0 || this.pong != null;

        /// <summary>
        /// Whether so much is to be written that no more is to be read; who waits for answers reads
        /// on.
        /// </summary>
        internal bool IsFull =>
            this.control.Count + this.main.Count > (this.asked.Count > 0 ? Wire.BodyMax : Wire.OutputMax);

        /// <summary>Sends a frame of the connection.</summary>
        internal void SendFrame(Kind kind, ReadOnlySpan<byte> metadata, ReadOnlySpan<byte> payload) =>
            this.main.Frame(kind, 0, Flags.None, metadata, payload);

        /// <summary>The most metadata that the gateway takes.</summary>
        internal int MetadataMax => (int)Math.Min(this.peer.Metadata, ushort.MaxValue);

        /// <summary>
        /// Adds headers and trailers, and in the remaining room what a reply depends on.
        /// </summary>
        private void Put(Output into, IEnumerable<Header>? headers, IReadOnlyCollection<Header>? trailers = null, Sources? sources = null)
        {
            into.Headers(headers);
            var last = new Output();
            if (trailers != null && trailers.Count > 0)
            {
                last.Field(Tag.Trailers, default(ReadOnlySpan<byte>)).Headers(trailers);
            }
            sources?.Put(into, this.MetadataMax - into.Count - last.Count);
            into.Raw(last.Span);
            if (into.Count > this.MetadataMax)
            {
                var text = $"headers of {into.Count} bytes are over the {this.MetadataMax} that a gateway takes";
                throw new TidewireException(Code.Internal, text);
            }
        }

        /// <summary>Sends the head of an answer whose items follow.</summary>
        internal void Begin(Call call) => this.Begin(call, Flags.None, default);

        private void Begin(Call call, Flags flags, ReadOnlySpan<byte> payload)
        {
            if (!call.IsOpen || call.HasHead)
            {
                return;
            }
            if (call.Status < 200 || call.Status > 999)
            {
                // The gateway says 1xx itself, or nobody does.
                throw new InvalidOperationException($"{call.Status} is not a status of a final answer");
            }
            var isEnd = (flags & Flags.End) != 0;
            var metadata = new Output();
            if (call.Status != 200)
            {
                metadata.Number(Tag.Status, (ulong)call.Status);
            }
            this.Put(metadata, call.ReplyHeaders, isEnd ? call.ReplyTrailers : null, call.Sources);
            flags |= call.Verb != null ? Flags.Http : Flags.None;
            this.main.Frame(Kind.Reply, call.Number, flags, metadata.Span, payload);
            call.HasHead = true;
            if (isEnd)
            {
                this.End(call, null);
            }
        }

        /// <summary>Answers a call whole.</summary>
        internal void Reply(Call call, ReadOnlySpan<byte> payload)
        {
            if ((ulong)payload.Length > this.peer.Body)
            {
                var text = $"a reply of {payload.Length} bytes is over body_max = {this.peer.Body}";
                this.Fail(call, new TidewireException(Code.ResourceExhausted, text, Outcome.Ran));
            }
            else if (call.IsCancelled)
            {
                this.Fail(call, TidewireException.GivenUp());
            }
            else if (payload.Length > Wire.SmallMax)
            {
                this.Begin(call);
                this.Push(call, payload);
                this.Finish(call);
            }
            else
            {
                this.Begin(call, Flags.End, payload);
            }
        }

        /// <summary>
        /// A call that has something to send takes turns, until the frame that is its last.
        /// </summary>
        private void Enlist(Call call, Chunk next)
        {
            if (!call.IsOpen || call.Out.Last?.Value.IsLast == true)
            {
                return;
            }
            if (call.Out.Count == 0)
            {
                this.line.Enqueue(call);
            }
            call.Out.AddLast(next);
            call.Queued += next.IsLast ? 0 : next.Data.Count;
        }

        /// <summary>Queues an item; there is room for more while few bytes are queued.</summary>
        internal void Push(Call call, ReadOnlySpan<byte> item)
        {
            if (item.Length > Wire.Piece)
            {
                for (; item.Length > Wire.Piece; item = item.Slice(Wire.Piece))
                {
                    this.Enlist(call, new Chunk(new Output().Raw(item.Slice(0, Wire.Piece)), Flags.More, false, false));
                }
                this.Enlist(call, new Chunk(new Output().Raw(item), Flags.None, false, false));
                return;
            }
            var last = call.Out.Last?.Value;
            var size = item.Length + 3;
            if (last != null && last.IsOpen && last.Data.Count + size <= Wire.Piece)
            {
                var before = last.Data.Count;
                call.Queued += last.Data.String(item).Count - before;
            }
            else
            {
                this.Enlist(call, new Chunk(new Output().String(item), Flags.None, true, false));
            }
        }

        /// <summary>
        /// No more items: ends a call of the gateway, or the request of one of this side.
        /// </summary>
        internal void Finish(Call call)
        {
            var metadata = new Output();
            this.Put(metadata, call.IsOurs ? null : call.ReplyTrailers);
            this.Last(call, Kind.End, metadata);
        }

        private void Last(Call call, Kind kind, Output metadata) =>
            this.Enlist(call, new Chunk(new Output().Frame(kind, call.Number, Flags.None, metadata.Span, default), Flags.None, false, true));

        /// <summary>
        /// Ends a call with an error; that of a command whose caller gave up is that it ran.
        /// </summary>
        internal void Fail(Call call, TidewireException error)
        {
            error = call.IsCancelled ? TidewireException.GivenUp(Outcome.Ran) : error;
            var sources = call.IsCancelled ? null : call.Sources;
            var trailers = call.IsCancelled ? null : call.ReplyTrailers;
            var metadata = new Output();
            try
            {
                PutError(metadata, error);
                this.Put(metadata, error.Headers, trailers, sources);
            }
            catch (TidewireException tooLong)
            {
                metadata.Clear();
                PutError(metadata, tooLong);
                this.Put(metadata, null, null, sources);
            }
            this.Last(call, Kind.Error, metadata);
        }

        private static void PutError(Output into, TidewireException error)
        {
            into.Number(Tag.Code, (ulong)error.Code);
            if (error.Message.Length > 0)
            {
                into.Field(Tag.Message, Cut(error.Message, 1024));
            }
            foreach (var detail in error.Details)
            {
                into.Field(Tag.Detail, new Output().String(detail.Type).Raw(detail.Value).Span);
            }
            if (error.Outcome != Outcome.Answered)
            {
                into.Number(Tag.Outcome, (ulong)error.Outcome);
            }
        }

        /// <summary>The beginning of a text in at most so many bytes.</summary>
        internal static ReadOnlySpan<byte> Cut(string text, int size)
        {
            var bytes = Encoding.UTF8.GetBytes(text);
            while (size < bytes.Length && (bytes[size] & 0xc0) == 0x80)
            {
                size--;
            }
            return new ReadOnlySpan<byte>(bytes, 0, Math.Min(size, bytes.Length));
        }

        /// <summary>Ends once there may be room for a call of this side.</summary>
        internal TaskCompletionSource<bool> Waits()
        {
            var waits = new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
            this.waiting.Enqueue(waits);
            return waits;
        }

        internal void WakeOneWhoWaitsForRoom()
        {
            while (this.waiting.Count > 0 && !this.waiting.Dequeue().TrySetResult(true))
            {
            }
        }

        private void WakeAllWhoWaitForRoom()
        {
            while (this.waiting.Count > 0)
            {
                this.waiting.Dequeue().TrySetResult(true);
            }
        }

        /// <summary>
        /// Calls the gateway, as a part of the call of number <paramref name="parent"/> unless that
        /// is 0; null while no call is free.
        /// </summary>
        internal Call? Ask(string path, byte codec, ReadOnlySpan<byte> payload, in CallOptions how, uint parent = 0, uint deadline = 0)
        {
            if (this.Closed != null || this.IsDraining)
            {
                throw new TidewireException(Code.Unavailable, "the gateway takes no calls any more", Outcome.NotRun);
            }
            if (!this.IsGreeted || (ulong)this.asked.Count >= this.peer.Calls)
            {
                return null;
            }
            if ((ulong)payload.Length > this.peer.Body)
            {
                var text = $"a request is over body_max = {this.peer.Body}";
                throw new TidewireException(Code.ResourceExhausted, text, Outcome.NotRun);
            }
            var headers = new Output();
            this.Put(headers, how.Headers);
            if (headers.Count + Encoding.UTF8.GetByteCount(path) + BesideName > this.MetadataMax)
            {
                // A frame that is too long would end the session.
                var text = $"the path and {headers.Count} bytes of headers are over the {this.MetadataMax} that a gateway takes";
                throw new TidewireException(Code.Internal, text, Outcome.NotRun);
            }
            var metadata = new Output();
            this.PutName(metadata, codec, path.TrimStart('/'));
            var number = this.free.Count > 0 ? this.free.Pop() : (2 * (uint)this.asked.Count) + 1;
            var call = new Call(number, this.StreamWindow) { IsStreaming = payload.Length > Wire.SmallMax };
            this.Calls[number] = this.asked[number] = call;
            if (!how.Query)
            {
                call.Command = this.nextCommand++;
                var done = this.asked.Values.Where(other => other.Command > 0).Min(other => other.Command);
                metadata.Field(Tag.Command, new Output().Varint(call.Command).Varint(done).Span);
            }
            if (parent > 0)
            {
                metadata.Number(Tag.Parent, parent);
            }
            metadata.Raw(headers.Span);
            var flags = call.IsStreaming ? Flags.None : Flags.End;
            this.main.Frame(Kind.Request, number, flags, metadata.Span, call.IsStreaming ? default : payload, deadline);
            if (call.IsStreaming)
            {
                this.Push(call, payload);
                this.Finish(call);
            }
            return call;
        }

        /// <summary>
        /// What the metadata of a request has beside its path and its headers, at most.
        /// </summary>
        private const int BesideName = 64;

        /// <summary>
        /// Says which method is called: by its number, where it has one, with its name the first
        /// time.
        /// </summary>
        private void PutName(Output into, byte codec, string path)
        {
            var isNew = !this.called.TryGetValue((codec, path), out var number);
            var isNumbered = !isNew;
            if (isNew && (ulong)this.called.Count < this.peer.Methods)
            {
                number = (ulong)this.called.Count;
                this.called[(codec, path)] = number;
                isNumbered = true;
            }
            if (isNumbered)
            {
                into.Number(Tag.Method, number);
            }
            if (isNew)
            {
                into.Field(Tag.Name, new Output().Byte(codec).Byte((byte)'/').Raw(Encoding.UTF8.GetBytes(path)).Span);
            }
        }

        /// <summary>Gives a call of this side up; its end is not waited for.</summary>
        internal void Cancel(Call call)
        {
            if (call.IsOpen && !call.IsCancelled)
            {
                call.IsCancelled = true;
                this.main.Frame(Kind.Cancel, call.Number, Flags.None, default, default);
                call.Wake();
            }
        }
    }
}
