//! A result of at most 32 KiB: what is over comes with a cursor.
//!
//! The longest member of the result, a list or a text, is cut where the whole fits; `nextCursor`
//! says where it goes on, and is an argument of the same tool.

use serde_json::{Map, Value};

/// The most bytes of a result as JSON.
pub(crate) const BYTES_MAX: usize = 32 << 10;
/// What is left for the cursor.
const RESERVE: usize = 256;

/// The part of a result that a cursor asks for, of what fits.
///
/// # Errors
/// A cursor that means nothing.
pub(crate) fn page(value: Value, cursor: Option<&str>) -> Result<Value, String> {
    let mut object = match value {
        Value::Object(object) => object,
        other => Map::from_iter([("result".to_owned(), other)]),
    };
    let mut from = 0;
    if let Some(cursor) = cursor {
        let wrong =
            || format!("{cursor:?} is not a cursor of this tool; leave it out to begin anew");
        let (name, place) = cursor.rsplit_once('@').ok_or_else(wrong)?;
        from = place.parse().map_err(|_| wrong())?;
        // What the pages before said is not said again.
        let member = object.remove(name).ok_or_else(wrong)?;
        object = Map::from_iter([(name.to_owned(), after(member, from).ok_or_else(wrong)?)]);
    }
    if size(&object) <= BYTES_MAX {
        return Ok(Value::Object(object));
    }
    let longest = object.iter().max_by_key(|(_, value)| json_bytes(value));
    let Some(name) = longest.map(|(name, _)| name.clone()) else {
        return Ok(Value::Object(object));
    };
    let member = object.remove(&name).unwrap_or_default();
    let room = (BYTES_MAX - RESERVE).saturating_sub(size(&object) + name.len());
    let (part, taken) = fitting(member, room);
    object.insert(name.clone(), part);
    object.insert("nextCursor".to_owned(), Value::String(format!("{name}@{}", from + taken)));
    if size(&object) > BYTES_MAX {
        return Err("this is over 32 KiB; ask for less".to_owned());
    }
    Ok(Value::Object(object))
}

/// A list without its first items, a text without its first characters.
fn after(member: Value, from: usize) -> Option<Value> {
    match member {
        Value::Array(items) if from <= items.len() => Some(items.into_iter().skip(from).collect()),
        Value::String(text) => Some(Value::String(text.chars().skip(from).collect())),
        _ => None,
    }
}

/// What of a list or a text fits, and how many items or characters that are. One item that is too
/// large itself is told as cut text.
fn fitting(member: Value, room: usize) -> (Value, usize) {
    match member {
        Value::Array(items) => {
            let mut used = 2;
            let mut taken = Vec::new();
            for item in items {
                used += json_bytes(&item) + 1;
                if used > room {
                    if taken.is_empty() {
                        let text = item.to_string();
                        taken.push(Value::String(cut(&text, room / 2).0 + "… (cut)"));
                    }
                    break;
                }
                taken.push(item);
            }
            let count = taken.len();
            (Value::Array(taken), count)
        }
        Value::String(text) => {
            let (part, count) = cut(&text, room);
            (Value::String(part), count)
        }
        other => (Value::String(cut(&other.to_string(), room / 2).0 + "… (cut)"), 0),
    }
}

/// The characters of a text that fit into so many bytes of JSON.
fn cut(text: &str, room: usize) -> (String, usize) {
    let mut used = 2;
    let mut part = String::new();
    let mut count = 0;
    for char in text.chars() {
        used += match char {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            char if char.is_control() => 6,
            char => char.len_utf8(),
        };
        if used > room {
            break;
        }
        part.push(char);
        count += 1;
    }
    (part, count)
}

fn size(object: &Map<String, Value>) -> usize {
    let members = object.iter().map(|(name, value)| name.len() + 4 + json_bytes(value));
    2 + members.sum::<usize>()
}

fn json_bytes(value: &Value) -> usize {
    serde_json::to_string(value).map_or(usize::MAX, |text| text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// All pages of a result, one after another.
    fn pages(value: &Value) -> Vec<Value> {
        let (mut pages, mut cursor) = (Vec::new(), None);
        loop {
            let page = page(value.clone(), cursor.as_deref()).unwrap();
            assert!(page.to_string().len() <= BYTES_MAX);
            cursor = page["nextCursor"].as_str().map(str::to_owned);
            pages.push(page);
            if cursor.is_none() {
                return pages;
            }
        }
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        let small = json!({"calls": [1, 2, 3], "next": 3});
        assert_eq!(pages(&small), std::slice::from_ref(&small));
        assert_eq!(pages(&json!([1])), [json!({"result": [1]})]);
    }

    #[test]
    fn a_long_list_comes_in_pages_that_have_every_item_once() {
        let items: Vec<_> =
            (0..5000).map(|n| json!({"number": n, "text": "x".repeat(40)})).collect();
        let all = pages(&json!({"calls": items, "next": 7}));
        assert!(all.len() > 5 && all[0]["next"] == 7);
        let told: Vec<_> = all.iter().flat_map(|page| page["calls"].as_array().unwrap()).collect();
        assert!(told.iter().copied().eq(&items));
    }

    #[test]
    fn a_long_text_comes_in_pages_that_have_every_character_once() {
        let text: String = ["ä\"\\\n\u{1}", "plain"].concat().repeat(9000);
        let told: String = pages(&json!({"text": text}))
            .iter()
            .map(|page| page["text"].as_str().unwrap())
            .collect();
        assert_eq!(told, text);
    }

    #[test]
    fn one_item_that_is_too_large_is_cut_and_the_others_follow() {
        let all = pages(&json!({"lines": ["x".repeat(100_000), "short"]}));
        assert!(all[0]["lines"][0].as_str().unwrap().ends_with("… (cut)"));
        assert_eq!(all.last().unwrap()["lines"], json!(["short"]));
    }

    #[test]
    fn a_cursor_that_means_nothing_is_refused() {
        for cursor in ["", "calls", "calls@x", "other@1", "calls@9"] {
            assert!(page(json!({"calls": [1]}), Some(cursor)).is_err(), "{cursor}");
        }
    }
}
