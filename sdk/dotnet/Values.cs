// What a program says and hears of calls: headers, errors and what is known of a call without an
// answer.

using System;
using System.Collections.Generic;
using System.Linq;

namespace Tidewire
{
    /// <summary>Why a call failed, with gRPC's numbers.</summary>
    public enum Code
    {
#pragma warning disable CS1591 // Their names say it.
        Canceled = 1, Unknown, InvalidArgument, DeadlineExceeded, NotFound, AlreadyExists, PermissionDenied,
        ResourceExhausted, FailedPrecondition, Aborted, OutOfRange, Unimplemented, Internal, Unavailable, DataLoss,
        Unauthenticated,
#pragma warning restore CS1591
    }

    /// <summary>What is known of a call that has no answer.</summary>
    public enum Outcome
    {
        /// <summary>The error is the answer of a handler.</summary>
        Answered = 0,

        /// <summary>No handler saw the call; it may be made again.</summary>
        NotRun = 1,

        /// <summary>The call may have run.</summary>
        Unknown = 2,

        /// <summary>It ran to its end, and its answer is lost.</summary>
        Ran = 3,

        /// <summary>It did not run, as the callee lags behind what the caller has seen.</summary>
        Behind = 4,
    }

    /// <summary>The level of a line in the log.</summary>
    public enum Level
    {
#pragma warning disable CS1591 // Their names say it.
        Trace = 1, Debug, Info, Warn, Error,
#pragma warning restore CS1591
    }

    /// <summary>A name and a value that go with a call or its answer.</summary>
    public readonly struct Header
    {
        /// <summary>Makes a header; its name is written in lower case.</summary>
        public Header(string name, string value)
        {
            this.Name = name ?? throw new ArgumentNullException(nameof(name));
            this.Value = value ?? throw new ArgumentNullException(nameof(value));
        }

        /// <summary>The name, in lower case where it came from the gateway.</summary>
        public string Name { get; }

        /// <summary>
        /// The value. A byte that is not valid UTF-8 becomes the char U+DC00 plus that byte, which
        /// is sent as the same byte again.
        /// </summary>
        public string Value { get; }

        /// <summary>Takes it apart.</summary>
        public void Deconstruct(out string name, out string value) => (name, value) = (this.Name, this.Value);

        /// <inheritdoc/>
        public override string ToString() => this.Name + ": " + this.Value;
    }

    /// <summary>
    /// Headers that can be sent: another is a mistake of the program, and not to be passed over.
    /// </summary>
    internal static class Sendable
    {
        private static readonly string[] OfConnection =
            { "connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade" };

        internal static Header OfReply(string name, string value)
        {
            var header = Checked(new Header(name, value), "reply header");
            var lower = name.ToLowerInvariant();
            if (Array.IndexOf(OfConnection, lower) >= 0 || lower.StartsWith("tidewire-", StringComparison.Ordinal))
            {
                throw new ArgumentException($"reply header \"{name}\" is the gateway's to say; take it out", nameof(name));
            }
            return header;
        }

        internal static Header[] All(IEnumerable<Header>? headers, string what) =>
            headers?.Select(header => Checked(header, what)).ToArray() ?? Array.Empty<Header>();

        private static Header Checked(Header header, string what)
        {
            var name = header.Name ?? string.Empty; // A default has none.
            if (!Output.IsToken(name.ToLowerInvariant()))
            {
                throw new ArgumentException($"{what} \"{name}\" has a name that no header can have", nameof(header));
            }
            return header.Value.IndexOfAny(Output.Breaks) < 0
                ? header
                : throw new ArgumentException($"{what} {name} has a CR, LF or NUL in its value; take it out", nameof(header));
        }
    }

    /// <summary>An encoded message that goes with an error.</summary>
    public sealed class Detail
    {
        /// <summary>
        /// Makes a detail of a message by the name of its type, such as <c>shop.v1.Missing</c>.
        /// </summary>
        public Detail(string type, byte[] value)
        {
            this.Type = type ?? throw new ArgumentNullException(nameof(type));
            this.Value = value ?? throw new ArgumentNullException(nameof(value));
        }

        /// <summary>The full name of the type of the message.</summary>
        public string Type { get; }

        /// <summary>The message, encoded as protobuf.</summary>
        public byte[] Value { get; }
    }

    /// <summary>
    /// Why a call failed: thrown by handlers for their callers, and by calls of the gateway.
    /// </summary>
    public sealed class TidewireException : Exception
    {
        /// <summary>Makes an error that the caller gets as it is.</summary>
        /// <exception cref="ArgumentException">A header cannot be sent.</exception>
        public TidewireException(
            Code code, string message, IEnumerable<Detail>? details = null, IEnumerable<Header>? headers = null)
            : this(code, message, Outcome.Answered, details, Sendable.All(headers, "reply header"))
        {
        }

        internal TidewireException(
            Code code,
            string message,
            Outcome outcome,
            IEnumerable<Detail>? details = null,
            IEnumerable<Header>? headers = null,
            IEnumerable<Header>? trailers = null)
            : base(message ?? throw new ArgumentNullException(nameof(message)))
        {
            this.Code = code >= Code.Canceled && code <= Code.Unauthenticated ? code : Code.Unknown;
            this.Outcome = outcome;
            this.Details = Checked(details);
            this.Headers = headers?.ToArray() ?? Array.Empty<Header>();
            this.Trailers = trailers?.ToArray() ?? Array.Empty<Header>();
        }

        /// <summary>The code.</summary>
        public Code Code { get; }

        /// <summary>What is known of a call that has no answer.</summary>
        public Outcome Outcome { get; }

        /// <summary>Encoded messages that go with the error.</summary>
        public IReadOnlyList<Detail> Details { get; }

        /// <summary>Headers that go with the error.</summary>
        public IReadOnlyList<Header> Headers { get; }

        /// <summary>Trailers that came with the error.</summary>
        public IReadOnlyList<Header> Trailers { get; }

        internal static TidewireException GivenUp(Outcome outcome = Outcome.Answered) =>
            new TidewireException(Code.Canceled, "the caller gave up", outcome);

        private static Detail[] Checked(IEnumerable<Detail>? details)
        {
            var all = details?.ToArray() ?? Array.Empty<Detail>();
            return all.All(detail => detail != null) ? all : throw new ArgumentException("a detail is null", nameof(details));
        }
    }
}
