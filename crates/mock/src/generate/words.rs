//! What the name of a field says of its values, and words to make values of.

use crate::random::Random;

type Form = fn(&mut Random) -> String;

pub(super) const KEYS: [&str; 6] = ["alpha", "beta", "gamma", "delta", "north", "south"];
const FIRST: [&str; 12] = [
    "Ada", "Alan", "Barbara", "Claude", "Donald", "Edsger", "Frances", "Grace", "Hedy", "Ken",
    "Niklaus", "Radia",
];
const LAST: [&str; 12] = [
    "Lovelace", "Turing", "Liskov", "Shannon", "Knuth", "Dijkstra", "Allen", "Hopper", "Lamarr",
    "Thompson", "Wirth", "Perlman",
];
const NOUNS: [&str; 12] = [
    "river", "lantern", "orchard", "harbor", "meadow", "compass", "anchor", "signal", "canyon",
    "ember", "willow", "summit",
];
const ADJECTIVES: [&str; 10] = [
    "quiet", "bright", "northern", "early", "copper", "gentle", "rapid", "hidden", "golden",
    "distant",
];
const CITIES: [&str; 8] =
    ["Lisbon", "Nairobi", "Oslo", "Kyoto", "Quito", "Utrecht", "Hanoi", "Tallinn"];
const COUNTRIES: [&str; 8] = ["PT", "KE", "NO", "JP", "EC", "NL", "VN", "EE"];
const CURRENCIES: [&str; 5] = ["EUR", "USD", "JPY", "GBP", "CHF"];
const COLORS: [&str; 6] = ["red", "green", "blue", "amber", "teal", "violet"];
const COMPANIES: [&str; 6] = [
    "Harbor Works",
    "Northwind Mills",
    "Copper & Pine",
    "Lantern Labs",
    "Delta Freight",
    "Summit Foods",
];

/// Forms that a rule of validation may ask for.
pub(super) const FORMS: [(&str, Form); 15] = [
    ("string.email", email),
    ("string.hostname", hostname),
    ("string.ip", ipv4),
    ("string.ipv4", ipv4),
    ("string.ipv6", ipv6),
    ("string.uri", uri),
    ("string.uri_ref", uri),
    ("string.address", hostname),
    ("string.uuid", Random::uuid),
    ("string.tuuid", |random| random.uuid().replace('-', "")),
    ("string.host_and_port", |random| format!("{}:8080", hostname(random))),
    ("string.ip_with_prefixlen", |random| format!("{}/24", ipv4(random))),
    ("string.ipv4_with_prefixlen", |random| format!("{}/24", ipv4(random))),
    ("string.ipv6_with_prefixlen", |random| format!("{}/64", ipv6(random))),
    ("string.ipv4_prefix", |random| format!("10.{}.0.0/16", random.below(256))),
];

fn pick(words: &[&'static str], random: &mut Random) -> &'static str {
    words[random.below(words.len())]
}

fn email(random: &mut Random) -> String {
    let first = pick(&FIRST, random);
    let last = pick(&LAST, random);
    format!("{first}.{last}@example.com").to_lowercase()
}

fn hostname(random: &mut Random) -> String {
    format!("{}-{}.example.com", pick(&ADJECTIVES, random), pick(&NOUNS, random))
}

/// An address that documents use.
fn ipv4(random: &mut Random) -> String {
    format!("192.0.2.{}", 1 + random.below(254))
}

fn ipv6(random: &mut Random) -> String {
    format!("2001:db8::{:x}", 1 + random.below(0xfffe))
}

fn uri(random: &mut Random) -> String {
    format!("https://{}/{}", hostname(random), pick(&NOUNS, random))
}

/// The words of a name: `createdAt` and `created_at` are `created` and `at`.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && before.is_lowercase()) {
            parts.push(String::new());
        }
        if c != '_'
            && let Some(last) = parts.last_mut()
        {
            last.extend(c.to_lowercase());
        }
        before = c;
    }
    parts
}

/// Whether a field of this name says which one a thing is.
pub(super) fn is_id(name: &str) -> bool {
    let last = name.rsplit('_').next().unwrap_or_default();
    matches!(last, "id" | "key" | "uuid" | "guid" | "sku" | "slug")
}

/// The last part of a type's full name in words: `line_item` of `shop.v1.LineItem`.
pub(super) fn type_name(full_name: &str) -> String {
    parts(full_name.rsplit('.').next().unwrap_or_default()).join("_")
}

/// Whether things of a type, by its full name, are people: `User`, `GetUserReply`.
fn is_person(full_name: &str) -> bool {
    let parts = parts(full_name.rsplit('.').next().unwrap_or_default());
    let said = parts.iter().rev().find(|part| !WRAPPERS.contains(&&***part));
    said.is_some_and(|part| PEOPLE.contains(&part.as_str()))
}

const PEOPLE: [&str; 31] = [
    "user",
    "person",
    "people",
    "customer",
    "client",
    "contact",
    "employee",
    "member",
    "author",
    "owner",
    "student",
    "teacher",
    "patient",
    "doctor",
    "driver",
    "rider",
    "guest",
    "host",
    "player",
    "passenger",
    "recipient",
    "sender",
    "manager",
    "buyer",
    "speaker",
    "attendee",
    "applicant",
    "candidate",
    "worker",
    "friend",
    "profile",
];

/// What types are called beside what is in them.
const WRAPPERS: [&str; 10] = [
    "reply", "response", "request", "result", "info", "details", "data", "dto", "summary", "record",
];

/// Text for a field of this name, in a message of this type.
pub(super) fn text(name: &str, owner: &str, random: &mut Random) -> String {
    let parts = parts(name);
    let is_name = matches!(name, "name" | "display_name" | "full_name");
    if is_name && is_person(owner) {
        return full_name(random);
    }
    let has =
        |word: &str| parts.iter().any(|part| part == word || part.strip_suffix('s') == Some(word));
    let ends = |word: &str| {
        parts.last().is_some_and(|part| part == word || part.strip_suffix('s') == Some(word))
    };
    let known: [(bool, Form); 26] = [
        (ends("token") && (has("page") || has("next") || has("cursor")), |_| String::new()),
        (has("email") || has("mail"), email),
        (has("first") && ends("name") || ends("forename"), |r| pick(&FIRST, r).to_owned()),
        (has("last") && ends("name") || ends("surname"), |r| pick(&LAST, r).to_owned()),
        (has("user") && ends("name") || ends("username") || ends("login") || ends("handle"), |r| {
            format!("{}{}", pick(&FIRST, r).to_lowercase(), 1 + r.below(99))
        }),
        (has("host") || ends("hostname") || ends("domain"), hostname),
        (has("file") && ends("name") || ends("filename") || ends("path"), |r| {
            format!("{}.txt", pick(&NOUNS, r))
        }),
        (has("company") || has("organization") || has("vendor"), |r| {
            pick(&COMPANIES, r).to_owned()
        }),
        (
            has("full") && ends("name") || ends("author") || ends("owner") || ends("customer"),
            full_name,
        ),
        (ends("city") || ends("town"), |r| pick(&CITIES, r).to_owned()),
        (has("country") || ends("region"), |r| pick(&COUNTRIES, r).to_owned()),
        (has("currency"), |r| pick(&CURRENCIES, r).to_owned()),
        (ends("color") || ends("colour"), |r| pick(&COLORS, r).to_owned()),
        (ends("street") || ends("address"), |r| {
            format!("{} {} Street", 1 + r.below(200), capital(pick(&NOUNS, r)))
        }),
        (ends("zip") || ends("postcode") || has("postal"), |r| format!("{:05}", r.below(100_000))),
        (ends("phone") || ends("mobile") || ends("fax"), |r| {
            format!("+1555{:07}", r.below(10_000_000))
        }),
        (ends("url") || ends("uri") || ends("link") || ends("website") || ends("avatar"), uri),
        (ends("ip"), ipv4),
        (ends("uuid") || ends("guid"), Random::uuid),
        (ends("id") || ends("key"), |r| format!("{:08x}", r.next() & 0xffff_ffff)),
        (ends("locale") || ends("language") || ends("lang"), |_| "en-US".to_owned()),
        (ends("sku"), |r| format!("SK-{:04}", r.below(10_000))),
        (ends("version"), |r| format!("{}.{}.{}", 1 + r.below(4), r.below(10), r.below(20))),
        (ends("date"), |r| format!("2024-{:02}-{:02}", 1 + r.below(12), 1 + r.below(28))),
        (
            ends("description")
                || ends("text")
                || ends("message")
                || ends("comment")
                || ends("note")
                || ends("summary")
                || ends("body")
                || ends("content"),
            sentence,
        ),
        (ends("title") || ends("name") || ends("label"), |r| {
            format!("{} {}", capital(pick(&ADJECTIVES, r)), pick(&NOUNS, r))
        }),
    ];
    match known.into_iter().find(|(is, _)| *is) {
        Some((_, form)) => form(random),
        None => format!("{} {}", pick(&ADJECTIVES, random), pick(&NOUNS, random)),
    }
}

fn full_name(random: &mut Random) -> String {
    format!("{} {}", pick(&FIRST, random), pick(&LAST, random))
}

fn sentence(random: &mut Random) -> String {
    let a = pick(&ADJECTIVES, random);
    let b = pick(&NOUNS, random);
    let c = pick(&ADJECTIVES, random);
    let d = pick(&NOUNS, random);
    format!("The {a} {b} is near the {c} {d}.")
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// From where to where integers of a field of this name lie.
pub(super) fn integers(name: &str) -> (i128, i128) {
    let parts = parts(name);
    let ends = |word: &str| {
        parts.last().is_some_and(|part| part == word || part.strip_suffix('s') == Some(word))
    };
    match () {
        () if ends("age") => (18, 90),
        () if ends("year") => (2000, 2030),
        () if ends("month") => (1, 12),
        () if ends("day") => (1, 28),
        () if ends("hour") => (0, 23),
        () if ends("minute") || ends("second") => (0, 59),
        () if ends("percent") || ends("percentage") || ends("progress") => (0, 100),
        () if ends("rating") || ends("star") => (1, 5),
        () if ends("port") => (1024, 65535),
        () if ends("page") => (1, 1),
        () if ends("timestamp") || ends("at") => (1_704_067_200, 1_735_689_599),
        () if ends("nano") => (0, 999_999_999),
        () => (1, 1000),
    }
}

/// From where to where other numbers of a field of this name lie.
pub(super) fn floats(name: &str) -> (f64, f64) {
    let parts = parts(name);
    let has = |word: &str| parts.iter().any(|part| part.starts_with(word));
    match () {
        () if has("lat") => (-90.0, 90.0),
        () if has("lon") || has("lng") => (-180.0, 180.0),
        () if has("ratio") || has("probab") || has("score") || has("confidence") => (0.0, 1.0),
        () if has("percent") => (0.0, 100.0),
        () if has("rating") => (1.0, 5.0),
        () if has("temperature") => (-20.0, 40.0),
        () => (1.0, 1000.0),
    }
}
