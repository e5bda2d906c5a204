// Frames of the live protocol, as bytes: what their parts are called, how they are read and
// written.

using System;
using System.Buffers.Binary;
using System.Collections.Generic;
using System.Linq;
using System.Text;

namespace Tidewire
{
    internal enum Kind : byte
    {
        Hello = 1, Auth, Request, Reply, Error, Items, End, Cancel, Credit, Ping, Pong, Goaway, Stale, Resume, Resumed,
        Ready, Busy, Log, Changed, Seen, Descriptors,
    }

    /// <summary>Why a connection ends.</summary>
    internal enum Reason
    {
        Drain, Magic, Version, Feature, TooLarge, Malformed, MetadataMax, Unexpected, UnknownStream, StreamInUse,
        StreamNumber, CallsMax, Credit, UnknownMethod, MethodsMax, CommandId,
    }

    [Flags]
    internal enum Flags : byte
    {
        None = 0, End = 1, Zstd = 2, Http = 4, More = 8, Watched = 16, Unchanged = 32,
    }

    /// <summary>Tags of the metadata that a process reads or writes.</summary>
    internal static class Tag
    {
        internal const byte Method = 1, Name = 2, Command = 3, Token = 6, Trailers = 7, Code = 8, Message = 9, Detail = 10,
            Outcome = 11, HttpMethod = 12, Target = 13, Status = 14, Depends = 15, Reason = 16, Level = 17, Key = 18,
            Parent = 19, FirstHeader = 64;

        /// <summary>Tags above this one are of the future.</summary>
        internal const byte Last = 21;

        internal static readonly string[] Headers = (
            "content-type authorization cookie set-cookie accept accept-encoding accept-language user-agent host origin " +
            "referer content-length content-encoding cache-control etag if-none-match if-modified-since last-modified " +
            "location vary date expires x-forwarded-for x-forwarded-proto x-request-id traceparent tracestate baggage"
        ).Split(' ');

        internal static readonly Dictionary<string, byte> OfHeaders = Numbered();

        private static Dictionary<string, byte> Numbered()
        {
            var tags = new Dictionary<string, byte>();
            for (var at = 0; at < Headers.Length; at++)
            {
                tags[Headers[at]] = (byte)(FirstHeader + at);
            }
            return tags;
        }
    }

    internal static class Wire
    {
        internal const int HeadSize = 16, PayloadMax = 65_536, Piece = 16_384, SmallMax = 16_376, BodyMax = 64 << 20;
        internal const int StreamCredit = 262_144, ConnectionCredit = 1 << 20, QueuedMax = 65_536, OutputMax = 1 << 20;
        internal const int MetadataMax = 16_384, CallsMax = 1024, MethodsMax = 1024;
        internal const uint Magic = 0x564c_5754;
        internal const ulong Http = 2, Hosted = 32, NumberMax = 1UL << 53;

        /// <summary>
        /// Ends the session unless a rule is kept. Of the text <c>{0}</c> is the number.
        /// </summary>
        internal static void Must(bool condition, Reason reason, string text, long number = 0)
        {
            if (!condition)
            {
                throw new Violation(reason, string.Format(text, number));
            }
        }
    }

    /// <summary>A rule of the protocol that the gateway broke.</summary>
    internal sealed class Violation : Exception
    {
        internal Violation(Reason reason, string text)
            : base(text) => Reason = reason;

        internal Reason Reason { get; }
    }

    /// <summary>Bytes that are written, one after the other.</summary>
    internal sealed class Output
    {
        private byte[] data = new byte[256];

        internal int Count { get; private set; }

        internal ReadOnlySpan<byte> Span => new ReadOnlySpan<byte>(this.data, 0, this.Count);

        internal byte[] Data => this.data;

        internal byte[] ToArray() => this.Span.ToArray();

        internal void Clear()
        {
            this.Count = 0;
            if (this.data.Length > 4 * Wire.PayloadMax)
            {
                this.data = new byte[256];
            }
        }

        internal void Truncate(int count) => this.Count = count;

        internal Output Raw(ReadOnlySpan<byte> bytes)
        {
            bytes.CopyTo(this.More(bytes.Length));
            return this;
        }

        internal Output Byte(byte value)
        {
            this.More(1)[0] = value;
            return this;
        }

        internal Output Varint(ulong value)
        {
            for (; value >= 0x80; value >>= 7)
            {
                this.Byte((byte)(value | 0x80));
            }
            return this.Byte((byte)value);
        }

        internal Output String(ReadOnlySpan<byte> bytes) => this.Varint((ulong)bytes.Length).Raw(bytes);

        /// <summary>A text, with U+FFFD for half a character.</summary>
        internal Output String(string text)
        {
            var size = Encoding.UTF8.GetByteCount(text);
            Encoding.UTF8.GetBytes(text, this.Varint((ulong)size).More(size));
            return this;
        }

        internal Output Field(byte tag, ReadOnlySpan<byte> value) => this.Byte(tag).String(value);

        internal Output Field(byte tag, string value) => this.Byte(tag).String(value);

        internal Output Number(byte tag, ulong value) => this.Byte(tag).Byte((byte)SizeOf(value)).Varint(value);

        internal Output Frame(
            Kind kind, uint stream, Flags flags, ReadOnlySpan<byte> metadata, ReadOnlySpan<byte> payload, uint deadline = 0)
        {
            var head = this.More(Wire.HeadSize);
            BinaryPrimitives.WriteUInt32LittleEndian(head, (uint)(metadata.Length + payload.Length));
            BinaryPrimitives.WriteUInt32LittleEndian(head.Slice(4), stream);
            head[8] = (byte)kind;
            head[9] = (byte)flags;
            BinaryPrimitives.WriteUInt16LittleEndian(head.Slice(10), (ushort)metadata.Length);
            BinaryPrimitives.WriteUInt32LittleEndian(head.Slice(12), deadline);
            return this.Raw(metadata).Raw(payload);
        }

        /// <summary>Leaves out what the protocol cannot carry.</summary>
        internal Output Headers(IEnumerable<Header>? headers)
        {
            foreach (var (name, value) in headers ?? Array.Empty<Header>())
            {
                var lower = (name ?? string.Empty).ToLowerInvariant(); // A default has none.
                if (!IsToken(lower) || value.IndexOfAny(Breaks) >= 0)
                {
                    continue;
                }
                if (!Tag.OfHeaders.TryGetValue(lower, out var tag))
                {
                    this.Byte(0).String(lower);
                }
                else
                {
                    this.Byte(tag);
                }
                this.String(AnyBytes.Of(value));
            }
            return this;
        }

        internal static readonly char[] Breaks = { '\r', '\n', '\0' };

        private static int SizeOf(ulong value)
        {
            var size = 1;
            for (; value >= 0x80; value >>= 7)
            {
                size++;
            }
            return size;
        }

        internal static bool IsToken(string name)
        {
            foreach (var c in name)
            {
                if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || "!#$%&'*+-.^_`|~".IndexOf(c) >= 0))
                {
                    return false;
                }
            }
            return name.Length > 0 && name.Length <= 256;
        }

        private Span<byte> More(int size)
        {
            if (this.data.Length - this.Count < size)
            {
                Array.Resize(ref this.data, Math.Max(2 * this.data.Length, this.Count + size));
            }
            this.Count += size;
            return new Span<byte>(this.data, this.Count - size, size);
        }
    }

    /// <summary>Reads numbers and strings; what is cut off ends the session.</summary>
    internal ref struct Input
    {
        internal Input(ReadOnlySpan<byte> rest) => this.Rest = rest;

        internal ReadOnlySpan<byte> Rest { get; private set; }

        internal bool IsEmpty => this.Rest.IsEmpty;

        /// <summary>The number that is all there is.</summary>
        internal static ulong WholeNumber(ReadOnlySpan<byte> data)
        {
            var input = new Input(data);
            var value = input.Varint();
            Wire.Must(input.IsEmpty, Reason.Malformed, "something follows a number");
            return value;
        }

        internal byte Byte()
        {
            Wire.Must(!this.IsEmpty, Reason.Malformed, "bytes are cut off");
            var first = this.Rest[0];
            this.Rest = this.Rest.Slice(1);
            return first;
        }

        internal ulong Varint()
        {
            var value = 0UL;
            for (var at = 0; at < 8; at++)
            {
                Wire.Must(at < this.Rest.Length, Reason.Malformed, "a number is cut off");
                value |= (ulong)(this.Rest[at] & 0x7f) << (7 * at);
                if (this.Rest[at] < 0x80 && value < Wire.NumberMax)
                {
                    this.Rest = this.Rest.Slice(at + 1);
                    return value;
                }
            }
            throw new Violation(Reason.Malformed, "a number is too large");
        }

        internal ReadOnlySpan<byte> String()
        {
            var size = this.Varint();
            Wire.Must(size <= (ulong)this.Rest.Length, Reason.Malformed, "a string is cut off");
            var value = this.Rest.Slice(0, (int)size);
            this.Rest = this.Rest.Slice((int)size);
            return value;
        }
    }

    /// <summary>
    /// Where the fields of some metadata are. One object serves one frame after the other.
    /// </summary>
    internal sealed class Fields
    {
        private readonly (int At, int Size)[] places = new (int, int)[Tag.Last + 1];
        private byte[] data = Array.Empty<byte>();
        private uint present;

        /// <summary>
        /// The metadata of a frame, or with <paramref name="ofHello"/> the payload of a hello.
        /// </summary>
        internal Fields Read(byte[] data, bool ofHello = false)
        {
            this.data = data;
            this.present = 0;
            var input = new Input(data);
            while (!input.IsEmpty)
            {
                var tag = input.Byte();
                if (tag == 0 && !ofHello)
                {
                    input.String();
                }
                var size = input.String().Length;
                if (tag <= Tag.Last && (tag > 0 || ofHello))
                {
                    var mayRepeat = !ofHello && (tag == Tag.Token || tag == Tag.Depends || tag == Tag.Detail || tag == Tag.Trailers);
                    Wire.Must(!this.Has(tag) || mayRepeat, Reason.Malformed, "field {0} comes twice", tag);
                    this.present |= 1u << tag;
                    this.places[tag] = (data.Length - input.Rest.Length - size, size);
                }
            }
            return this;
        }

        internal bool Has(byte tag) => (this.present >> tag & 1) != 0;

        internal ReadOnlySpan<byte> Bytes(byte tag) =>
            this.Has(tag) ? new ReadOnlySpan<byte>(this.data, this.places[tag].At, this.places[tag].Size) : default;

        internal ulong Number(byte tag, ulong otherwise = 0) =>
            this.Has(tag) ? Input.WholeNumber(this.Bytes(tag)) : otherwise;

        internal string Text(byte tag) => Encoding.UTF8.GetString(this.Bytes(tag));
    }

    /// <summary>What repeats in metadata, read where somebody wants it.</summary>
    internal static class Metadata
    {
        internal static (List<Header> Headers, List<Header> Trailers) Headers(byte[] data)
        {
            var headers = new List<Header>();
            var trailers = new List<Header>();
            var into = headers;
            var input = new Input(data);
            while (!input.IsEmpty)
            {
                var tag = input.Byte();
                var name = tag == 0 ? Encoding.UTF8.GetString(input.String())
                    : tag >= Tag.FirstHeader && tag - Tag.FirstHeader < Tag.Headers.Length ? Tag.Headers[tag - Tag.FirstHeader]
                    : null;
                var value = input.String();
                if (name != null)
                {
                    into.Add(new Header(name, AnyBytes.Text(value)));
                }
                else if (tag == Tag.Trailers)
                {
                    into = trailers;
                }
            }
            return (headers, trailers);
        }

        internal static List<Detail> Details(byte[] data)
        {
            var details = new List<Detail>();
            var input = new Input(data);
            while (!input.IsEmpty)
            {
                var tag = input.Byte();
                if (tag == 0)
                {
                    input.String();
                }
                var value = new Input(input.String());
                if (tag == Tag.Detail)
                {
                    var type = Encoding.UTF8.GetString(value.String());
                    details.Add(new Detail(type, value.Rest.ToArray()));
                }
            }
            return details;
        }
    }

    /// <summary>
    /// Values of headers, which are bytes: text where they are UTF-8, and else a byte b that is of
    /// no character is the char U+DC00 + b, which is written as that byte again.
    /// </summary>
    internal static class AnyBytes
    {
        private static readonly UTF8Encoding Strict = new UTF8Encoding(false, true);

        /// <summary>What single bytes are; they are the second halves of characters, too.</summary>
        private static readonly char[] Singles = Enumerable.Range(0xdc80, 128).Select(number => (char)number).ToArray();

        internal static string Text(ReadOnlySpan<byte> bytes)
        {
            try
            {
                return Strict.GetString(bytes);
            }
            catch (DecoderFallbackException)
            {
                var text = new StringBuilder();
                while (!bytes.IsEmpty)
                {
                    var size = SizeOf(bytes);
                    text.Append(size == 0 ? ((char)(0xdc00 + bytes[0])).ToString() : Strict.GetString(bytes.Slice(0, size)));
                    bytes = bytes.Slice(Math.Max(1, size));
                }
                return text.ToString();
            }
        }

        internal static byte[] Of(string text)
        {
            if (text.IndexOfAny(Singles) < 0)
            {
                return Encoding.UTF8.GetBytes(text);
            }
            var bytes = new List<byte>(text.Length);
            for (var at = 0; at < text.Length; at++)
            {
                if (text[at] < 0x80)
                {
                    bytes.Add((byte)text[at]);
                }
                else if (text[at] >= 0xdc80 && text[at] <= 0xdcff)
                {
                    bytes.Add((byte)(text[at] - 0xdc00));
                }
                else
                {
                    var isPair = at + 1 < text.Length && char.IsSurrogatePair(text[at], text[at + 1]);
                    bytes.AddRange(Encoding.UTF8.GetBytes(text.Substring(at, isPair ? 2 : 1)));
                    at += isPair ? 1 : 0;
                }
            }
            return bytes.ToArray();
        }

        /// <summary>
        /// How many bytes the first character has; 0 where the bytes are not UTF-8.
        /// </summary>
        private static int SizeOf(ReadOnlySpan<byte> bytes)
        {
            var first = bytes[0];
            var size = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
            if (size > bytes.Length)
            {
                return 0;
            }
            for (var at = 1; at < size; at++)
            {
                // Of no character but a longer one than it needs, half of one, or one too large.
                var least = at > 1 ? 0x80 : first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
                var most = at > 1 ? 0xbf : first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
                if (bytes[at] < least || bytes[at] > most)
                {
                    return 0;
                }
            }
            return size;
        }
    }
}
