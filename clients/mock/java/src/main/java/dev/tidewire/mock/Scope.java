package dev.tidewire.mock;

import java.net.URI;
import java.net.http.HttpRequest;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What a mock and a session have in common; the mock itself is the session without a name. */
public abstract sealed class Scope permits Mock, Session {
    /** The header that names the session of a request. */
    public static final String SESSION_HEADER = "x-mock-session";

    final Program program;
    final String session;

    Scope(Program program, String session) {
        this.program = program;
        this.session = session;
    }

    /** {@code http://127.0.0.1:PORT}, for Connect, gRPC-Web, REST and gRPC. */
    public String url() {
        return "http://" + program.address;
    }

    /** {@code 127.0.0.1:PORT}, as channels of gRPC want it. */
    public String target() {
        return program.address;
    }

    /** What requests are sent with: the header of a session; nothing for the mock itself. */
    public Map<String, String> headers() {
        return session.isEmpty() ? Map.of() : Map.of(SESSION_HEADER, session);
    }

    /** A request of a path of the mock with these headers. */
    public HttpRequest.Builder request(String path) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url() + path));
        headers().forEach(request::header);
        return request;
    }

    /**
     * Begins a response of a method, {@code shop.v1.Cart/GetPrice}. Of responses that fit, the one that
     * was added first answers; those without conditions last.
     */
    public Rule on(String method) {
        return new Rule(response ->
                program.ask("Stub", Map.of("method", name(method), "response", response, "session", session)));
    }

    /** Throws a {@link VerifyError} where no call came. */
    public void verify(String method) {
        verify(method, Wanted.atLeast(1));
    }

    /** Throws a {@link VerifyError} if another number of calls came than is wanted. */
    public void verify(String method, Wanted wanted) {
        Map<String, Object> request = new LinkedHashMap<>(Map.of("method", name(method), "session", session));
        wanted.into(request);
        Map<?, ?> reply = program.ask("Verify", request);
        if (!Boolean.TRUE.equals(reply.get("verified"))) {
            throw new VerifyError(text(reply, "problem"));
        }
    }

    /** The calls that came, the oldest first. */
    public List<Call> calls() {
        return calls("");
    }

    /** The calls of a method. */
    public List<Call> calls(String method) {
        List<Call> all = new ArrayList<>();
        Map<String, Object> request = new LinkedHashMap<>(Map.of("session", session, "bodies", true, "limit", 1000));
        request.put("method", name(method));
        while (true) {
            List<?> calls = list(program.ask("ListCalls", request), "calls");
            if (calls.isEmpty()) {
                return all;
            }
            calls.forEach(call -> all.add(Call.of((Map<?, ?>) call)));
            request.put("after", all.get(all.size() - 1).number());
        }
    }

    /** The calls that no response with conditions answered, the closest first, each with the nearest response. */
    public List<NearMiss> nearMisses() {
        List<NearMiss> own = new ArrayList<>();
        Map<String, ?> wanted = Map.of("session", session, "limit", 1000);
        for (Object one : list(program.ask("NearMisses", wanted), "misses")) {
            Map<?, ?> miss = (Map<?, ?>) one;
            Call call = Call.of((Map<?, ?>) miss.get("call"));
            List<String> misses = list(miss, "misses").stream().map(Object::toString).toList();
            own.add(new NearMiss(call, text(miss, "nearest"), misses));
        }
        return own;
    }

    /** Forgets calls, counts and state; of a session its rules too. */
    public void reset() {
        program.ask("Reset", Map.of("session", session));
    }

    private static String name(String method) {
        return method.startsWith("/") ? method.substring(1) : method;
    }

    static String text(Map<?, ?> told, String key) {
        return told.get(key) instanceof String text ? text : "";
    }

    static List<?> list(Map<?, ?> told, String key) {
        return told.get(key) instanceof List<?> list ? list : List.of();
    }
}
