package dev.tidewire.mock;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * JSON of maps, lists, texts, numbers, booleans and null, and back; and of messages of protobuf, if
 * protobuf-java-util is there. The standard library has none.
 */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map<?, ?> map) {
            String comma = "{";
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                write(String.valueOf(entry.getKey()), out.append(comma));
                write(entry.getValue(), out.append(':'));
                comma = ",";
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Iterable<?> items) {
            String comma = "";
            out.append('[');
            for (Object item : items) {
                write(item, out.append(comma));
                comma = ",";
            }
            out.append(']');
        } else if (value instanceof Object[] items) {
            write(Arrays.asList(items), out);
        } else if (value == null || value instanceof Boolean || value instanceof Number) {
            out.append(value);
        } else if (value instanceof byte[] bytes) {
            quote(Base64.getEncoder().encodeToString(bytes), out);
        } else if (Messages.is(value)) {
            out.append(Messages.json(value));
        } else {
            quote(value instanceof Enum<?> one ? one.name() : value.toString(), out);
        }
    }

    private static void quote(String text, StringBuilder out) {
        out.append('"');
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || Character.isSurrogate(c)) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }

    /** The value of a text. */
    static Object read(String text) {
        Json json = new Json(text);
        Object value = json.value();
        json.space();
        if (json.at < text.length()) {
            throw json.wrong();
        }
        return value;
    }

    private Object value() {
        space();
        char c = at < text.length() ? text.charAt(at) : ' ';
        switch (c) {
            case '{':
                Map<String, Object> map = new LinkedHashMap<>();
                at++;
                while (!took('}')) {
                    if (!map.isEmpty()) {
                        expect(',');
                    }
                    space();
                    String key = string();
                    expect(':');
                    map.put(key, value());
                }
                return map;
            case '[':
                List<Object> list = new ArrayList<>();
                at++;
                while (!took(']')) {
                    if (!list.isEmpty()) {
                        expect(',');
                    }
                    list.add(value());
                }
                return list;
            case '"':
                return string();
            case 't':
                return word("true", true);
            case 'f':
                return word("false", false);
            case 'n':
                return word("null", null);
            default:
                int from = at;
                while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
                    at++;
                }
                if (from == at) {
                    throw wrong();
                }
                return new BigDecimal(text.substring(from, at));
        }
    }

    private String string() {
        expect('"');
        StringBuilder out = new StringBuilder();
        while (at < text.length()) {
            char c = text.charAt(at++);
            if (c == '"') {
                return out.toString();
            }
            if (c != '\\') {
                out.append(c);
                continue;
            }
            char escape = at < text.length() ? text.charAt(at++) : ' ';
            int known = "nrtbf".indexOf(escape);
            if (escape == 'u' && at + 4 <= text.length()) {
                out.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                at += 4;
            } else {
                out.append(known < 0 ? escape : "\n\r\t\b\f".charAt(known));
            }
        }
        throw wrong();
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw wrong();
        }
        at += word.length();
        return value;
    }

    private boolean took(char c) {
        space();
        boolean is = at < text.length() && text.charAt(at) == c;
        at += is ? 1 : 0;
        return is;
    }

    private void expect(char c) {
        if (!took(c)) {
            throw wrong();
        }
    }

    private void space() {
        while (at < text.length() && Character.isWhitespace(text.charAt(at))) {
            at++;
        }
    }

    private IllegalArgumentException wrong() {
        return new IllegalArgumentException("not JSON at " + at + ": " + text);
    }
}
