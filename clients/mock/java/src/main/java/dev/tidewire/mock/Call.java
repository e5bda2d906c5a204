package dev.tidewire.mock;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * A call that came.
 *
 * @param number its number
 * @param method {@code shop.v1.Cart/GetPrice}
 * @param session empty where it named none
 * @param rule the response that answered, {@code FILE:LINE}; empty where the schema alone did
 * @param code {@code ok}, or the code of the error: {@code canceled} if the caller left, {@code deadline_exceeded} if its
 *     deadline passed; {@code running} while the call runs; the fault, such as {@code reset}, if one broke the answer
 * @param reason the message of the error; empty without one
 * @param requests the messages as JSON, without what is called a secret
 * @param headers those that it came with; one that is called a secret is empty
 */
public record Call(
        long number,
        String method,
        String session,
        String rule,
        String code,
        String reason,
        List<String> requests,
        Map<String, String> headers) {
    static Call of(Map<?, ?> told) {
        Map<String, String> headers = new TreeMap<>();
        for (Object header : Scope.list(told, "headers")) {
            Map<?, ?> one = (Map<?, ?>) header;
            headers.put(Scope.text(one, "name"), Scope.text(one, "value"));
        }
        return new Call(
                Long.parseLong(Scope.text(told, "number")),
                Scope.text(told, "method"),
                Scope.text(told, "session"),
                Scope.text(told, "rule"),
                Scope.text(told, "code"),
                Scope.text(told, "reason"),
                Scope.list(told, "requests").stream().map(Object::toString).toList(),
                headers);
    }
}
