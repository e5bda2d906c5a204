// Servers of .NET: `middleware` and `routing` of ASP.NET Core on Kestrel, and `listener`,
// System.Net.HttpListener. The first line of output is the address.

using System;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Text.Json;
using System.Threading.Tasks;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Hosting.Server.Features;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

public class Message
{
    public string message { get; set; }
}

public static class Program
{
    public static async Task Main(string[] words)
    {
        if (words[0] == "listener")
        {
            await Listen();
            return;
        }
        var host = Host.CreateDefaultBuilder()
            .ConfigureLogging(logging => logging.ClearProviders()) // Else it prints lines for each request.
            .ConfigureWebHostDefaults(web => web
                .UseUrls("http://127.0.0.1:0")
                .Configure(words[0] == "routing" ? (Action<IApplicationBuilder>)Routing : Middleware))
            .Build();
        await host.StartAsync();
        var server = (Microsoft.AspNetCore.Hosting.Server.IServer)host.Services.GetService(typeof(Microsoft.AspNetCore.Hosting.Server.IServer));
        Console.WriteLine(server.Features.Get<IServerAddressesFeature>().Addresses.Single().Substring("http://".Length));
        await host.WaitForShutdownAsync();
    }

    private static readonly byte[] Hello = Encoding.UTF8.GetBytes("Hello, World!"), Bound = Encoding.UTF8.GetBytes("Hello World!");

    private static byte[] Json() => JsonSerializer.SerializeToUtf8Bytes(new Message { message = "Hello World!" });

    private static Task Send(HttpContext context, string kind, byte[] body)
    {
        context.Response.ContentType = kind;
        context.Response.ContentLength = body.Length;
        return context.Response.Body.WriteAsync(body, 0, body.Length);
    }

    private static void Middleware(IApplicationBuilder app) => app.Run(context =>
    {
        switch (context.Request.Path.Value)
        {
            case "/plaintext":
                return Send(context, "text/plain", Hello);
            case "/json":
                return Send(context, "application/json", Json());
            case "/method/plaintext":
                _ = context.Request.Query["name"];
                return Send(context, "text/plain", Bound);
            case "/method/json":
                _ = context.Request.Query["name"];
                return Send(context, "application/json", Json());
            default:
                context.Response.StatusCode = 404;
                return Task.CompletedTask;
        }
    });

    private static void Routing(IApplicationBuilder app)
    {
        app.UseRouting();
        app.UseEndpoints(endpoints =>
        {
            endpoints.MapGet("/plaintext", context => Send(context, "text/plain", Hello));
            endpoints.MapGet("/json", context => Send(context, "application/json", Json()));
            endpoints.MapGet("/method/plaintext", context =>
            {
                _ = context.Request.Query["name"];
                return Send(context, "text/plain", Bound);
            });
            endpoints.MapGet("/method/json", context =>
            {
                _ = context.Request.Query["name"];
                return Send(context, "application/json", Json());
            });
        });
    }

    /// <summary>It takes no port 0, so that a free one is looked for.</summary>
    private static async Task Listen()
    {
        var free = new TcpListener(IPAddress.Loopback, 0);
        free.Start();
        var address = free.LocalEndpoint.ToString();
        free.Stop();
        var listener = new HttpListener();
        listener.Prefixes.Add($"http://{address}/");
        listener.Start();
        Console.WriteLine(address);
        while (true)
        {
            var context = await listener.GetContextAsync();
            _ = Task.Run(() => Answer(context));
        }
    }

    private static async Task Answer(HttpListenerContext context)
    {
        var (kind, body) = context.Request.Url.AbsolutePath switch
        {
            "/plaintext" => ("text/plain", Hello),
            "/json" => ("application/json", Json()),
            "/method/plaintext" => Bind(context, "text/plain", Bound),
            "/method/json" => Bind(context, "application/json", Json()),
            _ => (null, Array.Empty<byte>()),
        };
        context.Response.StatusCode = kind == null ? 404 : 200;
        context.Response.ContentType = kind;
        context.Response.ContentLength64 = body.Length;
        await context.Response.OutputStream.WriteAsync(body, 0, body.Length);
        context.Response.Close();
    }

    private static (string, byte[]) Bind(HttpListenerContext context, string kind, byte[] body)
    {
        _ = context.Request.QueryString["name"];
        return (kind, body);
    }
}
