package dev.tidewire.mock;

/** The mock refuses what it was asked, or cannot be asked. */
public final class MockException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final String code;

    MockException(String code, String message) {
        super(message);
        this.code = code;
    }

    /** As in gRPC: {@code invalid_argument}, {@code not_found}, {@code unavailable}. */
    public String code() {
        return code;
    }
}
