package dev.tidewire.mock;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** What is mocked, and how. */
public final class Options {
    private Path protos = Path.of("protos");
    private Path rules;
    private String program;
    private int port;
    private long seed;
    private boolean watch;
    private final List<String> more = new ArrayList<>();

    Options() {}

    /** A folder of {@code .proto} files, such a file, or a descriptor set; {@code protos} unless it is said. */
    public Options protos(Path path) {
        protos = path;
        return this;
    }

    /** A folder of rule files. */
    public Options rules(Path folder) {
        rules = folder;
        return this;
    }

    /** The program; that of the variable TIDEWIRE or the one on PATH unless it is said. */
    public Options program(String name) {
        program = name;
        return this;
    }

    /** The port; any that is free unless it is said. */
    public Options port(int number) {
        port = number;
        return this;
    }

    /** What chance follows from. */
    public Options seed(long number) {
        seed = number;
        return this;
    }

    /** Refuses requests that break rules of validation. */
    public Options validate() {
        return arguments("--validate");
    }

    /** What methods without rules answer: {@code generated}, or {@code unimplemented}. */
    public Options withoutRule(String what) {
        return arguments("--without-rule", what);
    }

    /** The URL of the real service, for calls that no rule answers. */
    public Options upstream(String url) {
        return arguments("--upstream", url);
    }

    /** Looks for changes of the files. */
    public Options watch() {
        watch = true;
        return this;
    }

    /** Further arguments of {@code tidewire mock}. */
    public Options arguments(String... words) {
        more.addAll(List.of(words));
        return this;
    }

    /** Starts the mock; returns once it listens. */
    public Mock start() {
        return new Mock(Program.start(this));
    }

    String program() {
        String known = System.getenv("TIDEWIRE");
        return program != null ? program : known != null ? known : "tidewire";
    }

    List<String> words(Path folder) {
        List<String> words = new ArrayList<>(List.of(program(), "mock", protos.toAbsolutePath().toString()));
        Path files = rules == null ? folder.resolve("rules") : rules.toAbsolutePath();
        words.addAll(List.of("--until-stdin-closes", "--rules", files.toString(), "--port", String.valueOf(port)));
        words.addAll(List.of("--config", folder.resolve("tidewire.toml").toString()));
        words.addAll(List.of("--set", "log.level=warn", "--set", "admin.listen=127.0.0.1:0"));
        words.addAll(List.of("--set", "admin.token_file=" + folder.resolve("token")));
        words.addAll(List.of("--seed", Long.toUnsignedString(seed)));
        if (!watch) {
            words.add("--no-watch");
        }
        words.addAll(more);
        return words;
    }
}
