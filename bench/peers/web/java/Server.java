// The JDK's own HTTP server (jdk.httpserver) with a thread a core, as its documentation writes it. First line
// of output is the address.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;

public final class Server {
    private static void send(HttpExchange exchange, String kind, String text) throws IOException {
        byte[] body = text.getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", kind);
        exchange.sendResponseHeaders(200, body.length);
        try (var out = exchange.getResponseBody()) {
            out.write(body);
        }
    }

    private static String argument(HttpExchange exchange, String name) {
        String query = exchange.getRequestURI().getQuery();
        if (query != null) {
            for (String part : query.split("&")) {
                if (part.startsWith(name + "=")) {
                    return part.substring(name.length() + 1);
                }
            }
        }
        return null;
    }

    private static String json(String message) {
        return "{\"message\":\"" + message + "\"}";
    }

    public static void main(String[] arguments) throws IOException {
        // Answers leave at once, and connections stay.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        System.setProperty("sun.net.httpserver.maxIdleConnections", "1000");
        System.setProperty("sun.net.httpserver.idleInterval", "300");
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 1024);
        server.createContext("/plaintext", exchange -> send(exchange, "text/plain", "Hello, World!"));
        server.createContext("/json", exchange -> send(exchange, "application/json", json("Hello World!")));
        server.createContext("/method/plaintext", exchange -> {
            argument(exchange, "name");
            send(exchange, "text/plain", "Hello World!");
        });
        server.createContext("/method/json", exchange -> {
            argument(exchange, "name");
            send(exchange, "application/json", json("Hello World!"));
        });
        server.start();
        System.out.println("127.0.0.1:" + server.getAddress().getPort());
    }
}
