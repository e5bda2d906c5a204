// A worker as the first seed's are: JSON over a Unix socket that it makes at PIPE_ADDRESS, one
// connection a call. The request is {"method", "uri", "headers": [[name, value]…], "body": base64},
// without a length or an end: it is whole once its JSON is. The answer is {"status", "headers":
// {name: value}, "body": base64}, and the end of the connection.

using System;
using System.Diagnostics;
using System.IO;
using System.Net.Sockets;
using System.Text;
using System.Text.Json;
using System.Threading.Tasks;

public static class Program
{
    private static readonly byte[] Body = Encoding.UTF8.GetBytes($"{{\"text\":\"Hello, Ada\",\"pid\":{Process.GetCurrentProcess().Id}}}");

    public static async Task Main()
    {
        var path = Environment.GetEnvironmentVariable("PIPE_ADDRESS") ?? throw new InvalidOperationException("no PIPE_ADDRESS");
        File.Delete(path);
        using var listener = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        listener.Bind(new UnixDomainSocketEndPoint(path));
        listener.Listen(1024);
        while (true)
        {
            var caller = await listener.AcceptAsync();
            _ = Task.Run(() => Serve(caller));
        }
    }

    private static async Task Serve(Socket caller)
    {
        try
        {
            using (caller)
            {
                var (data, count) = (new byte[4096], 0);
                JsonDocument request;
                while (!IsWhole(new ReadOnlySpan<byte>(data, 0, count), out request))
                {
                    if (count == data.Length)
                    {
                        Array.Resize(ref data, 2 * count);
                    }
                    var read = await caller.ReceiveAsync(new Memory<byte>(data, count, data.Length - count), SocketFlags.None);
                    if (read == 0)
                    {
                        return;
                    }
                    count += read;
                }
                using (request)
                {
                    ReadOnlyMemory<byte> answer = Answer(request.RootElement);
                    while (!answer.IsEmpty)
                    {
                        answer = answer.Slice(await caller.SendAsync(answer, SocketFlags.None));
                    }
                }
                caller.Shutdown(SocketShutdown.Send);
            }
        }
        catch (Exception error) when (error is SocketException || error is JsonException || error is InvalidOperationException)
        {
            Console.Error.WriteLine($"a call failed: {error.Message}");
        }
    }

    /// <summary>Whether this is a document to its end; what is none is an error.</summary>
    private static bool IsWhole(ReadOnlySpan<byte> data, out JsonDocument document)
    {
        document = null;
        var reader = new Utf8JsonReader(data, isFinalBlock: false, default);
        return !data.IsEmpty && JsonDocument.TryParseValue(ref reader, out document);
    }

    private static byte[] Answer(JsonElement request)
    {
        var isKnown = request.GetProperty("method").GetString() == "GET" && request.GetProperty("uri").GetString() == "/worker";
        using var answer = new MemoryStream();
        using (var writer = new Utf8JsonWriter(answer))
        {
            writer.WriteStartObject();
            writer.WriteNumber("status", isKnown ? 200 : 404);
            writer.WriteStartObject("headers");
            writer.WriteString("content-type", "application/json");
            writer.WriteEndObject();
            writer.WriteBase64String("body", isKnown ? Body : Array.Empty<byte>());
            writer.WriteEndObject();
        }
        return answer.ToArray();
    }
}
