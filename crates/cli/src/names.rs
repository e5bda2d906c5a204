//! Which of the known names was probably meant.

/// `; did you mean x?` for a near name; otherwise all of them, if they are few.
pub(crate) fn suggestion<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
) -> String {
    if let Some(near) = near(name, known.clone()) {
        return format!("; did you mean {near}?");
    }
    let known: Vec<_> = known.into_iter().collect();
    match known.len() {
        0 => String::new(),
        1..=SHOWN_MAX => format!("; there is {}", known.join(", ")),
        more => {
            format!("; there is {} and {} more", known[..SHOWN_MAX].join(", "), more - SHOWN_MAX)
        }
    }
}

/// The nearest name, if it is near enough.
pub(crate) fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    known
        .into_iter()
        .map(|known| (strsim::jaro_winkler(&wanted, &known.to_lowercase()), known))
        .filter(|(likeness, _)| *likeness >= NEAR)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, known)| known)
}

const NEAR: f64 = 0.85;
const SHOWN_MAX: usize = 12;
