// Messages as the bytes of a codec: JSON by System.Text.Json where the framework has it, protobuf
// by the program's choice.

using System;
#if NETCOREAPP
using System.Globalization;
using System.Text.Encodings.Web;
using System.Text.Json;
using System.Text.Json.Serialization;
#endif

namespace Tidewire
{
    /// <summary>
    /// How messages become bytes and bytes messages. Messages that are <c>byte[]</c> are bytes
    /// already.
    /// </summary>
    public interface IMessageFormat
    {
        /// <summary>Encodes a message of this type.</summary>
        byte[] Write(object message, Type type);

        /// <summary>Decodes a message of this type.</summary>
        object? Read(byte[] data, Type type);
    }

    internal static partial class Documents
    {
#if NETCOREAPP
        internal static IMessageFormat? Json() => new JsonFormat();

        /// <summary>
        /// An element of a document as a part of a key; null where it cannot be one.
        /// </summary>
        internal static string? KeyText(object part) => part is JsonElement element ? KeyText(element) : null;

        private static string? KeyText(JsonElement element) =>
            element.ValueKind switch
            {
                JsonValueKind.Undefined => "%_",
                JsonValueKind.Null => "%_",
                JsonValueKind.True => "true",
                JsonValueKind.False => "false",
                JsonValueKind.String => Key.Escaped(element.GetString()),
                JsonValueKind.Number => Key.OfJson(element.GetRawText()),
                _ => null,
            };
#else
        internal static IMessageFormat? Json() => null;

        internal static string? KeyText(object part) => null;
#endif
    }

#if NETCOREAPP
    /// <summary>
    /// Protobuf's JSON for classes with properties of .NET: names in lowerCamelCase, integers of 64
    /// bits as text, as are NaN and infinities, enums by the names of their members, bytes as
    /// base64, and without what is null.
    /// </summary>
    internal sealed class JsonFormat : IMessageFormat
    {
        private readonly JsonSerializerOptions options = new JsonSerializerOptions
        {
            PropertyNamingPolicy = JsonNamingPolicy.CamelCase,
            IgnoreNullValues = true,
            Encoder = JavaScriptEncoder.UnsafeRelaxedJsonEscaping,
            Converters = { new Signed(), new Unsigned(), new Real(), new Single(), new JsonStringEnumConverter() },
        };

        public byte[] Write(object message, Type type) => JsonSerializer.SerializeToUtf8Bytes(message, type, this.options);

        public object? Read(byte[] data, Type type) => JsonSerializer.Deserialize(data, type, this.options);

        private sealed class Real : JsonConverter<double>
        {
            public override double Read(ref Utf8JsonReader reader, Type type, JsonSerializerOptions options) =>
                reader.TokenType == JsonTokenType.String
                    ? double.Parse(reader.GetString(), RealStyle, CultureInfo.InvariantCulture)
                    : reader.GetDouble();

            public override void Write(Utf8JsonWriter writer, double value, JsonSerializerOptions options)
            {
                if (double.IsNaN(value) || double.IsInfinity(value))
                {
                    writer.WriteStringValue(value.ToString(CultureInfo.InvariantCulture));
                }
                else
                {
                    writer.WriteNumberValue(value);
                }
            }
        }

        private sealed class Single : JsonConverter<float>
        {
            public override float Read(ref Utf8JsonReader reader, Type type, JsonSerializerOptions options) =>
                reader.TokenType == JsonTokenType.String
                    ? float.Parse(reader.GetString(), RealStyle, CultureInfo.InvariantCulture)
                    : reader.GetSingle();

            public override void Write(Utf8JsonWriter writer, float value, JsonSerializerOptions options)
            {
                if (float.IsNaN(value) || float.IsInfinity(value))
                {
                    writer.WriteStringValue(value.ToString(CultureInfo.InvariantCulture));
                }
                else
                {
                    writer.WriteNumberValue(value);
                }
            }
        }

        // Whose words for what is no number are protobuf's: NaN, Infinity, -Infinity.
        private const NumberStyles RealStyle =
            NumberStyles.AllowLeadingSign | NumberStyles.AllowDecimalPoint | NumberStyles.AllowExponent;

        private sealed class Signed : JsonConverter<long>
        {
            public override long Read(ref Utf8JsonReader reader, Type type, JsonSerializerOptions options) =>
                reader.TokenType == JsonTokenType.String
                    ? long.Parse(reader.GetString(), NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture)
                    : reader.GetInt64();

            public override void Write(Utf8JsonWriter writer, long value, JsonSerializerOptions options) =>
                writer.WriteStringValue(value.ToString(CultureInfo.InvariantCulture));
        }

        private sealed class Unsigned : JsonConverter<ulong>
        {
            public override ulong Read(ref Utf8JsonReader reader, Type type, JsonSerializerOptions options) =>
                reader.TokenType == JsonTokenType.String
                    ? ulong.Parse(reader.GetString(), NumberStyles.None, CultureInfo.InvariantCulture)
                    : reader.GetUInt64();

            public override void Write(Utf8JsonWriter writer, ulong value, JsonSerializerOptions options) =>
                writer.WriteStringValue(value.ToString(CultureInfo.InvariantCulture));
        }
    }
#endif
}
