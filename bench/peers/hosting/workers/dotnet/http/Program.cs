// The worker in C#: Kestrel, at the address that --urls names.

using System.Diagnostics;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

public static class Program
{
    public static void Main(string[] words)
    {
        var text = $"{{\"text\":\"Hello, Ada\",\"pid\":{Process.GetCurrentProcess().Id}}}";
        Host.CreateDefaultBuilder(words)
            .ConfigureLogging(logging => logging.ClearProviders()) // Else it prints lines for each request.
            .ConfigureWebHostDefaults(web => web.Configure(app => app.Run(context =>
            {
                context.Response.ContentLength = text.Length;
                return context.Response.WriteAsync(text);
            })))
            .Build().Run();
    }
}
