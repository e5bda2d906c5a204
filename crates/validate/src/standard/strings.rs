//! Rules of strings and bytes.

use super::super::wire_format::Raw;
use super::{Check, Constant, Kind, RuleField, Rules, Test, counted, hex, pattern, wire_format};

/// A form that strings may have to have.
struct Form {
    /// Its number and name in `StringRules`.
    number: u32,
    name: &'static str,
    /// What messages call it.
    words: &'static str,
    is: fn(&[u8]) -> bool,
}

const fn form(number: u32, name: &'static str, words: &'static str, is: fn(&[u8]) -> bool) -> Form {
    Form { number, name, words, is }
}

const FORMS: [Form; 20] = [
    form(12, "email", "email address", crate::formats::is_email),
    form(13, "hostname", "hostname", crate::formats::is_hostname),
    form(14, "ip", "IP address", |text| crate::formats::is_ip(text, 0)),
    form(15, "ipv4", "IPv4 address", |text| crate::formats::is_ip(text, 4)),
    form(16, "ipv6", "IPv6 address", |text| crate::formats::is_ip(text, 6)),
    form(17, "uri", "URI", crate::formats::is_uri),
    form(18, "uri_ref", "URI Reference", crate::formats::is_uri_ref),
    form(21, "address", "hostname, or ip address", crate::formats::is_address),
    form(22, "uuid", "UUID", crate::formats::is_uuid),
    form(26, "ip_with_prefixlen", "IP prefix", |text| crate::formats::is_ip_prefix(text, 0, false)),
    form(27, "ipv4_with_prefixlen", "IPv4 address with prefix length", |text| {
        crate::formats::is_ip_prefix(text, 4, false)
    }),
    form(28, "ipv6_with_prefixlen", "IPv6 address with prefix length", |text| {
        crate::formats::is_ip_prefix(text, 6, false)
    }),
    form(29, "ip_prefix", "IP prefix", |text| crate::formats::is_ip_prefix(text, 0, true)),
    form(30, "ipv4_prefix", "IPv4 prefix", |text| crate::formats::is_ip_prefix(text, 4, true)),
    form(31, "ipv6_prefix", "IPv6 prefix", |text| crate::formats::is_ip_prefix(text, 6, true)),
    form(32, "host_and_port", "host (hostname or IP address) and port pair", |text| {
        crate::formats::is_host_and_port(text, true)
    }),
    form(33, "tuuid", "trimmed UUID", crate::formats::is_tuuid),
    form(35, "ulid", "ULID", crate::formats::is_ulid),
    form(37, "protobuf_fqn", "fully-qualified Protobuf name", crate::formats::is_protobuf_name),
    form(
        38,
        "protobuf_dot_fqn",
        "fully-qualified Protobuf name with a leading dot",
        crate::formats::is_protobuf_dot_name,
    ),
];

impl Rules<'_> {
    pub(super) fn strings(&self) -> Result<Vec<Check>, String> {
        let mut checks = self.lengths(
            ["character", "characters"],
            Test::Characters,
            [("len", 19), ("min_len", 2), ("max_len", 3)],
        );
        checks.extend(self.lengths(
            ["byte", "bytes"],
            Test::Size,
            [("len_bytes", 20), ("min_bytes", 4), ("max_bytes", 5)],
        ));
        checks.extend(self.equal(1, Kind::String, &constant));
        checks.extend(self.pattern((6, "does not match regex pattern"))?);
        checks.extend(self.parts([7, 8, 9], Kind::String));
        if let Some(part) = self.part(23) {
            let message = format!("contains substring `{}`", String::from_utf8_lossy(&part));
            let rule = RuleField::new(23, "not_contains", Kind::String);
            checks.push(self.check("not_contains", rule, &message, Test::NotContains(part)));
        }
        checks.extend(self.lists(10, Kind::String, &constant));
        for Form { number, name, words, is } in FORMS {
            if self.flag(number) {
                let rule = RuleField::new(number, name, Kind::Bool);
                checks.push(self.check(
                    name,
                    rule,
                    &format!("must be a valid {words}"),
                    Test::Form(is),
                ));
                if name != "uri_ref" {
                    checks.push(self.not_empty(name, rule, words));
                }
            }
        }
        self.headers(&mut checks);
        Ok(checks)
    }

    pub(super) fn bytes(&self) -> Result<Vec<Check>, String> {
        let mut checks = self.lengths(
            ["byte", "bytes"],
            Test::Size,
            [("len", 13), ("min_len", 2), ("max_len", 3)],
        );
        checks.extend(self.equal(1, Kind::Bytes, &constant));
        checks.extend(self.pattern((4, "must match regex pattern"))?);
        checks.extend(self.parts([5, 6, 7], Kind::Bytes));
        checks.extend(self.lists(8, Kind::Bytes, &constant));
        let forms: [(u32, &str, &str, &[usize]); 4] = [
            (10, "ip", "IP address", &[4, 16]),
            (11, "ipv4", "IPv4 address", &[4]),
            (12, "ipv6", "IPv6 address", &[16]),
            (15, "uuid", "UUID", &[16]),
        ];
        for (number, name, words, sizes) in forms {
            if self.flag(number) {
                let rule = RuleField::new(number, name, Kind::Bool);
                let message = format!("must be a valid {words}");
                checks.push(self.check(name, rule, &message, Test::SizeIn(sizes)));
                checks.push(self.not_empty(name, rule, words));
            }
        }
        Ok(checks)
    }

    fn not_empty(&self, name: &str, rule: RuleField, words: &str) -> Check {
        let article = if words.starts_with("host (") { "host and port pair" } else { words };
        let message = format!("value is empty, which is not a valid {article}");
        self.check(&format!("{name}_empty"), rule, &message, Test::NotEmpty)
    }

    /// Exact, least and most.
    fn lengths(
        &self,
        unit: [&str; 2],
        test: fn(u64, u64) -> Test,
        rules: [(&'static str, u32); 3],
    ) -> Vec<Check> {
        let mut checks = Vec::new();
        for (at, (name, number)) in rules.into_iter().enumerate() {
            let Some(one) = wire_format::last(self.bytes, number).map(Raw::bits) else { continue };
            let (words, test) = match at {
                0 => ("", test(one, one)),
                1 => ("at least ", test(one, u64::MAX)),
                _ => ("at most ", test(0, one)),
            };
            let message = format!("must be {words}{one} {}", counted(one, unit));
            checks.push(self.check(
                name,
                RuleField::new(number, name, Kind::Uint64),
                &message,
                test,
            ));
        }
        checks
    }

    fn pattern(&self, (number, words): (u32, &str)) -> Result<Option<Check>, String> {
        let Some(text) = self.part(number) else { return Ok(None) };
        let text = String::from_utf8_lossy(&text);
        let compiled = pattern::compile(&text).map_err(|why| format!("pattern: {why}"))?;
        let rule = RuleField::new(number, "pattern", Kind::String);
        let test = Test::Pattern(compiled);
        Ok(Some(self.check("pattern", rule, &format!("{words} `{text}`"), test)))
    }

    /// `prefix`, `suffix` and `contains`.
    fn parts(&self, [prefix, suffix, inside]: [u32; 3], kind: Kind) -> Vec<Check> {
        type Make = fn(Box<[u8]>) -> Test;
        let rules: [(u32, &str, &str, Make); 3] = [
            (prefix, "prefix", "does not have prefix", Test::Prefix),
            (suffix, "suffix", "does not have suffix", Test::Suffix),
            (inside, "contains", "does not contain", Test::Contains),
        ];
        let mut checks = Vec::new();
        for (number, name, words, make) in rules {
            let Some(part) = self.part(number) else { continue };
            let message = match (kind, name) {
                (Kind::Bytes, _) => format!("{words} {}", hex(&part)),
                (_, "contains") => {
                    format!("{words} substring `{}`", String::from_utf8_lossy(&part))
                }
                _ => format!("{words} `{}`", String::from_utf8_lossy(&part)),
            };
            checks.push(self.check(name, RuleField::new(number, name, kind), &message, make(part)));
        }
        checks
    }

    fn part(&self, number: u32) -> Option<Box<[u8]>> {
        wire_format::last(self.bytes, number).map(|raw| raw.bytes().into())
    }

    /// `well_known_regex`: names and values of HTTP headers.
    fn headers(&self, checks: &mut Vec<Check>) {
        let strict = wire_format::last(self.bytes, 25).is_none_or(|raw| raw.bits() != 0);
        let rule = RuleField::new(24, "well_known_regex", Kind::Enum);
        match wire_format::last(self.bytes, 24).map(Raw::bits) {
            Some(1) => {
                let words = "HTTP header name";
                let is = if strict {
                    crate::formats::is_header_name
                } else {
                    crate::formats::is_one_line
                };
                let name = "well_known_regex.header_name";
                let message = format!("must be a valid {words}");
                checks.push(self.check(name, rule, &message, Test::Form(is)));
                checks.push(self.not_empty(name, rule, words));
            }
            Some(2) => {
                let is = if strict {
                    crate::formats::is_header_value
                } else {
                    crate::formats::is_one_line
                };
                let message = "must be a valid HTTP header value";
                let test = Test::FormAlways(is);
                checks.push(self.check("well_known_regex.header_value", rule, message, test));
            }
            _ => {}
        }
    }
}

fn constant(raw: Raw<'_>) -> Constant {
    Constant::Bytes(raw.bytes().into())
}
