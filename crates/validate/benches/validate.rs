//! What checking a request costs, in instructions.
//!
//! ```text
//! cargo bench -p tidewire-schema --bench validate --no-run
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null <bench> three_lengths 20000
//! ```
//!
//! Instructions a message are the difference of two runs, of N and of N/2 messages, over N/2. The
//! bar is 300 for a message with three string rules. Without a case, all are timed.

#![allow(clippy::print_stdout, reason = "a bench reports on standard output")]

use std::hint::black_box;
use std::time::Instant;

use tidewire_schema::Schema;
use tidewire_validate::RuleSet;

/// A case: its name, the message, and the message encoded.
const CASES: &[(&str, &str, &[u8])] = &[
    ("no_rules", "Plain", b"\x0a\x03Ada\x12\x08Lovelace\x1a\x0fada@example.com"),
    ("three_lengths", "Lengths", b"\x0a\x03Ada\x12\x08Lovelace\x1a\x0fada@example.com"),
    ("three_numbers", "Numbers", b"\x08\x07\x10\x80\x01\x19\x2a\0\0\0\0\0\0\0"),
    ("three_mixed", "Mixed", b"\x0a\x03Ada\x12\x08Lovelace\x1a\x0fada@example.com"),
    (
        "email_uuid_pattern",
        "Forms",
        b"\x0a\x0fada@example.com\x12\x24123e4567-e89b-12d3-a456-426614174000\x1a\x08Lovelace",
    ),
    ("one_cel", "Cel", b"\x0a\x03Ada\x12\x08Lovelace"),
];

const PROTO: &str = r#"
syntax = "proto3";
import "buf/validate/validate.proto";
message Plain { string first_name = 1; string surname = 2; string email = 3; }
message Lengths {
  string first_name = 1 [(buf.validate.field).string = {min_len: 1, max_len: 64}];
  string surname = 2 [(buf.validate.field).string = {min_len: 1, max_len: 64}];
  string email = 3 [(buf.validate.field).string = {min_len: 3, max_len: 254}];
}
message Numbers {
  int32 count = 1 [(buf.validate.field).int32 = {gt: 0, lte: 1000}];
  uint64 size = 2 [(buf.validate.field).uint64.gte = 1];
  fixed64 id = 3 [(buf.validate.field).fixed64.lt = 1000];
}
message Mixed {
  string first_name = 1 [(buf.validate.field).string.min_len = 1];
  string surname = 2 [(buf.validate.field).string.prefix = "Lo"];
  string email = 3 [(buf.validate.field).string.max_bytes = 100];
}
message Forms {
  string email = 1 [(buf.validate.field).string.email = true];
  string id = 2 [(buf.validate.field).string.uuid = true];
  string surname = 3 [(buf.validate.field).string.pattern = "^[A-Z][a-z]+$"];
}
message Cel {
  option (buf.validate.message).cel = {
    id: "names_differ" message: "names must differ" expression: "this.first_name != this.surname"
  };
  string first_name = 1;
  string surname = 2;
}
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("tidewire-validate-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("bench.proto"), PROTO)?;
    let schema = Schema::from_folder(&folder);
    std::fs::remove_dir_all(&folder)?;
    let rules = RuleSet::new(&schema?)?;

    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let rounds = arguments.get(1).map_or(Ok(1_000_000), |rounds| rounds.parse())?;
    for (case, name, message) in CASES {
        if arguments.first().is_some_and(|wanted| wanted != case) {
            continue;
        }
        let rules = rules.rules(name);
        let started = Instant::now();
        for _ in 0..rounds {
            if let Some(rules) = black_box(&rules) {
                black_box(rules.check(black_box(message)))?;
            }
        }
        let each = started.elapsed().as_nanos() as f64 / f64::from(rounds);
        println!("{case:<20} {each:>7.1} ns");
    }
    Ok(())
}
