//! Keys of sources as text: a source of this program has those that programs in all languages
//! write.

use serde_json::Value;
use tidewire_memo::SourceKey;

#[test]
fn keys_have_the_text_that_programs_give_them() {
    let fixtures: Vec<Value> =
        serde_json::from_str(include_str!("../../../../tests/fixtures/live/keys.json")).unwrap();
    let (mut checked, mut whole) = (0, 0);
    for fixture in &fixtures {
        let Some(text) = fixture["text"].as_str() else { continue };
        let parts = fixture["parts"].as_array().unwrap().iter();
        for (part, text) in parts.zip(text.split('/')) {
            let (kind, value) = part.as_object().unwrap().iter().next().unwrap();
            let value = value.as_str().unwrap_or_default();
            match kind.as_str() {
                "int" => check(value.parse::<i128>().unwrap(), text),
                "bool" => check(part["bool"].as_bool().unwrap(), text),
                "text" => check(value.to_owned(), text),
                "absent" => check(None::<String>, text),
                "bytes" => check(unhex(value), text),
                // No key here, and one there if it is whole.
                "double" => match text.parse::<i128>() {
                    Ok(number) => whole += usize::from(number.to_text() == text),
                    Err(_) => continue,
                },
                _ => panic!("{kind} is a new one"),
            }
            checked += 1;
        }
    }
    assert!(checked > 20 && whole > 5, "{checked} parts, of which {whole} whole doubles");
}

fn check<K: SourceKey>(key: K, text: &str) {
    assert_eq!(key.to_text(), text);
    assert_eq!(K::from_text(text), Some(key), "{text}");
}

fn unhex(text: &str) -> Vec<u8> {
    let pairs = (0..text.len()).step_by(2).map(|at| &text[at..at + 2]);
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}
