// Keys of sources as text, the same in each language.

using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Numerics;

namespace Tidewire
{
    /// <summary>The text of keys.</summary>
    public static class Key
    {
        /// <summary>
        /// The key of a source as text: its parts joined by a slash. Equal values have equal text,
        /// of whatever type. Parts are text, whole numbers, <c>double</c>, <c>bool</c>, enums,
        /// which are their numbers, bytes, elements of a JSON document, and null.
        /// </summary>
        /// <exception cref="ArgumentException">
        /// A part is something else: NaN, an infinity, a <c>decimal</c>, or a <c>float</c>, whose
        /// digits are others in JSON (0.1) than in protobuf (0.10000000149011612).
        /// </exception>
        public static string Text(params object?[]? parts) =>
            string.Join("/", (parts ?? new object?[] { null }).Select(PartText));

        /// <summary>The text of a number as JSON has it, however it is written there.</summary>
        internal static string OfJson(string number) =>
            BigInteger.TryParse(number, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out var whole)
                ? OfWhole(whole)
                : OfDouble(double.Parse(number, CultureInfo.InvariantCulture));

        internal static string Escaped(string text) => text.Replace("%", "%25").Replace("/", "%2F");

        private static string PartText(object? part)
        {
            switch (part)
            {
                case null:
                    return "%_";
                case string text:
                    return Escaped(text);
                case bool flag:
                    return flag ? "true" : "false";
                case byte[] bytes:
                    return Hex(bytes);
                case ReadOnlyMemory<byte> memory:
                    return Hex(memory.Span);
                case Memory<byte> memory:
                    return Hex(memory.Span);
                case ArraySegment<byte> segment:
                    return Hex(segment);
                case double number:
                    return OfDouble(number);
                case BigInteger whole:
                    return OfWhole(whole);
                case ulong number:
                    return OfWhole(number);
                case Enum member:
                    return PartText(Convert.ChangeType(member, Enum.GetUnderlyingType(member.GetType()), null));
                case sbyte _:
                case byte _:
                case short _:
                case ushort _:
                case int _:
                case uint _:
                case long _:
                    return OfWhole(Convert.ToInt64(part, CultureInfo.InvariantCulture));
                default:
                    return Documents.KeyText(part) ?? throw Refused(part.GetType().Name);
            }
        }

        private static string OfWhole(BigInteger number) => number.ToString(CultureInfo.InvariantCulture);

        private static string OfWhole(long number) => number.ToString(CultureInfo.InvariantCulture);

        private static string OfWhole(ulong number) => number.ToString(CultureInfo.InvariantCulture);

        /// <summary>
        /// Whole numbers as integers are; else the fewest digits that read back, without an
        /// exponent.
        /// </summary>
        private static string OfDouble(double number)
        {
            if (double.IsNaN(number) || double.IsInfinity(number))
            {
                throw Refused(number.ToString(CultureInfo.InvariantCulture));
            }
            if (number == Math.Truncate(number))
            {
                return OfWhole(new BigInteger(number));
            }
            var text = number.ToString("R", CultureInfo.InvariantCulture);
            var at = text.IndexOf('E');
            if (at < 0)
            {
                return text;
            }
            // What is not whole has digits behind the point, so that its exponent is small or below
            // 0.
            var exponent = int.Parse(text.Substring(at + 1), CultureInfo.InvariantCulture);
            var digits = text.Substring(0, at).TrimStart('-').Replace(".", string.Empty);
            var sign = number < 0 ? "-" : string.Empty;
            return exponent < 0
                ? sign + "0." + new string('0', -exponent - 1) + digits
                : sign + digits.Substring(0, exponent + 1) + "." + digits.Substring(exponent + 1);
        }

        private static string Hex(ReadOnlySpan<byte> bytes)
        {
            var text = new char[2 * bytes.Length];
            for (var at = 0; at < text.Length; at++)
            {
                text[at] = "0123456789abcdef"[at % 2 == 0 ? bytes[at / 2] >> 4 : bytes[at / 2] & 15];
            }
            return new string(text);
        }

        private static ArgumentException Refused(string what) =>
            new ArgumentException($"{what} cannot be part of a key; use text, numbers, bytes, a bool or null");
    }

    /// <summary>
    /// What a reply depends on: keys of sources, each once, in the order in which the handler named
    /// them.
    /// </summary>
    internal sealed class Sources
    {
        private readonly List<(string Source, string? Key)> all = new List<(string, string?)>();
        private readonly HashSet<(string, string?)> known = new HashSet<(string, string?)>();

        internal void Add(string source, string? key)
        {
            if (this.known.Add((source, key)))
            {
                this.all.Add((source, key));
            }
        }

        /// <summary>
        /// Writes them in at most so many bytes: every key; if those do not fit, the whole sources;
        /// if those do not fit either, that the dependencies are unknown, so that the reply is not
        /// cached.
        /// </summary>
        internal void Put(Output into, int room)
        {
            if (this.all.Count == 0)
            {
                return;
            }
            var before = into.Count;
            if (this.Put(this.all, into, before + room))
            {
                return;
            }
            into.Truncate(before);
            var sources = this.all.Select(one => one.Source).Distinct().Select(source => (source, (string?)null));
            if (!this.Put(sources, into, before + room))
            {
                into.Truncate(before);
                into.Field(Tag.Depends, default(ReadOnlySpan<byte>));
            }
        }

        private bool Put(IEnumerable<(string Source, string? Key)> named, Output into, int limit)
        {
            foreach (var (source, key) in named)
            {
                var value = new Output();
                if (source.Length > 0 || key != null)
                {
                    value.String(source);
                }
                if (key != null)
                {
                    value.String(key);
                }
                into.Field(Tag.Depends, value.Span);
                if (into.Count > limit)
                {
                    return false;
                }
            }
            return true;
        }
    }
}
