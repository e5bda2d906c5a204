package dev.tidewire.mock;

/** Calls did not come as they were to; the message tells the nearest ones. */
public final class VerifyError extends AssertionError {
    private static final long serialVersionUID = 1;

    VerifyError(String message) {
        super(message);
    }
}
