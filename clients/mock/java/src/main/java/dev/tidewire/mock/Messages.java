package dev.tidewire.mock;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.LinkedHashMap;
import java.util.Map;

/** Messages of protobuf, by reflection: nothing depends on it where nobody uses it. */
final class Messages {
    private Messages() {}

    static boolean is(Object value) {
        for (Class<?> type = value.getClass(); type != null; type = type.getSuperclass()) {
            if (type.getName().equals("com.google.protobuf.AbstractMessage")) {
                return true;
            }
        }
        return false;
    }

    static String json(Object message) {
        try {
            ClassLoader loader = message.getClass().getClassLoader();
            Class<?> format = Class.forName("com.google.protobuf.util.JsonFormat", true, loader);
            Object printer = format.getMethod("printer").invoke(null);
            Class<?> type = Class.forName("com.google.protobuf.MessageOrBuilder", true, loader);
            Method print = printer.getClass().getMethod("print", type);
            return (String) print.invoke(printer, message);
        } catch (ClassNotFoundException absent) {
            String why = "messages of protobuf need com.google.protobuf:protobuf-java-util among the dependencies";
            throw new MockException("failed_precondition", why);
        } catch (InvocationTargetException wrong) {
            throw new MockException("invalid_argument", String.valueOf(wrong.getCause().getMessage()));
        } catch (ReflectiveOperationException other) {
            throw new MockException("failed_precondition", "protobuf-java-util is another than expected: " + other);
        }
    }

    /** What is wanted of requests, by path: of a message, all that is set in it. */
    static Map<String, Object> conditions(Object wanted) {
        Map<String, Object> conditions = new LinkedHashMap<>();
        if (wanted instanceof Map<?, ?> paths) {
            paths.forEach((path, value) -> conditions.put(path.toString(), value));
        } else if (is(wanted)) {
            Object told = Json.read(json(wanted));
            if (told instanceof Map<?, ?> fields) {
                fields.forEach((field, value) -> conditions.put(field.toString(), equalTo(value)));
            } else {
                conditions.put("", equalTo(told));
            }
        } else {
            throw new IllegalArgumentException("neither a map nor a message of protobuf: " + wanted);
        }
        return conditions;
    }

    private static Map<String, Object> equalTo(Object value) {
        Map<String, Object> operator = new LinkedHashMap<>();
        operator.put("equals", value);
        return operator;
    }
}
