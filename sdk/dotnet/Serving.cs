// The socket that a program inherits: one thread reads it, whoever has something to say writes.

using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;

namespace Tidewire
{
    public sealed partial class App
    {
        private static readonly TimeSpan Grace = TimeSpan.FromSeconds(2); // In which the last word is read.
        private readonly object gate = new object();
        private readonly List<Call> begun = new List<Call>();
        private readonly Output output = new Output();
        private int sent;
        private int socket = -1;
        private bool isWriting;
        private bool isStuck;
        private Thread? writer;

        internal Session Session { get; }

        internal object Gate => this.gate;

        /// <summary>Serves until the gateway ends the program.</summary>
        public void Serve()
        {
            var number = Environment.GetEnvironmentVariable("TIDEWIRE_FD");
            if (!int.TryParse(number, out var descriptor))
            {
                Console.Error.WriteLine(
                    "this program is started by Tidewire: write a [[service]] with run = [...] into tidewire.toml, and call it " +
                    "through `tidewire serve`");
                Environment.Exit(1);
            }
            Environment.SetEnvironmentVariable("TIDEWIRE_FD", null);
            Libc.Own(descriptor);
            this.socket = descriptor;
            this.Flush();
            while (this.Read())
            {
            }
        }

        /// <summary>Reads once; whether there is more to come.</summary>
        private bool Read()
        {
            var (buffer, at) = this.Session.Room();
            var count = Libc.Receive(this.socket, buffer, at, Wire.PayloadMax);
            bool isDue;
            lock (this.gate)
            {
                if (count > 0)
                {
                    this.Session.Feed(count);
                }
                else
                {
                    this.Session.Close("it closed the socket");
                }
                isDue = this.IsDue();
            }
            foreach (var call in this.begun)
            {
                ThreadPool.UnsafeQueueUserWorkItem(Answering, new Context(this, call));
            }
            this.begun.Clear();
            this.Write(isDue);
            lock (this.gate)
            {
                while (this.Session.Closed == null && this.Session.IsFull)
                {
                    Monitor.Wait(this.gate);
                }
                if (this.Session.Closed == null && !(this.Session.IsDraining && this.Session.Calls.Count == 0))
                {
                    return true;
                }
                for (var until = Clock.Now + Grace; this.isWriting && Clock.Now < until;)
                {
                    Monitor.Wait(this.gate, Clock.Until(until));
                }
                return false;
            }
        }

        private static readonly WaitCallback Answering = state =>
        {
            var context = (Context)state!;
            _ = context.App.AnswerAsync(context);
        };

        private async Task AnswerAsync(Context context)
        {
            var call = context.Call;
            try
            {
                if (call.Verb != null && this.pages != null)
                {
                    await new Page(this, call).AnswerAsync(this.pages).ConfigureAwait(false);
                }
                else if (call.Verb == null && this.handlers.TryGetValue(call.Path, out var answer))
                {
                    await answer(context).ConfigureAwait(false);
                }
                else
                {
                    var text = $"this program does not serve {call.Path}";
                    this.Fail(call, new TidewireException(Code.Unimplemented, text, Outcome.NotRun));
                }
            }
            catch (TidewireException error)
            {
                this.Fail(call, error);
            }
            catch (OperationCanceledException) when (call.IsCancelled || call.IsToldToEnd)
            {
                // A handler that ends since its caller gave up needs no line in the log. Its own
                // clock may have told it of the deadline before the gateway does.
                this.Fail(call, new TidewireException(Code.DeadlineExceeded, "the deadline of the call has passed"));
            }
            catch (Exception error)
            {
                Tidewire.Log.Failure($"the handler of {call.Path}", error);
                this.Fail(call, new TidewireException(Code.Internal, "the handler failed; its log says why"));
            }
            finally
            {
                call.Forget();
            }
        }

        private void Fail(Call call, TidewireException error)
        {
            bool isDue;
            lock (this.gate)
            {
                this.Session.Fail(call, error);
                isDue = this.IsDue();
            }
            this.Write(isDue);
        }

        /// <summary>Sends an item of an answer, once there is room for it.</summary>
        internal async ValueTask PushAsync(Call call, ReadOnlyMemory<byte> item)
        {
            while (true)
            {
                Task wait;
                var isDue = false;
                lock (this.gate)
                {
                    if (!call.IsOpen)
                    {
                        throw TidewireException.GivenUp();
                    }
                    if (call.Queued < Wire.QueuedMax)
                    {
                        this.Session.Begin(call);
                        this.Session.Push(call, item.Span);
                        isDue = this.IsDue();
                        wait = Task.CompletedTask;
                    }
                    else
                    {
                        wait = call.Changes();
                    }
                }
                this.Write(isDue);
                if (ReferenceEquals(wait, Task.CompletedTask))
                {
                    return;
                }
                await wait.ConfigureAwait(false);
            }
        }

        /// <summary>Ends an answer after its items.</summary>
        internal void Finish(Call call)
        {
            bool isDue;
            lock (this.gate)
            {
                this.Session.Begin(call);
                this.Session.Finish(call);
                isDue = this.IsDue();
            }
            this.Write(isDue);
        }

        /// <summary>The next item that a caller sends; null after the last.</summary>
        internal async ValueTask<byte[]?> NextAsync(Call call, CancellationToken cancellation)
        {
            while (true)
            {
                cancellation.ThrowIfCancellationRequested();
                var wait = Task.CompletedTask;
                byte[]? item = null;
                var isDue = false;
                lock (this.gate)
                {
                    if (call.Items.Count > 0)
                    {
                        item = this.Session.TakeItem(call);
                        isDue = this.IsDue();
                    }
                    else if (!call.IsWhole)
                    {
                        wait = call.IsOpen ? call.Changes() : throw TidewireException.GivenUp();
                    }
                }
                this.Write(isDue);
                if (ReferenceEquals(wait, Task.CompletedTask))
                {
                    return item;
                }
                if (cancellation.CanBeCanceled)
                {
                    var cancelled = new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
                    using (cancellation.Register(() => cancelled.TrySetResult(true)))
                    {
                        await Task.WhenAny(wait, cancelled.Task).ConfigureAwait(false);
                    }
                }
                else
                {
                    await wait.ConfigureAwait(false);
                }
            }
        }

        internal async Task<TReply> AskAsync<TReply>(
            Call? parent, string path, object request, CallOptions how, TimeSpan? timeout, CancellationToken cancellation)
        {
            var codec = request is byte[] || this.Protobuf != null ? (byte)0 : JsonCodec;
            var data = this.Encode(request, codec);
            if (timeout == Timeout.InfiniteTimeSpan || timeout?.TotalMilliseconds > int.MaxValue)
            {
                timeout = null; // As long as that no timer runs.
            }
            using var timer = timeout == null ? null : CancellationTokenSource.CreateLinkedTokenSource(cancellation);
            timer?.CancelAfter(timeout!.Value);
            var token = timer?.Token ?? cancellation;
            var until = timeout == null ? (TimeSpan?)null : Clock.Now + timeout;
            Call? call = null;
            try
            {
                call = await this.BeginAskAsync(parent, path, codec, data, how, until, token).ConfigureAwait(false);
                return this.Decode<TReply>(await this.ReplyAsync(call, path, token).ConfigureAwait(false), codec);
            }
            catch (OperationCanceledException) when (!cancellation.IsCancellationRequested)
            {
                var outcome = call == null ? Outcome.NotRun : Outcome.Unknown;
                throw new TidewireException(Code.DeadlineExceeded, $"{path} took longer than {timeout}", outcome);
            }
        }

        private async ValueTask<Call> BeginAskAsync(
            Call? parent, string path, byte codec, byte[] data, CallOptions how, TimeSpan? until, CancellationToken token)
        {
            while (true)
            {
                TaskCompletionSource<bool> waits;
                Call? call;
                bool isDue;
                lock (this.gate)
                {
                    if (token.IsCancellationRequested)
                    {
                        // Another may have the room that it was woken for.
                        this.Session.WakeOneWhoWaitsForRoom();
                        token.ThrowIfCancellationRequested();
                    }
                    var within = parent != null && parent.IsOpen && !parent.HasHead ? parent.Number : 0;
                    var left = until is TimeSpan then ? Math.Max(1, Math.Ceiling(Clock.Until(then).TotalMilliseconds)) : 0;
                    call = this.Session.Ask(path, codec, data, how, within, (uint)left);
                    waits = call == null ? this.Session.Waits() : NoneWaits;
                    isDue = this.IsDue();
                }
                this.Write(isDue);
                if (call != null)
                {
                    return call;
                }
                using (token.Register(() => waits.TrySetCanceled(token)))
                {
                    await waits.Task.ConfigureAwait(false);
                }
            }
        }

        private static readonly TaskCompletionSource<bool> NoneWaits = new TaskCompletionSource<bool>();

        private async ValueTask<byte[]> ReplyAsync(Call call, string path, CancellationToken token)
        {
            using (token.Register(() => this.Cancel(call)))
            {
                while (true)
                {
                    Task wait;
                    lock (this.gate)
                    {
                        if (!call.IsOpen || call.IsCancelled || call.Items.Count > 1)
                        {
                            break;
                        }
                        wait = call.Changes();
                    }
                    await wait.ConfigureAwait(false);
                }
            }
            if (call.Error != null)
            {
                throw call.Error;
            }
            if (call.IsOpen && call.IsCancelled)
            {
                throw new OperationCanceledException(token);
            }
            if (call.Items.Count != 1)
            {
                this.Cancel(call);
                throw new TidewireException(Code.Unimplemented, path + " streams its replies", Outcome.Unknown);
            }
            return call.Items.Peek().Data;
        }

        private void Cancel(Call call)
        {
            bool isDue;
            lock (this.gate)
            {
                this.Session.Cancel(call);
                isDue = this.IsDue();
            }
            this.Write(isDue);
        }

        private void Flush()
        {
            bool isDue;
            lock (this.gate)
            {
                isDue = this.IsDue();
            }
            this.Write(isDue);
        }

        /// <summary>
        /// Whether this thread is to write, for all, as nobody does and there is something; it has
        /// the lock, and calls <see cref="Write"/> once it has not.
        /// </summary>
        private bool IsDue()
        {
            if (this.isWriting || this.socket < 0 || !this.Session.IsDue)
            {
                return false;
            }
            this.isWriting = true;
            return true;
        }

        private void Write(bool isDue)
        {
            if (isDue && !this.TryWrite(Libc.DontWait))
            {
                // No handler waits for a gateway that does not read.
                lock (this.gate)
                {
                    this.isStuck = true;
                    if (this.writer == null)
                    {
                        this.writer = new Thread(this.WriteWhatIsStuck) { IsBackground = true, Name = "tidewire writer" };
                        this.writer.Start();
                    }
                    Monitor.PulseAll(this.gate);
                }
            }
        }

        private void WriteWhatIsStuck()
        {
            while (true)
            {
                lock (this.gate)
                {
                    while (!this.isStuck)
                    {
                        Monitor.Wait(this.gate);
                    }
                    this.isStuck = false;
                }
                this.TryWrite(0);
            }
        }

        /// <summary>Writes until nothing is left; false when the socket is full.</summary>
        private bool TryWrite(int flags)
        {
            while (true)
            {
                if (this.sent == this.output.Count)
                {
                    lock (this.gate)
                    {
                        this.output.Clear();
                        this.sent = 0;
                        this.Session.Take(this.output);
                        this.isWriting = this.output.Count > 0;
                        Monitor.PulseAll(this.gate);
                        if (!this.isWriting)
                        {
                            return true;
                        }
                    }
                }
                var count = Libc.Send(this.socket, this.output.Data, this.sent, this.output.Count - this.sent, flags, out var isFull);
                if (isFull)
                {
                    return false;
                }
                if (count < 0)
                {
                    lock (this.gate)
                    {
                        this.Session.Close("it reads no more");
                        this.isWriting = false;
                        Monitor.PulseAll(this.gate);
                        return true;
                    }
                }
                this.sent += count;
            }
        }

        /// <summary>
        /// The system's calls: in .NET Core 3.1 no class takes a socket by its descriptor.
        /// </summary>
        private static class Libc
        {
            internal const int DontWait = 0x40;
            private const int NoSignal = 0x4000, Interrupted = 4, Again = 11;
            private const int SetDescriptorFlags = 2, CloseOnExec = 1, GetFlags = 3, SetFlags = 4, NonBlocking = 0x800;

            /// <summary>Makes the socket one that blocks and that no child inherits.</summary>
            internal static void Own(int socket)
            {
                fcntl(socket, SetDescriptorFlags, CloseOnExec);
                fcntl(socket, SetFlags, fcntl(socket, GetFlags, 0) & ~NonBlocking);
            }

            /// <summary>How many bytes came; 0 at the end.</summary>
            internal static int Receive(int socket, byte[] into, int at, int size)
            {
                while (true)
                {
                    var count = (int)recv(socket, ref into[at], (IntPtr)size, 0);
                    if (count >= 0 || Marshal.GetLastWin32Error() != Interrupted)
                    {
                        return Math.Max(0, count);
                    }
                }
            }

            /// <summary>
            /// How many bytes were sent; less than 0 where nobody reads any more.
            /// </summary>
            internal static int Send(int socket, byte[] data, int at, int size, int flags, out bool isFull)
            {
                while (true)
                {
                    var count = (int)send(socket, ref data[at], (IntPtr)size, flags | NoSignal);
                    var error = count < 0 ? Marshal.GetLastWin32Error() : 0;
                    isFull = error == Again;
                    if (error != Interrupted)
                    {
                        return count;
                    }
                }
            }

#pragma warning disable SA1300, IDE1006 // Their names are the system's.
            [DllImport("libc", SetLastError = true)]
            private static extern int fcntl(int socket, int command, int value);

            [DllImport("libc", SetLastError = true)]
            private static extern IntPtr recv(int socket, ref byte into, IntPtr size, int flags);

            [DllImport("libc", SetLastError = true)]
            private static extern IntPtr send(int socket, ref byte data, IntPtr size, int flags);
#pragma warning restore SA1300, IDE1006
        }
    }
}
