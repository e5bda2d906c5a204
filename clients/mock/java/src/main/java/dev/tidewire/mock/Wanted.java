package dev.tidewire.mock;

import java.util.LinkedHashMap;
import java.util.Map;

/** Which calls are meant, and how often they are to have come. */
public final class Wanted {
    private final String bound;
    private final long count;
    private final Map<String, Object> fields = new LinkedHashMap<>();
    private final Map<String, Object> headers = new LinkedHashMap<>();

    private Wanted(String bound, long count) {
        this.bound = bound;
        this.count = count;
    }

    /** So often. */
    public static Wanted exactly(long count) {
        return new Wanted("exactly", count);
    }

    /** So often or more. */
    public static Wanted atLeast(long count) {
        return new Wanted("atLeast", count);
    }

    /** So often or less. */
    public static Wanted atMost(long count) {
        return new Wanted("atMost", count);
    }

    /** Not once. */
    public static Wanted never() {
        return exactly(0);
    }

    /** Calls with a value at a path of their request: a value, or an operator such as {@code Map.of("gte", 100)}. */
    public Wanted with(String path, Object value) {
        fields.put(path, value);
        return this;
    }

    /** Calls with each path of a map, or with all that is set in a message of protobuf. */
    public Wanted with(Object wanted) {
        fields.putAll(Messages.conditions(wanted));
        return this;
    }

    /** Calls with a header. */
    public Wanted withHeader(String name, Object value) {
        headers.put(name, value);
        return this;
    }

    void into(Map<String, Object> request) {
        request.put("with", Json.write(fields));
        request.put("withHeaders", Json.write(headers));
        request.put(bound, count);
    }
}
