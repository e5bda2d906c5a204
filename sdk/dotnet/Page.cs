// Pages of the program's route.

using System;
using System.Globalization;
using System.IO;
using System.Net;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Tidewire
{
    /// <summary>A request for a page, and its answer.</summary>
    public sealed class Page : Context
    {
        private readonly string path;
        private bool isRead;

        internal Page(App app, Call call)
            : base(app, call)
        {
            var at = call.Path.IndexOf('?');
            this.path = at < 0 ? call.Path : call.Path.Substring(0, at);
            this.Query = at < 0 ? string.Empty : call.Path.Substring(at + 1);
            this.Body = new BodyStream(this);
        }

        /// <summary>The method, such as <c>GET</c>.</summary>
        public string Method => this.Call.Verb!;

        /// <summary>The path and the query as they came.</summary>
        public string Target => this.Call.Path;

        /// <summary>The path, with what was escaped by percent signs as text.</summary>
        public string Path => Uri.UnescapeDataString(this.path);

        /// <summary>What follows the question mark, as it came.</summary>
        public string Query { get; }

        /// <summary>The body of the request.</summary>
        public Stream Body { get; }

        /// <summary>
        /// The address that the call came from, with port 0 where that is not told; null where
        /// neither is.
        /// </summary>
        public IPEndPoint? Remote
        {
            get
            {
                var first = (this.Header("x-forwarded-for") ?? string.Empty).Split(',')[0].Trim();
                var isBare = IPAddress.TryParse(first.Trim('[', ']'), out var address);
                if (isBare && !first.EndsWith("]", StringComparison.Ordinal) && !first.StartsWith("[", StringComparison.Ordinal))
                {
                    return new IPEndPoint(address, 0);
                }
                var colon = first.LastIndexOf(':');
                if (colon > 0
                    && IPAddress.TryParse(first.Substring(0, colon).Trim('[', ']'), out address)
                    && ushort.TryParse(first.Substring(colon + 1), NumberStyles.None, CultureInfo.InvariantCulture, out var port))
                {
                    return new IPEndPoint(address, port);
                }
                return isBare ? new IPEndPoint(IPAddress.Parse(first.Trim('[', ']')), 0) : null;
            }
        }

        /// <summary>
        /// The status of the answer, from 200 to 999; it is sent with the first bytes.
        /// </summary>
        public int Status
        {
            get => this.Call.Status;
            set => this.Call.Status = value;
        }

        /// <summary>Sends a piece of the answer, which begins with the first one.</summary>
        public async Task WriteAsync(ReadOnlyMemory<byte> data)
        {
            for (; !data.IsEmpty; data = data.Slice(Math.Min(data.Length, Wire.PayloadMax)))
            {
                var some = data.Slice(0, Math.Min(data.Length, Wire.PayloadMax));
                await this.App.PushAsync(this.Call, some).ConfigureAwait(false);
            }
        }

        /// <summary>Sends a piece of the answer as UTF-8.</summary>
        public Task WriteAsync(string text) => this.WriteAsync(Encoding.UTF8.GetBytes(text));

        internal async Task AnswerAsync(Func<Page, Task> handler)
        {
            if (this.Header("sec-websocket-version") != null)
            {
                this.Status = 501; // A page cannot switch; a program of plain HTTP can.
            }
            else
            {
                await handler(this).ConfigureAwait(false);
            }
            this.App.Finish(this.Call);
        }

        /// <summary>The next piece of the body; null after the last.</summary>
        private async ValueTask<byte[]?> NextAsync(CancellationToken cancellation)
        {
            if (this.Call.IsStreaming)
            {
                return await this.App.NextAsync(this.Call, cancellation).ConfigureAwait(false);
            }
            var whole = this.isRead ? null : this.Call.Payload;
            this.isRead = true;
            return whole;
        }

        private sealed class BodyStream : Stream
        {
            private readonly Page page;
            private ReadOnlyMemory<byte> rest;

            internal BodyStream(Page page) => this.page = page;

            public override bool CanRead => true;

            public override bool CanSeek => false;

            public override bool CanWrite => false;

            public override long Length => throw new NotSupportedException();

            public override long Position
            {
                get => throw new NotSupportedException();
                set => throw new NotSupportedException();
            }

            public override async ValueTask<int> ReadAsync(Memory<byte> into, CancellationToken cancellation = default)
            {
                while (this.rest.IsEmpty)
                {
                    var next = await this.page.NextAsync(cancellation).ConfigureAwait(false);
                    if (next == null)
                    {
                        return 0;
                    }
                    this.rest = next;
                }
                var count = Math.Min(into.Length, this.rest.Length);
                this.rest.Slice(0, count).CopyTo(into);
                this.rest = this.rest.Slice(count);
                return count;
            }

            public override Task<int> ReadAsync(byte[] into, int at, int count, CancellationToken cancellation) =>
                this.ReadAsync(new Memory<byte>(into, at, count), cancellation).AsTask();

            public override int Read(byte[] into, int at, int count) =>
                this.ReadAsync(into, at, count, default).GetAwaiter().GetResult();

            public override void Flush()
            {
            }

            public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

            public override void SetLength(long value) => throw new NotSupportedException();

            public override void Write(byte[] buffer, int offset, int count) => throw new NotSupportedException();
        }
    }
}
