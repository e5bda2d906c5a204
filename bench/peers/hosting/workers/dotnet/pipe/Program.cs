// The worker in C#: methods on the inherited socket.

using System.Diagnostics;
using Tidewire;

public class Name
{
    public string name { get; set; }
}

public class Greeting
{
    public string Text { get; set; }

    public int Pid { get; set; }
}

public static class Program
{
    private static readonly int Pid = Process.GetCurrentProcess().Id;

    public static void Main()
    {
        var app = new App();
        app.Unary<Name, Greeting>("hosting.v1.Greeter/Greet", (request, _) => Greet(request));
        app.Unary<Name, Greeting>("hosting.v1.Greeter/Kept", (request, context) =>
        {
            context.Depends("names", request.name);
            return Greet(request);
        });
        app.Serve();
    }

    private static Greeting Greet(Name request) => new Greeting { Text = "Hello, " + request.name, Pid = Pid };
}
