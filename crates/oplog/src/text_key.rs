//! Keys of sources whose type nobody here knows: those that programs in other languages name.

use tidewire_memo::SourceKey;

/// A key as it stands in the log, whatever its parts are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TextKey(pub String);

impl SourceKey for TextKey {
    fn to_text(&self) -> String {
        self.0.clone()
    }

    fn from_text(text: &str) -> Option<Self> {
        Some(Self(text.to_owned()))
    }
}
