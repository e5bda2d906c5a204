package dev.tidewire.mock;

/**
 * A mock within the mock: its rules, its state and its calls are those of requests with its header, so
 * that tests which run beside one another share one program. It is reset when it is closed.
 */
public final class Session extends Scope implements AutoCloseable {
    Session(Program program, String name) {
        super(program, name);
    }

    /** What the header {@code x-mock-session} says. */
    public String name() {
        return session;
    }

    @Override
    public void close() {
        reset();
    }
}
