package dev.tidewire.mock;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Method;
import com.google.protobuf.SourceContext;
import com.google.protobuf.Syntax;
import java.io.BufferedReader;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The library against the program that TIDEWIRE names. */
class MockTest {
    private static final Path PROTOS = Path.of("../tests/protos");
    private static final String GET_PRICE = "shop.v1.Cart/GetPrice";
    private static final HttpClient CLIENT = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    private static Mock mock;

    @BeforeAll
    static void start() {
        mock = Mock.options().protos(PROTOS).start();
    }

    @AfterAll
    static void end() {
        mock.close();
    }

    private static String price(Scope scope, String request, String... headers) {
        HttpRequest.Builder asked = scope.request("/" + GET_PRICE).header("content-type", "application/json");
        if (headers.length > 0) {
            asked.headers(headers);
        }
        try {
            return CLIENT.send(asked.POST(BodyPublishers.ofString(request)).build(), BodyHandlers.ofString()).body();
        } catch (IOException | InterruptedException failed) {
            throw new IllegalStateException(failed);
        }
    }

    private static byte[] proto(Scope scope, String method, byte[] request, String type) throws Exception {
        HttpRequest.Builder asked = scope.request("/shop.v1.Cart/" + method).header("content-type", type);
        return CLIENT.send(asked.POST(BodyPublishers.ofByteArray(request)).build(), BodyHandlers.ofByteArray()).body();
    }

    @Test
    void itAnswersAsItWasToldAndFromItsSchemaWhereItWasNot() {
        try (Session session = mock.session()) {
            session.on(GET_PRICE).with("sku", "tea").withHeader("x-tenant", Map.of("in", List.of("acme")))
                    .reply(Map.of("unit_price", 4));
            session.on(GET_PRICE).with(Map.of("quantity", Map.of("gte", 100))).delay(Duration.ofMillis(1))
                    .header("x-a", "b").reply(Map.of("note", "bulk \"é\" 😀\n"));
            assertEquals("{\"unitPrice\":\"4\"}", price(session, "{\"sku\":\"tea\"}", "x-tenant", "acme"));
            assertEquals("{\"note\":\"bulk \\\"é\\\" 😀\\n\"}", price(session, "{\"quantity\":250}"));
            assertTrue(price(session, "{\"sku\":\"tea\"}").contains("\"note\":"));
        }
    }

    @Test
    void itFailsSoOftenAndAnswersThen() {
        try (Session session = mock.session()) {
            session.on(GET_PRICE).times(1).fail("unavailable", "try again");
            session.on(GET_PRICE).reply(Map.of("unit_price", 9));
            assertEquals("{\"code\":\"unavailable\",\"message\":\"try again\"}", price(session, "{}"));
            assertEquals("{\"unitPrice\":\"9\"}", price(session, "{}"));
        }
    }

    @Test
    void itAnswersWithAStream() throws Exception {
        try (Session session = mock.session()) {
            session.on("shop.v1.Cart/WatchPrice").replyStream(Map.of("note", "a"), Map.of("note", "b"));
            byte[] request = {0, 0, 0, 0, 2, '{', '}'};
            String reply = new String(proto(session, "WatchPrice", request, "application/connect+json"));
            assertTrue(reply.matches("(?s).*\\{\"note\":\"a\"}.*\\{\"note\":\"b\"}.*"), reply);
        }
    }

    @Test
    void itTakesMessagesOfProtobuf() throws Exception {
        try (Session session = mock.session()) {
            SourceContext wanted = SourceContext.newBuilder().setFileName("shop.proto").build();
            Method message = Method.newBuilder().setName("GetPrice").setRequestStreaming(true)
                    .setSyntax(Syntax.SYNTAX_PROTO3).build();
            session.on("shop.v1.Cart/Find").with(wanted).reply(message);
            byte[] reply = proto(session, "Find", wanted.toByteArray(), "application/proto");
            assertArrayEquals(message.toByteArray(), reply);
            session.verify("shop.v1.Cart/Find", Wanted.exactly(1).with(wanted));
        }
    }

    @Test
    void sessionsThatRunBesideOneAnotherAreApart() {
        IntStream.rangeClosed(1, 20).parallel().forEach(number -> {
            try (Session session = mock.session()) {
                session.on(GET_PRICE).times(2).reply(Map.of("unit_price", number));
                session.on(GET_PRICE).fail("not_found", "used up");
                String request = "{\"quantity\":" + number + "}";
                String priced = "{\"unitPrice\":\"" + number + "\"}";
                String used = "{\"code\":\"not_found\",\"message\":\"used up\"}";
                for (String reply : List.of(priced, priced, used)) {
                    assertEquals(reply, price(session, request));
                }
                session.verify(GET_PRICE, Wanted.exactly(3).with("quantity", number));
                assertEquals(3, session.calls(GET_PRICE).size());
                session.reset();
                assertEquals(List.of(), session.calls());
                assertNotEquals(used, price(session, request), "its rules are gone");
            }
        });
    }

    @Test
    void itTellsTheCallsAndThoseThatNoRuleWasFor() {
        try (Session session = mock.session("told")) {
            session.on(GET_PRICE).with("sku", "tea").reply();
            price(session, "{\"sku\":\"milk\"}");
            Call call = session.calls().get(0);
            assertEquals(List.of(GET_PRICE, "told", "ok"), List.of(call.method(), call.session(), call.code()));
            assertEquals(List.of("{\"sku\":\"milk\"}"), call.requests());
            assertEquals(List.of("request.sku is \"milk\", wanted \"tea\""), session.nearMisses().get(0).misses());
        }
    }

    @Test
    void verifyFailsWithTheCallsThatCameNear() {
        try (Session session = mock.session()) {
            price(session, "{\"sku\":\"milk\",\"quantity\":7}");
            session.verify(GET_PRICE);
            session.verify(GET_PRICE, Wanted.never().with("sku", "tea"));
            Wanted wanted = Wanted.exactly(3).with("sku", "tea").with("quantity", 7);
            String told = assertThrows(VerifyError.class, () -> session.verify(GET_PRICE, wanted)).getMessage();
            String near = "(?s).*expected exactly 3 calls of .*, got 0\n  closest: call \\d+\n    sku is \"milk\", wanted \"tea\".*";
            assertTrue(told.matches(near), told);
        }
    }

    @Test
    void aWrongRuleIsRefusedWhereItIsAdded() {
        Map<String, Consumer<Rule>> wrong = Map.of(
                "GetPriceReply has no field unit_prise; write unit_price", it -> it.reply(Map.of("unit_prise", 4)),
                "\"dear\" is not a valid int64", it -> it.reply(Map.of("unit_price", "dear")),
                "GetPriceRequest has no field skuu", it -> it.with("skuu", "tea").reply(),
                "not a code of an error; write unavailable", it -> it.fail("unavaliable", ""),
                "not a kind of fault", it -> it.fault(Map.of("kind", "rset")).reply());
        wrong.forEach((why, add) -> {
            MockException told = assertThrows(MockException.class, () -> add.accept(mock.on(GET_PRICE)));
            assertEquals("invalid_argument", told.code());
            assertTrue(told.getMessage().contains(why), told.getMessage());
            assertTrue(Arrays.stream(told.getStackTrace()).anyMatch(it -> it.getFileName().equals("MockTest.java")));
        });
        Rule rule = mock.on("shop.v1.Cart/GetPrize");
        assertEquals("not_found", assertThrows(MockException.class, rule::reply).code());
    }

    @Test
    void answersGoWrongWhereTheyAreToldTo() {
        try (Session session = mock.session()) {
            session.on(GET_PRICE).fault(Map.of("kind", "truncate", "after", 3)).reply(Map.of("note", "long enough"));
            assertThrows(IllegalStateException.class, () -> price(session, "{}"));
        }
    }

    /** The test that is killed. */
    static final class Killed {
        public static void main(String[] arguments) throws Exception {
            Mock mock = Mock.options().protos(PROTOS).start();
            mock.on(GET_PRICE).reply(Map.of("note", String.valueOf(ProcessHandle.current().pid())));
            System.out.println(mock.url());
            System.in.read();
        }
    }

    @Test
    @Timeout(60) // Only a mock that goes on takes so long.
    void itEndsWhenTheTestThatStartedItIsKilled() throws Exception {
        String java = ProcessHandle.current().info().command().orElseThrow();
        String path = System.getProperty("java.class.path");
        Process child = new ProcessBuilder(java, "-cp", path, Killed.class.getName())
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try (BufferedReader lines = child.inputReader()) {
            HttpRequest ask = HttpRequest.newBuilder(URI.create(lines.readLine() + "/" + GET_PRICE))
                    .header("content-type", "application/json").POST(BodyPublishers.ofString("{}")).build();
            String note = "{\"note\":\"" + child.pid() + "\"}";
            assertEquals(note, CLIENT.send(ask, BodyHandlers.ofString()).body());
            child.destroyForcibly().waitFor();
            // Until nobody answers, or another mock has its port.
            while (CLIENT.send(ask, BodyHandlers.ofString()).body().equals(note)) {
                Thread.onSpinWait();
            }
        } catch (IOException nobody) {
            assertFalse(child.isAlive());
        }
    }

    @Test
    void aPortThatIsTakenAndAProgramThatIsNotThereOrIsAnotherOneAreTold() throws Exception {
        try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            int port = taken.getLocalPort();
            refused(Mock.options().protos(PROTOS).port(port), "127.0.0.1:" + port + " is in use by another program");
        }
        refused(Mock.options().protos(PROTOS).program("/no/tidewire"), "put tidewire on PATH");
        refused(Mock.options().protos(PROTOS).program("true"), "true mock ended with code 0");
        refused(Mock.options().protos(PROTOS).arguments("--newer"), "too old for this package");
        refused(Mock.options().protos(Path.of("/no/protos")), "there is no service in /no/protos");
    }

    private static void refused(Options options, String why) {
        String told = assertThrows(MockException.class, options::start).getMessage();
        assertTrue(told.contains(why), told);
    }

    @Test
    void aMockThatHasEndedSaysSoAndHow() throws Exception {
        try (Mock one = Mock.options().protos(PROTOS).start()) {
            one.process().destroyForcibly();
            MockException told = assertThrows(MockException.class, () -> one.on(GET_PRICE).reply());
            assertEquals("unavailable", told.code());
            assertTrue(told.getMessage().startsWith("the mock ended with code 137"), told.getMessage());
        }
        assertFalse(mock.url().isEmpty());
    }
}
