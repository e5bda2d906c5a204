package dev.tidewire.mock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class JsonTest {
    @Test
    void whatIsWrittenIsReadAgain() {
        for (String text : List.of("{}", "[]", "{\"a\":[1,-2.5,true,false,null,{\"b\":\"\"}]}", "\"a \\\" \\\\ é\"")) {
            assertEquals(text, Json.write(Json.read(text)));
        }
        assertEquals("\n\t/😀", Json.read(" \"\\n\\t\\/\\ud83d\\ude00\" "));
        assertEquals("\"\\u000a\\ud83d\\ude00\"", Json.write("\n😀"));
        assertEquals("{\"a\":\"AQI=\"}", Json.write(Map.of("a", new byte[] {1, 2})));
    }

    @Test
    void whatIsNotJsonIsRefused() {
        for (String text : List.of("", "{", "[1", "\"a", "{\"a\" 1}", "tru", "1 2", "{1:2}", "[1 2]")) {
            assertThrows(IllegalArgumentException.class, () -> Json.read(text), text);
        }
    }
}
