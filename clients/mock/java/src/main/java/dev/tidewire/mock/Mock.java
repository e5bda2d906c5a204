package dev.tidewire.mock;

import java.util.Map;
import java.util.UUID;

/**
 * A running {@code tidewire mock}. It ends when it is closed, or with this process.
 *
 * <pre>{@code
 * try (Mock mock = Mock.options().protos(Path.of("protos")).start()) {
 *     mock.on("shop.v1.Cart/GetPrice").with("sku", "tea").reply(Map.of("unit_price", 4));
 *     // ...
 *     mock.verify("shop.v1.Cart/GetPrice", Wanted.exactly(1).with("sku", "tea"));
 * }
 * }</pre>
 */
public final class Mock extends Scope implements AutoCloseable {
    Mock(Program program) {
        super(program, "");
    }

    /** What is to be said before it starts. */
    public static Options options() {
        return new Options();
    }

    /** A session with a name that no other has. */
    public Session session() {
        return session(UUID.randomUUID().toString());
    }

    /** A session. */
    public Session session(String name) {
        return new Session(program, name);
    }

    /** Lets all answers go wrong, whatever their rules, as {@code delay} and {@code fault} say; null ends it. */
    public void setFaults(Map<String, ?> faults) {
        setFaults("", faults);
    }

    /** Lets the answers of a method go wrong. */
    public void setFaults(String method, Map<String, ?> faults) {
        String text = faults == null ? "" : Json.write(faults);
        program.ask("SetFaults", Map.of("method", method, "text", text));
    }

    /** The process of the mock. */
    public ProcessHandle process() {
        return program.process.toHandle();
    }

    @Override
    public void close() {
        program.close();
    }
}
