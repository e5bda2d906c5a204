//! Random input of every kind: nothing panics, and what is read can be sent on.

use tidewire_schema::{Path, Value};
use tidewire_service::Codec;

use crate::{schema, text};

/// `SplitMix64`: the same seed gives the same bytes.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }
}

/// The same each time, so that a failure is of the change that it fails for; `DYNAMIC_SEED=n` tries
/// others.
fn seed() -> u64 {
    std::env::var("DYNAMIC_SEED").ok().map_or(1, |text| text.parse().unwrap())
}

#[test]
fn bytes_that_are_no_message_do_not_panic() {
    let mut random = Random(seed());
    let schema = schema();
    let (mut read, mut refused) = (0, 0);
    for _ in 0..20_000 {
        // Tags of real fields more often than chance would have them.
        let bytes: Vec<u8> = (0..random.below(40))
            .map(|_| match random.below(3) {
                0 => u8::try_from(random.below(26) << 3 | random.below(6)).unwrap_or(0),
                1 => u8::try_from(random.below(8)).unwrap(),
                _ => u8::try_from(random.below(256)).unwrap(),
            })
            .collect();
        match schema.decode("shop.v1.Item", Codec::Proto, &bytes) {
            Ok(message) => {
                read += 1;
                let sent = message.encode(Codec::Proto).unwrap();
                assert_eq!(schema.decode("shop.v1.Item", Codec::Proto, &sent).unwrap(), message);
                if let Ok(json) = message.encode(Codec::Json) {
                    schema.decode_exactly("shop.v1.Item", &json).unwrap();
                }
            }
            Err(_) => refused += 1,
        }
    }
    assert!(read > 100 && refused > 100, "{read} read, {refused} refused");
}

#[test]
fn json_that_is_cut_or_garbled_does_not_panic() {
    let mut random = Random(seed());
    let schema = schema();
    let whole = br#"{"name":"\u00fc","count":"12","price":4.2,"color":"COLOR_RED","key":"AAEC",
        "tags":["a"],"labels":{"a":"b"},"parts":{"1":{"size":2}},"parent":{"notes":{"a":[1,null]}},
        "madeAt":"2026-01-02T03:04:05Z","age":"1.5s","mask":"a,bC","maybe":"7","anyJson":[{}],
        "extra":{"@type":"a/google.protobuf.Duration","value":"1s"},"flags":{"true":1}}"#;
    assert!(schema.decode_exactly("shop.v1.Item", whole).is_ok());
    let mut read = 0;
    for _ in 0..20_000 {
        let mut bytes = whole.to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            match random.below(3) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] = *b"\"{}[]:,0-.eNtf\\\xff".get(random.below(16)).unwrap(),
                _ => drop(bytes.remove(at)),
            }
            if bytes.is_empty() {
                break;
            }
        }
        if let Ok(message) = schema.decode("shop.v1.Item", Codec::Json, &bytes) {
            read += 1;
            let again = schema.decode_exactly("shop.v1.Item", text(&message).as_bytes());
            assert_eq!(again.unwrap(), message);
        }
    }
    assert!(read > 100, "{read} were read");
}

#[test]
fn random_paths_read_set_and_clear_without_a_panic() {
    const STEPS: [&str; 24] = [
        "name", "count", "price", "color", "key", "size", "tags", "labels", "parts", "items",
        "country", "parent", "made_at", "notes", "any_json", "maybe", "mask", "extra", "flags",
        "nothing", "fields", "[0]", "[1]", "[true]",
    ];
    let mut random = Random(seed());
    let mut message = schema().message("shop.v1.Item").unwrap();
    let (mut done, mut refused) = (0, 0);
    for round in 0..20_000 {
        let mut path = String::new();
        for _ in 0..=random.below(5) {
            let step = STEPS[random.below(STEPS.len())];
            if !step.starts_with('[') && !path.is_empty() {
                path.push('.');
            }
            path.push_str(step);
        }
        let Ok(path) = path.parse::<Path>() else { continue };
        let _ = message.get(&path);
        let before = message.clone();
        let value = match random.below(8) {
            0 => Value::from(true),
            1 => Value::from(i64::MIN),
            2 => Value::from(f64::NAN),
            3 => Value::from("2026-01-02T03:04:05Z"),
            4 => Value::from("COLOR_RED"),
            5 => Value::from(&[1_u8, 2][..]),
            6 => Value::from(&before),
            _ => match before.fields().nth(random.below(6)) {
                Some((_, value)) => value,
                None => Value::from(0),
            },
        };
        let outcome = match random.below(6) {
            0 => message.clear(&path),
            _ => message.set(&path, value),
        };
        match outcome {
            Ok(()) => done += 1,
            Err(_) => {
                refused += 1;
                assert_eq!(message, before, "{path}");
            }
        }
        let size = message.encode(Codec::Proto).unwrap().len();
        if round % 50 == 0 || size > 20_000 {
            message = schema().message("shop.v1.Item").unwrap();
        }
    }
    assert!(done > 1_000 && refused > 1_000, "{done} done, {refused} refused");
}
