//! Keys of sources whose type nobody here knows: those that programs in other languages name.

use tidewire_memo::SourceKey;

/// A key as it stands in the log, whatever its parts are.
///
/// ```
/// # mod tidewire {
/// #     pub mod memo { pub use tidewire_memo::*; }
/// #     pub mod oplog { pub use tidewire_oplog::*; }
/// # }
/// use tidewire::memo::Source;
/// use tidewire::oplog::TextKey;
///
/// // A source for keys that another program chooses:
/// let settings = Source::<TextKey>::new("settings");
/// assert_eq!(settings.changed(&TextKey("a/b".to_owned())), 0, "nothing was read yet");
/// ```
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
