//! Standard rules: `buf.validate.StringRules` and its like to tests.
//!
//! The input is an encoded message of rules. What has a number of 1000 or more in it is an
//! extension, a predefined rule in CEL, and compiled elsewhere.

use super::check::{Check, Constant, Range, RuleSite, Test};
use super::kind::Kind;
use super::pattern;
use super::plan::CountRule;
use super::violation::Element;
use super::wire_format::{self, Raw};

mod strings;

/// A message of rules, and where it is.
pub(super) struct Rules<'a> {
    /// Its number and name in `buf.validate.FieldRules`.
    pub(super) member: (u32, &'static str),
    pub(super) bytes: &'a [u8],
    /// The way to it, for the rules of items, keys and values.
    pub(super) prefix: &'a [Element],
}

/// A rule in the message of rules.
#[derive(Clone, Copy)]
pub(super) struct RuleField {
    pub(super) number: u32,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

/// The numbers of `const`, `lt` and `in` among the rules of a number or a time.
struct BoundNumbers {
    constant: u32,
    less: u32,
    /// 0 where there is no `in`.
    list: u32,
}

impl RuleField {
    fn new(number: u32, name: &'static str, kind: Kind) -> Self {
        Self { number, name, kind }
    }
}

impl Rules<'_> {
    /// The rules for a value of this type, or for the message that stands for one.
    ///
    /// # Errors
    /// What is wrong with a rule.
    pub(super) fn checks(&self, defined: impl Fn() -> Box<[i32]>) -> Result<Vec<Check>, String> {
        match self.member.1 {
            "string" => self.strings(),
            "bytes" => self.bytes(),
            "bool" => Ok(self.equal(1, Kind::Bool, &|raw| self.integer(Kind::Bool, raw))),
            "enum" => Ok(self.enums(defined)),
            "any" => Ok(self.any()),
            "field_mask" => Ok(self.field_mask()),
            "duration" => {
                self.times(&BoundNumbers { constant: 2, less: 3, list: 7 }, Kind::Message)
            }
            "timestamp" => {
                let mut checks =
                    self.times(&BoundNumbers { constant: 2, less: 3, list: 0 }, Kind::Message)?;
                checks.extend(self.around_now());
                Ok(checks)
            }
            _ => {
                let kind = self.kind();
                let mut checks =
                    self.times(&BoundNumbers { constant: 1, less: 2, list: 6 }, kind)?;
                if self.flag(8) && kind.is_float() {
                    checks.push(self.check(
                        "finite",
                        RuleField::new(8, "finite", Kind::Bool),
                        "must be finite",
                        Test::Finite,
                    ));
                }
                Ok(checks)
            }
        }
    }

    /// The type that these rules are for.
    fn kind(&self) -> Kind {
        let all = [
            Kind::Float,
            Kind::Double,
            Kind::Int32,
            Kind::Int64,
            Kind::Uint32,
            Kind::Uint64,
            Kind::Sint32,
            Kind::Sint64,
            Kind::Fixed32,
            Kind::Fixed64,
            Kind::Sfixed32,
            Kind::Sfixed64,
        ];
        let found = all.into_iter().find(|kind| kind.rules() == Some(self.member));
        found.unwrap_or(Kind::Message)
    }

    /// `const`, bounds, `in` and `not_in` of numbers and times; they are numbered alike from the
    /// first of each.
    fn times(&self, numbers: &BoundNumbers, kind: Kind) -> Result<Vec<Check>, String> {
        let BoundNumbers { constant: first, less, list } = *numbers;
        let constant = |raw: Raw<'_>| match self.member.1 {
            "duration" => Constant::Integer(duration(raw.bytes()).into()),
            "timestamp" => Constant::Integer(timestamp(raw.bytes())),
            _ => self.number(kind, raw),
        };
        let mut checks = self.equal(first, kind, &constant);
        if list > 0 {
            checks.extend(self.lists(list, kind, &constant));
        }
        let bound = |number| wire_format::last(self.bytes, number).map(&constant);
        let below =
            bound(less).map(|one| (one, false)).or_else(|| bound(less + 1).map(|one| (one, true)));
        let above = bound(less + 2)
            .map(|one| (one, false))
            .or_else(|| bound(less + 3).map(|one| (one, true)));
        if above.is_some() || below.is_some() {
            checks.push(self.range(above, below, less, kind));
        }
        Ok(checks)
    }

    fn range(
        &self,
        above: Option<(Constant, bool)>,
        below: Option<(Constant, bool)>,
        less: u32,
        kind: Kind,
    ) -> Check {
        let low = above.as_ref().map(|(one, inside)| {
            (if *inside { "gte" } else { "gt" }, less + 2 + u32::from(*inside), one, *inside)
        });
        let high = below.as_ref().map(|(one, inside)| {
            (if *inside { "lte" } else { "lt" }, less + u32::from(*inside), one, *inside)
        });
        let words = |name: &str, one: &Constant| {
            let words = match name {
                "gt" => "greater than",
                "gte" => "greater than or equal to",
                "lt" => "less than",
                _ => "less than or equal to",
            };
            format!("{words} {}", self.print(one))
        };
        let test = match (&above, &below) {
            (Some((Constant::Float(_), _)), _) | (_, Some((Constant::Float(_), _))) => {
                Test::Floats(Range { above: float(above.as_ref()), below: float(below.as_ref()) })
            }
            _ => Test::Integers(Range {
                above: integer(above.as_ref()),
                below: integer(below.as_ref()),
            }),
        };
        let turned = match &test {
            Test::Floats(range) => range.is_turned(),
            Test::Integers(range) => range.is_turned(),
            _ => false,
        };
        match (low, high) {
            (Some((name, number, one, _)), Some((other, _, limit, _))) => {
                let (and, exclusive) = if turned { ("or", "_exclusive") } else { ("and", "") };
                let message = format!("must be {} {and} {}", words(name, one), words(other, limit));
                self.check(
                    &format!("{name}_{other}{exclusive}"),
                    RuleField::new(number, name, kind),
                    &message,
                    test,
                )
            }
            (Some((name, number, one, _)), None) | (None, Some((name, number, one, _))) => self
                .check(
                    name,
                    RuleField::new(number, name, kind),
                    &format!("must be {}", words(name, one)),
                    test,
                ),
            (None, None) => self.check("gt", RuleField::new(0, "gt", kind), "", test),
        }
    }

    fn equal(&self, number: u32, kind: Kind, read: &dyn Fn(Raw<'_>) -> Constant) -> Vec<Check> {
        let one = wire_format::last(self.bytes, number).map(read);
        let check = |one| {
            let message = match (self.member.1, &one) {
                ("string", one) => format!("must equal `{}`", self.print(one)),
                ("bool", Constant::Integer(one)) => format!("must equal {}", *one != 0),
                ("bytes", Constant::Bytes(one)) => format!("must be {}", hex(one)),
                (_, one) => format!("must equal {}", self.print(one)),
            };
            self.check("const", RuleField::new(number, "const", kind), &message, Test::Equal(one))
        };
        one.map(check).into_iter().collect()
    }

    /// `in` at this number and `not_in` at the next.
    fn lists(&self, number: u32, kind: Kind, read: &dyn Fn(Raw<'_>) -> Constant) -> Vec<Check> {
        let list = |number| -> Box<[Constant]> {
            let mut found = Vec::new();
            for raw in wire_format::all(self.bytes, number) {
                match raw {
                    Raw::Bytes(packed)
                        if !matches!(kind, Kind::String | Kind::Bytes | Kind::Message) =>
                    {
                        let numbers = wire_format::packed(packed, kind.wire()).flatten();
                        found.extend(numbers.map(|bits| read(Raw::Varint(bits))));
                    }
                    raw => found.push(read(raw)),
                }
            }
            found.into()
        };
        let print = |list: &[Constant]| {
            let list: Vec<_> = list.iter().map(|one| self.print(one)).collect();
            list.join(", ")
        };
        let inside = list(number);
        let outside = list(number + 1);
        let mut checks = Vec::new();
        if !inside.is_empty() {
            let message = format!("must be in list [{}]", print(&inside));
            checks.push(self.check(
                "in",
                RuleField::new(number, "in", kind),
                &message,
                Test::In(inside),
            ));
        }
        if !outside.is_empty() {
            let message = format!("must not be in list [{}]", print(&outside));
            let rule = RuleField::new(number + 1, "not_in", kind);
            checks.push(self.check("not_in", rule, &message, Test::NotIn(outside)));
        }
        checks
    }

    fn enums(&self, defined: impl Fn() -> Box<[i32]>) -> Vec<Check> {
        let read = |raw: Raw<'_>| self.integer(Kind::Int32, raw);
        let mut checks = self.equal(1, Kind::Int32, &read);
        checks.extend(self.lists(3, Kind::Int32, &read));
        if self.flag(2) {
            let message = "value must be one of the defined enum values";
            let rule = RuleField::new(2, "defined_only", Kind::Bool);
            checks.push(self.check("defined_only", rule, message, Test::Defined(defined())));
        }
        checks
    }

    fn any(&self) -> Vec<Check> {
        let mut checks = self.lists(2, Kind::String, &|raw| Constant::Bytes(raw.bytes().into()));
        for check in &mut checks {
            check.site.message = match check.test {
                Test::In(_) => "type URL must be in the allow list".to_owned(),
                _ => "type URL must not be in the block list".to_owned(),
            };
        }
        checks
    }

    fn field_mask(&self) -> Vec<Check> {
        let paths = |bytes: &[u8], number| -> Box<[Box<[u8]>]> {
            wire_format::all(bytes, number).map(|path| Box::from(path.bytes())).collect()
        };
        let print = |paths: &[Box<[u8]>]| {
            let paths: Vec<_> = paths.iter().map(|path| String::from_utf8_lossy(path)).collect();
            format!("[{}]", paths.join(", "))
        };
        let mut checks = Vec::new();
        if let Some(mask) = wire_format::message(self.bytes, 1) {
            let wanted = paths(&mask, 1);
            let message = format!("must equal paths {}", print(&wanted));
            let rule = RuleField::new(1, "const", Kind::Message);
            checks.push(self.check("const", rule, &message, Test::MaskEqual(wanted)));
        }
        let inside = paths(self.bytes, 2);
        let outside = paths(self.bytes, 3);
        if !inside.is_empty() {
            let message = format!("must only contain paths in {}", print(&inside));
            checks.push(self.check(
                "in",
                RuleField::new(2, "in", Kind::String),
                &message,
                Test::MaskIn(inside),
            ));
        }
        if !outside.is_empty() {
            let message = format!("must not contain any paths in {}", print(&outside));
            let rule = RuleField::new(3, "not_in", Kind::String);
            checks.push(self.check("not_in", rule, &message, Test::MaskNotIn(outside)));
        }
        checks
    }

    fn around_now(&self) -> Vec<Check> {
        let mut checks = Vec::new();
        let forever = i128::from(i64::MAX) * 1_000_000_000;
        let mut push = |name, number, kind, message: String, test| {
            checks.push(self.check(name, RuleField::new(number, name, kind), &message, test));
        };
        if self.flag(7) {
            let test = Test::FromNow(forever, 0);
            push("lt_now", 7, Kind::Bool, "must be less than now".to_owned(), test);
        }
        if self.flag(8) {
            let test = Test::FromNow(0, forever);
            push("gt_now", 8, Kind::Bool, "must be greater than now".to_owned(), test);
        }
        if let Some(within) = wire_format::message(self.bytes, 9) {
            let within = i128::from(duration(&within));
            let message = format!("must be within {}s of now", seconds(within));
            push("within", 9, Kind::Message, message, Test::FromNow(within, within));
        }
        checks
    }

    /// `min_items` and `max_items`, or `min_pairs` and `max_pairs`.
    pub(super) fn counts(&self) -> Vec<CountRule> {
        let (low, high, unit) = match self.member.1 {
            "map" => ("min_pairs", "max_pairs", ["entry", "entries"]),
            _ => ("min_items", "max_items", ["item", "items"]),
        };
        let bound = |number| wire_format::last(self.bytes, number).map(Raw::bits);
        let site = |number, name: &'static str, words: &str, one: u64| {
            let message = format!("must contain {words} {one} {}", counted(one, unit));
            self.site(name, RuleField::new(number, name, Kind::Uint64), &message)
        };
        let least = bound(1).map(|min| CountRule {
            min,
            max: u64::MAX,
            site: site(1, low, "at least", min),
        });
        let most =
            bound(2).map(|max| CountRule { min: 0, max, site: site(2, high, "no more than", max) });
        least.into_iter().chain(most).collect()
    }

    /// `unique` of a list.
    pub(super) fn unique(&self) -> Option<RuleSite> {
        let message = "repeated value must contain unique items";
        self.flag(3).then(|| self.site("unique", RuleField::new(3, "unique", Kind::Bool), message))
    }

    fn flag(&self, number: u32) -> bool {
        wire_format::last(self.bytes, number).is_some_and(|raw| raw.bits() != 0)
    }

    pub(super) fn check(&self, id: &str, rule: RuleField, message: &str, test: Test) -> Check {
        Check { test, site: self.site(id, rule, message) }
    }

    /// What a violation of a rule says: the rule by number, name and type.
    pub(super) fn site(&self, id: &str, rule: RuleField, message: &str) -> RuleSite {
        let mut path = self.prefix.to_vec();
        path.push(Element::of_rule(self.member.0, self.member.1, Kind::Message));
        path.push(Element::of_rule(rule.number, rule.name, rule.kind));
        RuleSite { id: format!("{}.{id}", self.member.1), path, message: message.to_owned() }
    }

    fn integer(&self, kind: Kind, raw: Raw<'_>) -> Constant {
        Constant::Integer(kind.integer(raw.bits()))
    }

    fn number(&self, kind: Kind, raw: Raw<'_>) -> Constant {
        match kind.is_float() {
            true => Constant::Float(kind.float(raw.bits())),
            false => self.integer(kind, raw),
        }
    }

    fn print(&self, one: &Constant) -> String {
        match (self.member.1, one) {
            ("duration", Constant::Integer(nanos)) => format!("{}s", seconds(*nanos)),
            ("timestamp", Constant::Integer(nanos)) => super::cel::print_timestamp(*nanos),
            (_, Constant::Integer(number)) => number.to_string(),
            ("float", Constant::Float(number)) => (*number as f32).to_string(),
            (_, Constant::Float(number)) => number.to_string(),
            (_, Constant::Bytes(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        }
    }
}

fn float(bound: Option<&(Constant, bool)>) -> Option<(f64, bool)> {
    match bound {
        Some((Constant::Float(one), inside)) => Some((*one, *inside)),
        _ => None,
    }
}

fn integer(bound: Option<&(Constant, bool)>) -> Option<(i128, bool)> {
    match bound {
        Some((Constant::Integer(one), inside)) => Some((*one, *inside)),
        _ => None,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn seconds(nanos: i128) -> String {
    let text = format!("{}.{:09}", nanos / 1_000_000_000, (nanos % 1_000_000_000).abs());
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The nanoseconds of an encoded `google.protobuf.Duration`.
pub(super) fn duration(message: &[u8]) -> i64 {
    let Parts { seconds, nanos } = parts(message);
    super::cel::duration_nanos(seconds, nanos)
}

/// The nanoseconds since 1970 of an encoded `google.protobuf.Timestamp`.
pub(super) fn timestamp(message: &[u8]) -> i128 {
    let Parts { seconds, nanos } = parts(message);
    i128::from(seconds) * 1_000_000_000 + i128::from(nanos)
}

/// What a duration and a timestamp consist of.
struct Parts {
    seconds: i64,
    nanos: i64,
}

fn parts(message: &[u8]) -> Parts {
    let number = |number| match wire_format::all(message, number)
        .filter(|raw| matches!(raw, Raw::Varint(_)))
        .last()
    {
        Some(raw) => raw.bits().cast_signed(),
        None => 0,
    };
    Parts { seconds: number(1), nanos: i64::from(number(2) as i32) }
}

/// One of something, or several.
fn counted(count: u64, [one, several]: [&str; 2]) -> &str {
    if count == 1 { one } else { several }
}
