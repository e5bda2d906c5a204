package dev.tidewire.mock;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/**
 * The program {@code tidewire mock}, and what its admin listener is asked.
 *
 * <p>It listens on a free port, and its admin listener on another with a token that only this process
 * knows. Its standard input is a pipe from here: when this process ends, however it ends, the mock
 * reads the end of it and ends too.
 */
final class Program {
    /** How long the mock may take until it listens; only one that hangs takes so long. */
    private static final long START_SECONDS = 60;

    /** How long the system may take to tell that a program has ended which does not listen any more. */
    private static final long END_SECONDS = 5;

    /** How much of what the mock logs is kept for errors. */
    private static final int LOG_CHARACTERS = 16_384;

    final Process process;
    String address;
    private final String name;
    private final Thread reading;
    private final StringBuffer log = new StringBuffer();
    // Without a proxy: the program is of this machine.
    private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private String admin;
    private String token;

    private Program(String name, List<String> words) {
        this.name = name;
        ProcessBuilder builder = new ProcessBuilder(words);
        // Settings of the machine are not those of a test.
        builder.environment().keySet().removeIf(variable -> variable.startsWith("TIDEWIRE_"));
        try {
            process = builder.start();
        } catch (IOException absent) {
            String next = "put tidewire on PATH, or name the program by TIDEWIRE or Options.program";
            String why = name + " cannot be started (" + absent.getMessage() + "); " + next;
            throw new MockException("unavailable", why);
        }
        reading = new Thread(this::readLog, "tidewire mock");
        reading.setDaemon(true);
        reading.start();
    }

    /** Starts it; returns once it listens. */
    static Program start(Options options) {
        try {
            Path folder = Files.createTempDirectory("tidewire-mock-");
            try {
                Files.createFile(folder.resolve("tidewire.toml"));
                String name = options.program();
                Program program = new Program(name, options.words(folder));
                try {
                    program.listens();
                    program.token = Files.readString(folder.resolve("token")).strip();
                } catch (IOException | RuntimeException failed) {
                    program.close();
                    throw failed;
                }
                return program;
            } finally {
                // The mock has read what is in it, so nothing is left behind by a process that is killed.
                for (String file : List.of("tidewire.toml", "token", ".")) {
                    Files.deleteIfExists(folder.resolve(file).normalize());
                }
            }
        } catch (IOException failed) {
            throw new MockException("unavailable", "the mock cannot be started: " + failed);
        }
    }

    private void readLog() {
        try (BufferedReader lines = process.errorReader(StandardCharsets.UTF_8)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                log.append(line).append('\n');
                log.delete(0, Math.max(0, log.length() - LOG_CHARACTERS));
            }
        } catch (IOException ended) {
            log.append(ended.getMessage());
        }
    }

    private void listens() throws IOException {
        Thread late = new Thread(() -> {
            try {
                if (!process.waitFor(START_SECONDS, TimeUnit.SECONDS)) {
                    process.destroyForcibly();
                }
            } catch (InterruptedException started) {
                Thread.currentThread().interrupt();
            }
        });
        late.setDaemon(true);
        late.start();
        BufferedReader lines = process.inputReader(StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.startsWith("listening on ")) {
                address = line.substring("listening on ".length());
            } else if (line.startsWith("admin on ")) {
                admin = line.substring("admin on ".length());
            } else if (line.startsWith("mocking ")) {
                late.interrupt();
                return;
            }
        }
        String why = ended();
        String told = log.toString().strip();
        if (told.contains("unexpected argument")) {
            String old = name + " is too old for this package, or an argument is not one of its:\n";
            throw new MockException("unavailable", old + told);
        }
        throw new MockException("unavailable", name + " mock " + why + ":\n" + told);
    }

    /** How it ended. */
    private String ended() {
        try {
            int code = process.waitFor();
            reading.join();
            return "ended with code " + code;
        } catch (InterruptedException stop) {
            Thread.currentThread().interrupt();
            return "ended";
        }
    }

    /** The reply of a method of {@code tidewire.admin.v1.Mocks}. */
    Map<?, ?> ask(String verb, Map<String, ?> request) {
        HttpRequest asked = HttpRequest.newBuilder(URI.create("http://" + admin + "/tidewire.admin.v1.Mocks/" + verb))
                .header("content-type", "application/json")
                .header("authorization", "Bearer " + token)
                .POST(HttpRequest.BodyPublishers.ofString(Json.write(request)))
                .build();
        HttpResponse<String> response;
        try {
            response = client.send(asked, HttpResponse.BodyHandlers.ofString());
        } catch (IOException failed) {
            throw new MockException("unavailable", whyDead(failed));
        } catch (InterruptedException stop) {
            Thread.currentThread().interrupt();
            throw new MockException("canceled", "the thread was interrupted");
        }
        boolean isJson = response.headers().firstValue("content-type").orElse("").startsWith("application/json");
        Map<?, ?> told = isJson ? (Map<?, ?>) Json.read(response.body()) : Map.of();
        if (response.statusCode() == 200) {
            return told;
        }
        String code = told.get("code") instanceof String known ? known : "unknown";
        String message = told.get("message") instanceof String why ? why : "the mock answers " + response.statusCode();
        if (code.equals("not_found")) {
            // A method may be missing because its file does not compile.
            message += log.toString().lines().filter(line -> line.contains(" ERROR ")).map(line -> "\n" + line)
                    .collect(Collectors.joining());
        }
        throw new MockException(code, message);
    }

    /** How it ended and what it said last, where it has ended; nobody listens where it did. */
    private String whyDead(IOException failed) {
        try {
            if (process.waitFor(END_SECONDS, TimeUnit.SECONDS)) {
                return "the mock " + ended() + ":\n" + log.toString().strip();
            }
        } catch (InterruptedException stop) {
            Thread.currentThread().interrupt();
        }
        return "the mock does not answer: " + failed;
    }

    void close() {
        try {
            process.getOutputStream().close();
        } catch (IOException gone) {
            // It has ended already.
        }
        ended();
        try (InputStream said = process.getInputStream()) {
            said.skip(Long.MAX_VALUE);
        } catch (IOException gone) {
            // Nothing is left.
        }
    }
}
