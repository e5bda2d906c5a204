// This side of the live protocol without a socket: bytes in, calls out. What goes is in Sending.cs.

using System;
using System.Buffers.Binary;
using System.Collections.Generic;
using System.Linq;
using System.Text;
using System.Threading.Tasks;

namespace Tidewire
{
    /// <summary>What the gateway takes, by its hello.</summary>
    internal readonly struct Limits
    {
        internal Limits(Fields said)
        {
            this.Body = said.Number(4, 4 << 20);
            this.Calls = said.Number(5, 1024);
            this.Methods = said.Number(7, 1024);
            this.Stream = said.Number(8, Wire.StreamCredit);
            this.Connection = said.Number(9, Wire.ConnectionCredit);
            this.Metadata = said.Number(10, Wire.MetadataMax);
        }

        internal ulong Body { get; }

        internal ulong Calls { get; }

        internal ulong Methods { get; }

        internal ulong Stream { get; }

        internal ulong Connection { get; }

        internal ulong Metadata { get; }
    }

    /// <summary>
    /// A connection and its calls. Its owner has a lock, under which all of this is done, and
    /// writes what <see cref="Take"/> gives. <c>begin</c> is told of each call of the gateway.
    /// </summary>
    internal sealed partial class Session
    {
        private readonly Action<Call> begin;
        private readonly Fields fields = new Fields();
        private readonly List<(byte Codec, string Path)> methods = new List<(byte, string)>();
        private readonly HashSet<ulong> running = new HashSet<ulong>();
        private byte[] input = new byte[4 * Wire.PayloadMax];
        private int at;
        private int end;
        private Limits peer = new Limits(new Fields());

        internal Session(string agent, Action<Call> begin)
        {
            this.begin = begin;
            var hello = new Output().Raw(new byte[] { 1, 4, 1, 0, 1, 0 });
            hello.Number(2, Wire.Http | Wire.Hosted).Number(3, Wire.Hosted).Number(4, Wire.BodyMax).Field(16, agent);
            this.control.Frame(Kind.Hello, 0, Flags.None, default, hello.Span, Wire.Magic);
        }

        internal Flow Connection { get; } = new Flow(0, Wire.ConnectionCredit);

        internal int StreamWindow { get; set; } = Wire.StreamCredit;

        internal Dictionary<uint, Call> Calls { get; } = new Dictionary<uint, Call>();

        internal bool IsGreeted { get; private set; }

        internal bool IsDraining { get; private set; }

        /// <summary>Why the session is over; null while it is not.</summary>
        internal string? Closed { get; private set; }

        /// <summary>Where the next bytes go: at least as many as the largest payload has.</summary>
        internal (byte[] Buffer, int At) Room()
        {
            if (this.input.Length - this.end < Wire.PayloadMax)
            {
                Buffer.BlockCopy(this.input, this.at, this.input, 0, this.end - this.at);
                (this.at, this.end) = (0, this.end - this.at);
            }
            return (this.input, this.end);
        }

        /// <summary>Takes bytes, however many.</summary>
        internal void Feed(ReadOnlySpan<byte> data)
        {
            while (!data.IsEmpty)
            {
                var (buffer, into) = this.Room();
                var some = data.Slice(0, Math.Min(data.Length, Wire.PayloadMax));
                some.CopyTo(new Span<byte>(buffer, into, some.Length));
                this.Feed(some.Length);
                data = data.Slice(some.Length);
            }
        }

        /// <summary>
        /// Takes so many bytes that came; what is wrong with them ends the session.
        /// </summary>
        internal void Feed(int count)
        {
            this.end += count;
            try
            {
                while (this.Closed == null && this.Next())
                {
                }
            }
            catch (Violation violation)
            {
                var said = new Output().Field(Tag.Message, violation.Message).Number(Tag.Reason, (ulong)violation.Reason);
                this.main.Frame(Kind.Goaway, 0, Flags.None, said.Span, default);
                this.Close(violation.Message);
            }
            if (this.Closed != null)
            {
                (this.at, this.end) = (0, 0);
            }
        }

        /// <summary>Takes one frame, if it is there as a whole.</summary>
        private bool Next()
        {
            var data = new ReadOnlySpan<byte>(this.input, this.at, this.end - this.at);
            if (data.Length < Wire.HeadSize)
            {
                return false;
            }
            var (size, meta) = (BinaryPrimitives.ReadUInt32LittleEndian(data), BinaryPrimitives.ReadUInt16LittleEndian(data.Slice(10)));
            Wire.Must(meta <= size, Reason.Malformed, "metadata longer than its frame");
            Wire.Must(size - meta <= Wire.PayloadMax, Reason.TooLarge, "a frame over the limit");
            Wire.Must(meta <= Wire.MetadataMax || !this.IsGreeted, Reason.MetadataMax, "metadata over the limit");
            if (data.Length < Wire.HeadSize + size)
            {
                return false;
            }
            this.at += Wire.HeadSize + (int)size;
            var body = data.Slice(Wire.HeadSize, (int)size);
            this.Receive(new Frame(data, body.Slice(0, meta), body.Slice(meta)));
            if (this.at == this.end)
            {
                (this.at, this.end) = (0, 0);
            }
            return true;
        }

        private readonly ref struct Frame
        {
            internal Frame(ReadOnlySpan<byte> head, ReadOnlySpan<byte> metadata, ReadOnlySpan<byte> payload)
            {
                this.Stream = BinaryPrimitives.ReadUInt32LittleEndian(head.Slice(4));
                this.Kind = (Kind)head[8];
                this.Flags = (Flags)head[9];
                this.Deadline = BinaryPrimitives.ReadUInt32LittleEndian(head.Slice(12));
                this.Metadata = metadata;
                this.Payload = payload;
            }

            internal uint Stream { get; }

            internal Kind Kind { get; }

            internal Flags Flags { get; }

            internal uint Deadline { get; }

            internal ReadOnlySpan<byte> Metadata { get; }

            internal ReadOnlySpan<byte> Payload { get; }

            internal bool Has(Flags flag) => (this.Flags & flag) != 0;
        }

        private void Receive(in Frame frame)
        {
            var (kind, stream) = (frame.Kind, frame.Stream);
            var isFirst = kind == Kind.Hello || kind == Kind.Goaway;
            Wire.Must(this.IsGreeted || isFirst, Reason.Magic, "the first frame is not a hello");
            // A process has no watches and resumes nothing.
            Wire.Must(kind != Kind.Stale, Reason.UnknownStream, "stale for a process");
            Wire.Must(kind != Kind.Resume && kind != Kind.Resumed, Reason.Unexpected, "a session to resume for a process");
            if (kind == 0 || kind > Kind.Descriptors)
            {
                return;
            }
            var isOfCall = kind == Kind.Request || kind == Kind.Reply || kind == Kind.Error || kind == Kind.Items || kind == Kind.End;
            var isOfBoth = kind == Kind.Cancel || kind == Kind.Credit;
            Wire.Must(isOfBoth || isOfCall == (stream > 0), Reason.Malformed, "a frame on stream {0}, which is not its own", stream);
            var isOurs = stream % 2 == 1;
            Wire.Must(isOurs || stream <= 2 * Wire.CallsMax, Reason.StreamNumber, "stream {0} is over the bound", stream);
            this.Calls.TryGetValue(stream, out var call);
            Wire.Must(call != null || !isOurs || kind == Kind.Request, Reason.UnknownStream, "stream {0} is not open", stream);
            Wire.Must(!isOfCall || !frame.Has(Flags.Zstd), Reason.Feature, "compression was not offered");
            switch (kind)
            {
                case Kind.Hello:
                    this.OnHello(frame);
                    break;
                case Kind.Request:
                    this.OnRequest(frame, call);
                    break;
                case Kind.Reply:
                    this.OnReply(frame, Answered(frame, call));
                    break;
                case Kind.Error:
                    this.OnError(frame, Answered(frame, call));
                    break;
                case Kind.Items:
                    this.OnItems(frame, call);
                    break;
                case Kind.End:
                    this.OnEnd(frame, call);
                    break;
                case Kind.Cancel:
                    this.OnCancel(call);
                    break;
                case Kind.Credit:
                    this.OnCredit(frame, call);
                    break;
                case Kind.Ping:
                    Wire.Must(frame.Payload.Length <= 64, Reason.Malformed, "a long ping");
                    this.pong = frame.Payload.ToArray(); // Of pings not yet answered the last alone is.
                    break;
                case Kind.Goaway:
                    this.OnGoaway(frame);
                    break;
            }
        }

        private void OnHello(in Frame frame)
        {
            Wire.Must(!this.IsGreeted, Reason.Unexpected, "a second hello");
            Wire.Must(frame.Deadline == Wire.Magic, Reason.Magic, "not a hello");
            var said = this.fields.Read(frame.Payload.ToArray(), ofHello: true);
            var versions = said.Bytes(1);
            Wire.Must(versions.Length == 4, Reason.Malformed, "a hello without versions");
            var isOurs = versions.SequenceEqual(new byte[] { 1, 0, 1, 0 });
            Wire.Must(isOurs, Reason.Version, "this side speaks version 1");
            Wire.Must((said.Number(2) & Wire.Hosted) != 0, Reason.Feature, "the gateway hosts no processes");
            this.peer = new Limits(said);
            this.IsGreeted = true;
            this.control.Frame(Kind.Ready, 0, Flags.None, default, default);
            this.WakeAllWhoWaitForRoom();
        }

        private void OnGoaway(in Frame frame)
        {
            var said = this.fields.Read(frame.Metadata.ToArray());
            var reason = said.Number(Tag.Reason);
            this.IsDraining = true;
            if (reason > 0 || !this.IsGreeted)
            {
                this.Close(said.Has(Tag.Message) ? said.Text(Tag.Message) : $"reason {reason}");
            }
            this.WakeAllWhoWaitForRoom();
        }

        private void OnRequest(in Frame frame, Call? open)
        {
            Wire.Must(frame.Stream % 2 == 0, Reason.StreamNumber, "a request on stream {0}", frame.Stream);
            Wire.Must(open == null, Reason.StreamInUse, "a request on stream {0}", frame.Stream);
            var call = new Call(frame.Stream, this.StreamWindow)
            {
                Metadata = frame.Metadata.ToArray(),
                IsWhole = frame.Has(Flags.End),
                IsStreaming = !frame.Has(Flags.End),
            };
            var said = this.fields.Read(call.Metadata);
            Wire.Must(!said.Has(Tag.Key), Reason.Feature, "keys were not offered");
            Wire.Must(call.IsWhole || frame.Payload.IsEmpty, Reason.Malformed, "a payload before items");
            call.Payload = frame.Payload.ToArray();
            if (frame.Deadline > 0)
            {
                call.Deadline = Clock.Now + TimeSpan.FromMilliseconds(frame.Deadline);
            }
            if (frame.Has(Flags.Http))
            {
                var hasBoth = said.Has(Tag.HttpMethod) && said.Has(Tag.Target);
                Wire.Must(hasBoth, Reason.Malformed, "HTTP without method or target");
                (call.Verb, call.Path) = (said.Text(Tag.HttpMethod), said.Text(Tag.Target));
            }
            else
            {
                (call.Codec, call.Path) = this.Method(said);
            }
            if (said.Has(Tag.Command))
            {
                call.Command = new Input(said.Bytes(Tag.Command)).Varint();
                var isNew = call.Command > 0 && this.running.Add(call.Command);
                Wire.Must(isNew, Reason.CommandId, "command {0}", (long)call.Command);
            }
            this.Calls[call.Number] = call;
            this.begin(call);
        }

        /// <summary>The codec and the path that a request names, or named before.</summary>
        private (byte Codec, string Path) Method(Fields said)
        {
            var name = said.Bytes(Tag.Name);
            var number = said.Number(Tag.Method, ulong.MaxValue);
            Wire.Must(!name.IsEmpty || number < ulong.MaxValue, Reason.Malformed, "a request without a method");
            if (!name.IsEmpty)
            {
                var named = (name[0], Encoding.UTF8.GetString(name.Slice(1)).TrimStart('/'));
                if (number == ulong.MaxValue)
                {
                    return named;
                }
                var isDue = number == (ulong)this.methods.Count && number < Wire.MethodsMax;
                Wire.Must(isDue, Reason.MethodsMax, "a method's number out of turn");
                this.methods.Add(named);
            }
            var isKnown = number < (ulong)this.methods.Count;
            Wire.Must(isKnown, Reason.UnknownMethod, "method {0} was not named", (long)number);
            return this.methods[(int)number];
        }

        private void OnItems(in Frame frame, Call? call)
        {
            var size = frame.Payload.Length;
            Arrived(call, size);
            Arrived(this.Connection, size);
            if (call == null || (call.IsOurs && call.IsCancelled))
            {
                this.Consumed(call, size);
                return;
            }
            Wire.Must(!call.IsWhole && (call.HasHead || !call.IsOurs), Reason.Unexpected, "items out of place");
            Wire.Must(size > 0, Reason.Malformed, "items without an item");
            var isMore = frame.Has(Flags.More);
            if (isMore || call.Pieces != null)
            {
                call.Pieces ??= new Output();
                call.Pieces.Raw(frame.Payload);
                Wire.Must(call.Pieces.Count <= Wire.BodyMax, Reason.TooLarge, "an item over body_max");
                if (!isMore)
                {
                    call.Items.Enqueue((call.Pieces.ToArray(), 0));
                    call.Pieces = null;
                }
                // An item over the credit would never be whole otherwise; body_max bounds it.
                this.Consumed(call, size);
            }
            else
            {
                var input = new Input(frame.Payload);
                while (!input.IsEmpty)
                {
                    var item = input.String().ToArray();
                    call.Items.Enqueue((item, input.IsEmpty ? size : 0));
                }
            }
            call.Wake();
        }

        private void OnEnd(in Frame frame, Call? call)
        {
            if (call == null)
            {
                return;
            }
            Wire.Must(call.HasHead || (!call.IsOurs && !call.IsWhole), Reason.Unexpected, "an end out of place");
            this.fields.Read(frame.Metadata.ToArray());
            call.IsWhole = true;
            if (call.IsOurs)
            {
                this.End(call, null);
            }
            call.Wake();
        }

        private void OnCancel(Call? call)
        {
            if (call == null || call.IsCancelled)
            {
                return;
            }
            if (call.IsOurs)
            {
                // No more items are wanted; the end of them is.
                while (call.Out.Count > 1)
                {
                    call.Out.RemoveFirst();
                }
                return;
            }
            call.IsCancelled = true;
            // A command with one reply runs on, and says at its end that it ran.
            if (call.Command == 0 || call.IsStreaming || call.HasHead)
            {
                var said = new Output();
                PutError(said, TidewireException.GivenUp());
                this.main.Frame(Kind.Error, call.Number, Flags.None, said.Span, default);
                this.End(call, null);
            }
        }

        private void OnCredit(in Frame frame, Call? call)
        {
            var amount = Input.WholeNumber(frame.Payload);
            var flow = frame.Stream > 0 ? call : this.Connection;
            if (flow != null)
            {
                Wire.Must(!frame.Has(Flags.End), Reason.Unexpected, "an end is seen that was not sent");
                Wire.Must(amount <= (ulong)flow.Sent, Reason.Credit, "credit for what was not sent");
                flow.Sent -= (int)amount;
            }
        }

        private static Call Answered(in Frame frame, Call? call)
        {
            var isAsked = call != null && call.IsOurs;
            Wire.Must(isAsked, Reason.StreamNumber, "an answer on stream {0}", frame.Stream);
            Wire.Must(!frame.Has(Flags.Watched), Reason.Unexpected, "a watch that was not asked for");
            return call!;
        }

        private void OnReply(in Frame frame, Call call)
        {
            var isEnd = frame.Has(Flags.End);
            Wire.Must(!frame.Has(Flags.Unchanged), Reason.Malformed, "nothing to be unchanged from");
            Wire.Must(!call.HasHead, Reason.Unexpected, "a second reply");
            Wire.Must(isEnd || frame.Payload.IsEmpty, Reason.Malformed, "a payload before items");
            call.HasHead = true;
            this.fields.Read(call.Metadata = frame.Metadata.ToArray());
            if (isEnd)
            {
                call.Items.Enqueue((frame.Payload.ToArray(), 0));
                this.End(call, null);
            }
            else
            {
                call.IsStreaming = true;
            }
        }

        private void OnError(in Frame frame, Call call)
        {
            var data = frame.Metadata.ToArray();
            var said = this.fields.Read(data);
            var code = said.Number(Tag.Code);
            Wire.Must(code > 0, Reason.Malformed, "an error without a code");
            var (headers, trailers) = Metadata.Headers(data);
            this.End(call, new TidewireException(
                (Code)Math.Min(code, 99),
                said.Text(Tag.Message),
                (Outcome)Math.Min(said.Number(Tag.Outcome), 99),
                Metadata.Details(data),
                headers,
                trailers));
        }

        private static void Arrived(Flow? flow, int size)
        {
            if (flow != null)
            {
                Wire.Must(flow.Received < flow.Window, Reason.Credit, "items without credit");
                flow.Received += size;
            }
        }

        /// <summary>Items were taken: the gateway may send as much again.</summary>
        private void Consumed(Call? call, int size)
        {
            if (call != null)
            {
                this.Consumed(call, size, !call.IsWhole);
            }
            this.Consumed(this.Connection, size, true);
        }

        private void Consumed(Flow flow, int size, bool isOpen)
        {
            flow.Taken += size;
            if (isOpen && 4L * flow.Taken >= flow.Window)
            {
                var much = new Output().Varint((ulong)flow.Taken);
                this.control.Frame(Kind.Credit, flow.Number, Flags.None, default, much.Span);
                flow.Received -= flow.Taken;
                flow.Taken = 0;
            }
        }

        /// <summary>The next item of a call that came.</summary>
        internal byte[] TakeItem(Call call)
        {
            var (data, cost) = call.Items.Dequeue();
            if (call.IsOpen && cost > 0)
            {
                this.Consumed(call, cost);
            }
            return data;
        }

        /// <summary>A call is over: its last frame came, is being sent, or never will be.</summary>
        private void End(Call call, TidewireException? error)
        {
            if (!call.IsOpen)
            {
                return;
            }
            this.Calls.Remove(call.Number);
            (call.IsOpen, call.Error) = (false, error);
            call.Out.Clear();
            this.Consumed(null, call.Received - call.Taken);
            if (call.IsOurs)
            {
                call.IsWhole = true;
                this.asked.Remove(call.Number);
                this.free.Push(call.Number);
                if (call.IsStreaming && this.Closed == null)
                {
                    this.control.Frame(Kind.Credit, call.Number, Flags.End, default, new byte[] { 0 });
                }
                this.WakeOneWhoWaitsForRoom();
            }
            else
            {
                this.running.Remove(call.Command);
                if (call.IsCancelled)
                {
                    call.Cancel();
                }
            }
            call.Wake();
        }

        /// <summary>The session is over: whoever waits is told.</summary>
        internal void Close(string why)
        {
            if (this.Closed != null)
            {
                return;
            }
            this.Closed = why;
            foreach (var call in this.Calls.Values.ToArray())
            {
                call.IsCancelled |= !call.IsOurs;
                var code = call.Command > 0 ? Code.Aborted : Code.Unavailable;
                this.End(call, new TidewireException(code, "the gateway is gone: " + why, Outcome.Unknown));
            }
            this.WakeAllWhoWaitForRoom();
        }
    }
}
