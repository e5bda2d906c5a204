package dev.tidewire.mock;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/**
 * A stub in the making: what it wants of the call; {@code reply}, {@code replyStream}, {@code fail}
 * or {@code passOn} add it to the mock.
 */
public final class Rule {
    private final Consumer<String> add;
    private final Map<String, Object> when = new LinkedHashMap<>();
    private final Map<String, Object> rest = new LinkedHashMap<>();
    private final Map<String, String> headers = new LinkedHashMap<>();
    private final Map<String, String> trailers = new LinkedHashMap<>();
    private final List<Object> faults = new ArrayList<>();

    Rule(Consumer<String> add) {
        this.add = add;
    }

    /** Wants a value at a path of the request: a value, or an operator such as {@code Map.of("gte", 100)}. */
    public Rule with(String path, Object value) {
        when.put(path.isEmpty() ? "request" : "request." + path, value);
        return this;
    }

    /** Wants each path of a map, or all that is set in a message of protobuf. */
    public Rule with(Object wanted) {
        Messages.conditions(wanted).forEach(this::with);
        return this;
    }

    /** Wants a header. */
    public Rule withHeader(String name, Object value) {
        when.put("metadata." + name, value);
        return this;
    }

    /** Answers so often only. */
    public Rule times(long count) {
        return set("times", count);
    }

    /** Waits first. */
    public Rule delay(Duration time) {
        return set("delay", time.toNanos() / 1e6 + "ms");
    }

    /** Sends a header with the answer. */
    public Rule header(String name, String value) {
        headers.put(name, value);
        return set("headers", headers);
    }

    /** Sends a trailer with the answer. */
    public Rule trailer(String name, String value) {
        trailers.put(name, value);
        return set("trailers", trailers);
    }

    /** Goes wrong when it is sent: {@code Map.of("kind", "truncate", "after", 3)}. */
    public Rule fault(Map<String, ?> fault) {
        faults.add(fault);
        return set("fault", faults);
    }

    /** Any other key of a response in a rule file. */
    public Rule set(String key, Object value) {
        rest.put(key, value);
        return this;
    }

    /** Answers with what else is set, such as a sequence, or with an empty message. */
    public void reply() {
        if (!when.isEmpty()) {
            rest.put("when", when);
        }
        add.accept(Json.write(rest));
    }

    /** Answers with a message: a map, or a message of protobuf. */
    public void reply(Object message) {
        set("body", message).reply();
    }

    /** Answers with messages one after the other. */
    public void replyStream(Object... messages) {
        set("stream_delay_ms", 0).set("stream_items", Arrays.asList(messages)).reply();
    }

    /** Answers with an error, such as {@code unavailable}; a detail names its type by {@code @type}. */
    public void fail(String code, String message, Map<?, ?>... details) {
        Map<String, Object> error = new LinkedHashMap<>(Map.of("code", code, "message", message));
        if (details.length > 0) {
            error.put("details", Arrays.asList(details));
        }
        set("error", error).reply();
    }

    /** The real service of {@link Options#upstream} answers. */
    public void passOn() {
        set("upstream", true).reply();
    }
}
