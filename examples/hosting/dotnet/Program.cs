// The shop in C#.

using System.Collections.Concurrent;
using Tidewire;

public class Item
{
    public int Id { get; set; }

    public int Count { get; set; }

    public string Language { get; set; } = "";
}

public static class Program
{
    public static void Main()
    {
        var counts = new ConcurrentDictionary<int, int>();
        var app = new App();
        app.Unary<Item, Item>("shop.v1.DotnetShop/GetItem", (request, context) =>
        {
            context.Depends("dotnet-items", request.Id);
            counts.TryGetValue(request.Id, out var count);
            return new Item { Id = request.Id, Count = count, Language = "C#" };
        });
        app.Unary<Item, Item>("shop.v1.DotnetShop/SetItem", (request, context) =>
        {
            counts[request.Id] = request.Count;
            context.Changed("dotnet-items", request.Id);
            return request;
        });
        app.Serve();
    }
}
